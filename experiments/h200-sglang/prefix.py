#!/usr/bin/env python3
"""Prompts whose first tokens lie in SGLang's radix cache, as measured and as predicted before: prefix.py, in this folder."""
import gzip
import json
import pathlib
import statistics

HERE = pathlib.Path(__file__).parent
predicted = {}
for path in HERE.glob("predictions-*.json"):
    for r in json.loads(path.read_text()):
        if "shared" in r:
            predicted[r["model"], r["batch"], r["prompt"], r["shared"]] = r
for line in gzip.open(HERE / "points.jsonl.gz", "rt"):
    r = json.loads(line)
    if r["kind"] != "prefix":
        continue
    model = r["job"].removesuffix("-radix")
    p = predicted[model, r["batch"], r["prompt"], r["shared"]]
    ttft = statistics.median(x["ttft_last"] for x in r["repeats"])
    step = statistics.median((x["wall"] - x["ttft_last"]) / (r["gen"] - 1) for x in r["repeats"])
    print(f"{model:12} {r['batch']:2} x {r['prompt']}, {r['shared']:4} cached: TTFT {ttft * 1e3:6.1f} ms, predicted {p['ttft_s']['expected'] * 1e3:6.1f}; "
          f"TPOT {step * 1e3:.2f}, predicted {p['tpot_s']['expected'] * 1e3:.2f}")
