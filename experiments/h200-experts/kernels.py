#!/usr/bin/env python3
"""Sums of the experts' kernels of a layer in the traces, and power of the experts in graphs: kernels.py, in this folder."""
import collections
import gzip
import json
import pathlib
import statistics

HERE = pathlib.Path(__file__).parent
EXPERTS = ("_matmul_ogs", "_reduce_grouped", "_topk_forward", "_combined_routing", "_sum_bitmatrix_rows")
for path in sorted(HERE.glob("traces/*.json.gz")):
    times = collections.defaultdict(list)
    for e in json.load(gzip.open(path))["traceEvents"]:
        if e["name"].startswith(EXPERTS):
            times[e["name"]].append(e["dur"])
    # A step of decoding takes tiles of 16 rows; its prompts took larger ones, or the first 12 of them.
    decode = "-g4" in path.name
    sums = 0
    for name, x in times.items():
        if not decode or "16x256" in name or "matmul" not in name:
            sums += statistics.median(x) if decode else statistics.mean(x)
    print(f"{path.name.removesuffix('.json.gz'):24} {sums:8.1f} us a layer")
for line in gzip.open(HERE / "points.jsonl.gz", "rt"):
    r = json.loads(line)
    if r["kind"] == "watts" and r["what"] == "experts":
        print(f"{r['job']:16} {r['rows']:5} tokens {r['watts']:6.0f} W {r['us'] / r['layers']:8.1f} us a layer, {r['clock']} MHz")
