#!/usr/bin/env python3
"""Observations of one engine from points.jsonl.gz, as CSV: reduce.py FOLDER... --ENGINE

TTFT is the last first token's of prompts that are sent together. TPOT is the time of steps in which all sequences decode: between tokens
after that, or of engines whose answers come in groups, the rest of the time over the rest of the tokens.
"""
import gzip
import json
import os
import statistics
import sys

RELEASES = {"vllm": ("h200-vllm-0.33", "0.33.0", "vLLM 0.33.0, Python API"), "sglang": ("h200-sglang-0.5.23", "0.5.23", "SGLang 0.5.23, Python API")}
MODELS = {"v-9b": ("qwen3.5-9b", "bf16"), "v-35b": ("qwen3.6-35b-a3b", "bf16"), "v-nemotron": ("nemotron-3-nano-30b-a3b", "bf16"),
          "v-gemma": ("gemma3-12b", "bf16"), "v-mla": ("deepseek-v2-lite", "bf16"), "s-gptoss": ("gpt-oss-20b", "mxfp4"),
          "v-70b": ("llama3.1-70b", "bf16"), "v-30b": ("qwen3-30b-a3b", "bf16"), "v-27b": ("qwen3.6-27b", "bf16"), "s-70b": ("llama3.1-70b", "bf16"),
          **{m: (m, "bf16") for m in ("llama3.1-8b", "qwen3.5-9b", "deepseek-v2-lite", "qwen3-30b-a3b")},
          "gpt-oss-20b": ("gpt-oss-20b", "mxfp4")}
FOLDERS, ENGINE = sys.argv[1:-1], sys.argv[-1].removeprefix("--")
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models.json")
PARAMS = {m["name"]: m["params"] for m in json.load(open(TABLE))}
TRITON = ("v-9b", "v-35b", "v-27b")  # FlashInfer was not installed, so that gated delta nets ran by Triton
SAME = ("s-gptoss",)  # Its router has a bias, which dummy weights let decide, so that all tokens use the same experts (dummy_router.py).
COMPILED = (("vllm", "gpt-oss-20b"),)  # vLLM compiled Triton's routing during prompts of several sequences, for 0.1 to 2 s (its jit_monitor).
WHOLE = {"whole-triton": "gpt-oss-20b", "whole-triton-120b": "gpt-oss-120b"}  # models of experiments/h200-experts that have all of their layers
FITTED = (("llama3.1-8b", 1, 128, "ttft_s"),)  # The host's time of a piece of a prompt comes from it (experiments/h200-sglang).
HEADER = "source,id,model,gpu,engine,mode,release,tp,ep,option,batch,prompt_len,gen_len,weights,kv,load,all_logits,params,metric,value,low,high,device,samples,marks,note"


def main():
    source, release, note = RELEASES[ENGINE]
    print(HEADER)
    option, tp, ep = "", 1, ""
    for line in (line for folder in FOLDERS for line in gzip.open(os.path.join(folder, "points.jsonl.gz"), "rt")):
        row = json.loads(line)
        if row["kind"] == "engine":
            args = row["args"]
            option = "eager" if args.get("enforce_eager") else ""
            tp = args.get("tensor_parallel_size", args.get("tp_size", 1))
            ep = tp if args.get("enable_expert_parallel") else ""
        if row["kind"] == "tpot" and row["job"] in WHOLE:
            model = WHOLE[row["job"]]
            print(f"{source},{model}-b{row['batch']}-p{row['prompt']}-g{row['gen']},{model},h200-sxm-141gb,vllm,,{release},1,,,{row['batch']},{row['prompt']},{row['gen']},mxfp4,,"
                  f"static,,{PARAMS[model]},tpot_s,{row['tail']:.7g},,,,1,,\"{note}\"")
        if row["kind"] != "point" or row["engine"] != ENGINE:
            continue
        job = row["job"].removesuffix("-again").removesuffix("-prefix").removesuffix("-tp2").removesuffix("-ep2")
        if job not in MODELS:  # a model of a few layers
            continue
        model, weights = MODELS[job]
        if job in TRITON:
            option = "gdn-triton"
        split = f"-tp{tp}" * (tp > 1) + f"-ep{ep}" * (ep != "")
        repeats = row["repeats"]
        ttft = [r["ttft_last"] for r in repeats]
        tpot = [r["tail"] if ENGINE == "vllm" else (r["wall"] - r["ttft_last"]) / (row["gen"] - 1) for r in repeats]
        for metric, xs in (("ttft_s", ttft), ("tpot_s", tpot)):
            if job in SAME and (row["batch"] > 1 or metric == "ttft_s") or (model, row["batch"], row["prompt"], metric) in FITTED:
                continue
            if (ENGINE, job) in COMPILED and row["batch"] > 1 and metric == "ttft_s":
                continue
            print(f"{source},{model}-b{row['batch']}-p{row['prompt']}{split},{model},h200-sxm-141gb,{row['engine']},,{release},{tp},{ep},{option},{row['batch']},{row['prompt']},"
                  f"{row['gen']},{weights},,static,,{PARAMS[model]},{metric},{statistics.median(xs):.7g},{min(xs):.7g},{max(xs):.7g},,{len(xs)},,\"{note}\"")


main()
