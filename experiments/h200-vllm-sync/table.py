#!/usr/bin/env python3
"""Print what a decode step of vLLM takes with and without asynchronous scheduling, and the line through the difference."""
import gzip
import json
import pathlib
import statistics

HERE = pathlib.Path(__file__).parent


def steps(name):
    rows = map(json.loads, gzip.open(HERE / f"{name}.jsonl.gz"))
    return {(r["context"], r["batch"]): statistics.median(x["tpot_s"] for x in r["repeats"]) for r in rows if r["kind"] == "decode"}


ahead, apart, one, small = (steps(n) for n in ("llama3.1-8b-async-mp", "llama3.1-8b-sync-mp", "llama3.1-8b-sync", "llama3.2-1b-sync-mp"))
print("| context | batch | asynchronous | synchronous | longer | synchronous, one process | llama3.2-1b, synchronous |\n|---|---|---|---|---|---|---|")
for k in sorted(ahead):
    print(f"| {k[0]} | {k[1]} | " + " | ".join(f"{1e3 * x:.2f}" for x in (ahead[k], apart[k], apart[k] - ahead[k], one[k], small[k])) + " |")
b, d = [k[1] for k in ahead], [apart[k] - ahead[k] for k in ahead]
mb, md = statistics.mean(b), statistics.mean(d)
slope = sum((x - mb) * (y - md) for x, y in zip(b, d)) / sum((x - mb) ** 2 for x in b)
print(f"\nlonger by {1e3 * (md - slope * mb):.2f} ms and {1e6 * slope:.1f} µs a sequence")
