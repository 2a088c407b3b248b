#!/usr/bin/env python3
"""Energy of decoding by vLLM 0.11.1 on H100 and B200 as ML.ENERGY's leaderboard has it, and as llmprof predicts it: leaderboard.py PROGRAM CHECKOUT

CHECKOUT is github.com/ml-energy/leaderboard (0cd52dab), whose figures have no licence and are compared here without being kept. Rows have up to
16 sequences, which always run, for with more of them the servers wait for their clients; rows whose time between tokens is predicted more than
15 % off are left out, since their energy is off for that. Lengths of prompts are not in the file: 128 and 256 tokens are taken.
"""
import json
import pathlib
import statistics
import subprocess
import sys

PROMPTS = {"lm-arena-chat": "128", "gpqa": "256"}
MODELS = {"Qwen3-8B": "qwen3-8b", "Qwen3-14B": "qwen3-14b", "Qwen3-32B": "qwen3-32b", "gemma-3-12b-it": "gemma3-12b", "gemma-3-27b-it": "gemma3-27b",
          "Llama-3.1-8B-Instruct": "llama3.1-8b", "Llama-3.1-70B-Instruct": "llama3.1-70b", "Llama-3.3-70B-Instruct": "llama3.1-70b",
          "Llama-3.1-405B-Instruct-FP8": "llama3.1-405b", "gpt-oss-20b": "gpt-oss-20b", "gpt-oss-120b": "gpt-oss-120b",
          "Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b", "Qwen3-235B-A22B-Instruct-2507": "qwen3-235b-a22b"}


def main():
    program, checkout = sys.argv[1:]
    groups = {}
    for path in sorted(pathlib.Path(checkout).glob("public/data/models/*.json")):
        _, name, task = path.stem.split("__")
        if name not in MODELS or task not in PROMPTS:
            continue
        for c in json.loads(path.read_text())["configurations"]:
            split = c["parallelization"]
            batch, ep = round(c["avg_batch_size"]), split["expert_parallel"]
            if batch > 16 or c["avg_batch_size"] < 0.9 * c["max_num_seqs"] or split["data_parallel"] > 1:
                continue
            ranks = max(split["tensor_parallel"], ep)
            command = ["estimate", MODELS[name], c["gpu_model"].lower(), "--engine", "vllm@0.11.1", "--memory-utilization", "0.98", "--batch", str(batch), "--prompt-len", PROMPTS[task],
                       "--gen-len", str(round(c["avg_output_len"])), "--tp", str(ranks), "--format", "json"]
            command += ["--weights", "fp8"] * name.endswith("FP8") + ["--ep", str(ep)] * (ep > 1)
            done = subprocess.run([program, *command], capture_output=True, text=True)
            if "does not fit" in done.stderr + done.stdout:
                continue  # with that many tokens of each sequence at once
            if done.returncode:
                sys.exit(done.stderr)
            said = json.loads(done.stdout)
            time = said["tpot_s"]["expected"] / (c["median_itl_ms"] / 1e3) - 1
            joules, measured, per = said["energy_j"]["per_request"], c["energy_per_token_joules"], round(c["avg_output_len"])
            span = said["energy_j"]["per_request_interval"]
            inside = span["low"] <= measured * per <= span["high"]
            kept = abs(time) <= 0.15
            kind = "MXFP4" if "gpt-oss" in name else "FP8" if name.endswith("FP8") else "16 bits"
            print(f"{c['gpu_model']} {ranks} {name:30} {task:13} {batch:2}: time {time:+5.0%}, {joules / per:.3f} J/token for {measured:.3f}, "
                  f"{joules / per / measured - 1:+5.0%}{' inside' if inside else ''}{'' if kept else ', left out'}")
            if kept:
                groups.setdefault((c["gpu_model"], kind), []).append((joules / per / measured - 1, inside))
    for (gpu, kind), rows in sorted(groups.items()):
        errors = [e for e, _ in rows]
        print(f"{gpu}, {kind}: {len(rows)} rows, {min(errors):+.0%} to {max(errors):+.0%}, median {statistics.median(errors):+.0%}, "
              f"{sum(i for _, i in rows)} inside")


main()
