#!/usr/bin/env python3
"""Draw the requests of each load: loads.py FOLDER h100|h200|h100-mixture|h100-others writes FOLDER/LOAD.jsonl and FOLDER/loads.tsv.

first-traces are those of h100. second-traces are those of h200; an H100 came to measure them. third-traces are those of h100-mixture, fourth-traces
those of h100-others.

Poisson arrivals for 20 s at a share of the largest stable rate that `llmprof estimate --rate` names for the server; $LLMPROF is the program."""
import json, os, pathlib, random, re, subprocess, sys

SERVERS = {  # GPU: server, model, weights, prompt and generated tokens, percents of the capacity
    "h100": (("qwen3-8b-fp8", "qwen3-8b", "fp8", 1024, 128, (20, 50, 80, 95, 120)),
             ("qwen2.5-7b", "qwen2.5-7b", "bf16", 1024, 128, (50, 80, 95, 120)),
             ("qwen2.5-7b-short", "qwen2.5-7b", "bf16", 256, 128, (80, 120))),
    "h200": (("llama3.1-8b-fp8", "llama3.1-8b", "fp8", 1024, 128, (20, 50, 80, 95, 120)),
             ("qwen3-8b", "qwen3-8b", "bf16", 1024, 128, (50, 80, 95, 120)),
             ("qwen3-8b-short", "qwen3-8b", "bf16", 256, 128, (80, 120))),
    "h100-mixture": (("qwen3-30b-a3b", "qwen3-30b-a3b", "bf16", 1024, 128, (50, 80, 95, 120)),),
    "h100-others": (("qwen3-14b", "qwen3-14b", "bf16", 1024, 128, (20, 50, 80, 95)),
                    ("llama3.2-3b", "llama3.2-3b", "bf16", 1024, 128, (20, 50, 80)),
                    ("llama3.2-3b-short", "llama3.2-3b", "bf16", 256, 64, (20, 50)),
                    ("mistral-7b", "mistral-7b-v0.3", "fp8", 1024, 128, (20, 50, 80, 95)),
                    ("mistral-7b-short", "mistral-7b-v0.3", "fp8", 256, 128, (20, 50, 80)),
                    ("mistral-7b-long", "mistral-7b-v0.3", "fp8", 4096, 256, (50, 80)))}


def capacity(gpu, model, weights, prompt, generated):
    said = subprocess.run([os.environ.get("LLMPROF", "llmprof"), "estimate", model, gpu, "--engine", "vllm", "--weights", weights,
                           "--prompt-len", str(prompt), "--gen-len", str(generated), "--rate", "1000"], capture_output=True, text=True).stderr
    return float(re.search(r"largest stable rate is ([\d.]+)", said)[1])


def main():
    to, gpu = pathlib.Path(sys.argv[1]), sys.argv[2]
    to.mkdir(parents=True, exist_ok=True)
    table = ["server\tmodel\tweights\tload\trate"]
    for server, model, weights, prompt, generated, percents in SERVERS[gpu]:
        largest = capacity(gpu[:4], model, weights, prompt, generated)
        for percent in percents:
            load, rate = f"{server}-{percent}", round(largest * percent / 100, 1)
            r, at = random.Random(f"{gpu} {load}"), 0.0
            with open(to / f"{load}.jsonl", "w") as f:
                while at < 20:
                    f.write(json.dumps({"time": round(at, 4), "prompt": prompt, "generated": generated}) + "\n")
                    at += r.expovariate(rate)
            table.append(f"{server}\t{model}\t{weights}\t{load}\t{rate}")
    (to / "loads.tsv").write_text("\n".join(table) + "\n")


main()
