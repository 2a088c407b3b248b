#!/usr/bin/env python3
"""What the traces of a layer's experts and their graphs say: kernels.py, in this folder.

Of each trace: the time of both products of a layer's experts and of the kernels beside them, and how many tiles there are where experts are chosen
evenly. Of decode steps it is the median over the layers of all steps, of prompts the mean.
"""
import collections
import gzip
import json
import math
import pathlib
import statistics

HERE = pathlib.Path(__file__).parent
BESIDE = ("_reduce_grouped", "_topk_forward", "_combined_routing", "_sum_bitmatrix_rows")
EXPERTS, CHOSEN = 32, 4


def tiles(tokens, rows):
    """The expected number of tiles of so many rows."""
    p = CHOSEN / EXPERTS
    return EXPERTS * sum(math.ceil(n / rows) * math.comb(tokens, n) * p**n * (1 - p) ** (tokens - n) for n in range(1, tokens + 1))


for name, tokens, rows in (("b1-p128-g4", 1, 16), ("b32-p128-g4", 32, 16), ("b128-p128-g4", 128, 16), ("b1-p1024-g1", 1024, 128), ("b1-p8192-g1", 8192, 128)):
    times = collections.defaultdict(list)
    for e in json.load(gzip.open(HERE / f"traces/gpt-oss-{name}.json.gz"))["traceEvents"]:
        if e["name"].startswith(("_matmul_ogs",) + BESIDE):
            times[e["name"]].append(e["dur"])
    middle = statistics.median if name.endswith("g4") else statistics.mean
    # Prompts of a trace of decode steps have wider tiles.
    products = sum(middle(x) for n, x in times.items() if "matmul" in n and f"_{rows}x256" in n)
    beside = sum(middle(x) for n, x in times.items() if "matmul" not in n)
    count = tiles(tokens, rows) if tokens <= 1024 else EXPERTS * (tokens * CHOSEN / EXPERTS / rows + 0.5)
    print(f"{name:13} {products:7.1f} us of products, {beside:5.1f} beside; {count:5.1f} tiles of {rows} rows, {products / count:.2f} us each")
for line in gzip.open(HERE / "points.jsonl.gz", "rt"):
    r = json.loads(line)
    if r["kind"] == "watts" and r["what"] == "experts":
        print(f"{r['job']:16} {r['rows']:5} tokens {r['watts']:6.0f} W {r['us'] / r['layers']:8.1f} us a layer, {r['clock']} MHz")
