#!/usr/bin/env python3
"""Draw the requests of each load: loads.py writes traces/LOAD.jsonl and loads.tsv. Poisson arrivals for 20 s, 1024 + 128 tokens."""
import json, pathlib, random

SERVERS = {  # server: GPUs, model, flags of llmprof, flags of vLLM, requests a second
    "moe-dp2-ep2": ("0,1", "qwen3-30b-a3b", "--dp 2 --ep 2", "--data-parallel-size 2 --enable-expert-parallel", (20, 40, 60)),
    "moe-dp2": ("0,1", "qwen3-30b-a3b", "--dp 2 --moe-tp 2", "--data-parallel-size 2", (20, 40)),
    "dense-pp2": ("2,3", "llama3.1-8b", "--pp 2", "--pipeline-parallel-size 2", (15, 25, 35, 50)),
    "dense-tp2": ("2,3", "llama3.1-8b", "--tp 2", "--tensor-parallel-size 2", (25, 40)),
}


def main():
    here = pathlib.Path(__file__).parent
    (here / "traces").mkdir(exist_ok=True)
    table = ["server\tgpus\tmodel\tllmprof\tvllm\tload\trate"]
    for server, (gpus, model, ours, theirs, rates) in SERVERS.items():
        for rate in rates:
            load = f"{server}-{rate}"
            r, at = random.Random(load), 0.0
            with open(here / "traces" / f"{load}.jsonl", "w") as f:
                while at < 20:
                    f.write(json.dumps({"time": round(at, 4), "prompt": 1024, "generated": 128}) + "\n")
                    at += r.expovariate(rate)
            table.append("\t".join((server, gpus, model, ours, theirs, load, str(rate))))
    (here / "loads.tsv").write_text("\n".join(table) + "\n")


main()
