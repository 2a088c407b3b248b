#!/usr/bin/env python3
"""Draw what run.sh serves: prepare.py FOLDER writes FOLDER/models, FOLDER/LOAD.jsonl and FOLDER/loads.tsv, by the program in $LLMPROF.

Loads are Poisson arrivals for 20 s at 50 and 80 % of the largest stable rate that `llmprof estimate --rate` names for the server.
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys

ENGINE = "vllm@0.33.0+gdn-triton"
ARCHITECTURES = {"qwen3.5-9b": "Qwen3_5ForCausalLM", "qwen3.6-35b-a3b": "Qwen3_5MoeForCausalLM"}
PROMPT, GENERATED, SECONDS = 1024, 128, 20


def model(folder, name, config):
    folder.mkdir(parents=True, exist_ok=True)
    config = {k: v for k, v in config.items() if k != "vision_config" and not k.startswith("mtp_")}
    config |= {"architectures": [ARCHITECTURES[name]], "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    vocab = {f"w{i}": i for i in range(config["vocab_size"])}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}))


def capacity(name):
    said = subprocess.run([os.environ.get("LLMPROF", "llmprof"), "estimate", name, "h200", "--engine", ENGINE, "--prompt-len", str(PROMPT),
                           "--gen-len", str(GENERATED), "--rate", "1000"], capture_output=True, text=True)
    return float(re.search(r"largest stable rate is ([\d.]+)", said.stderr + said.stdout)[1])


def main():
    to, table = pathlib.Path(sys.argv[1]), ["load\tmodel\trate"]
    configs = {m["name"]: m["config"] for m in json.load(open(pathlib.Path(os.environ.get("MODELS", "models.json"))))}
    for name in ARCHITECTURES:
        model(to / "models" / name, name, configs[name])
        largest = capacity(name)
        for percent in (50, 80):
            load, rate = f"{name}-{percent}", round(largest * percent / 100, 1)
            r, at = random.Random(f"h200 {load}"), 0.0
            with open(to / f"{load}.jsonl", "w") as f:
                while at < SECONDS:
                    f.write(json.dumps({"time": round(at, 4), "prompt": PROMPT, "generated": GENERATED}) + "\n")
                    at += r.expovariate(rate)
            table.append(f"{load}\t{name}\t{rate}")
    (to / "loads.tsv").write_text("\n".join(table) + "\n")


main()
