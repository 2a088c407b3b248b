#!/usr/bin/env python3
"""Print what vLLM's host took for steps, server by server: steps.py launches-*.jsonl.gz (of launches.py).

Between two steps the host schedules, and gives out the tokens of the step before; it may also wait for the GPU, so that the 25th percentile is given.
"""
import gzip
import json
import statistics
import sys

print("| steps | number | sequences | execute_model and sampling, ms | 10th to 90th percentile | until the next step, ms |\n|---|---|---|---|---|---|")
for path in sys.argv[1:]:
    steps, pause = [json.loads(line) for line in gzip.open(path)], 45  # s without a step: another server starts
    ends = [i + 1 for i, (a, b) in enumerate(zip(steps, steps[1:])) if b[0] - a[0] > pause] + [len(steps)]
    for number, (begin, end) in enumerate(zip([0] + ends, ends), 1):
        server = list(zip(steps[begin:end], steps[begin + 1:end]))
        for what, kind in (("decode alone", lambda s: s[3] == s[4]), ("prompts, up to 512 tokens", lambda s: s[5] and s[4] <= 512), ("prompts, more tokens", lambda s: s[5] and s[4] > 512)):
            mine = [(a, b) for a, b in server if kind(a) and a[2] < 0.02 and b[0] - a[0] < 0.1]
            if len(mine) > 20:
                took = [1e3 * (a[1] + a[2]) for a, _ in mine]
                tenths = statistics.quantiles(took, n=10)
                between = statistics.quantiles([1e3 * (b[0] - a[0]) - t for (a, b), t in zip(mine, took)], n=4)[0]
                print(f"| {what}, server {number} of {path.split('/')[-1]} | {len(mine)} | {statistics.median(a[3] for a, _ in mine):.0f} | {statistics.median(took):.1f} | {tenths[0]:.1f} to {tenths[-1]:.1f} | {between:.1f} |")
