#!/usr/bin/env python3
"""Print what vLLM's host takes for steps with prompts while others run, and between two steps: between.py experiments/h200-vllm (clocks.jsonl.gz of clocks.py).

Between two steps the host schedules, and gives out the tokens of the step before. Medians of the steps of each phase; the time between is the 25th percentile,
since the host may also wait for the step before.
"""
import gzip
import json
import pathlib
import statistics
import sys

import host

LAUNCH, CALL, SEQUENCE = 51e-3, 108e-3, 20e-3  # ms, vLLM's constants

print("| phase | steps | sequences | tokens | execute_model and sampling, ms | launches and calls, by the constants | between two steps, ms | 20 µs a sequence |\n|---|---|---|---|---|---|---|---|")
took = []  # medians of the phases with prompts of 1024 tokens and more
for line in gzip.open(pathlib.Path(sys.argv[1]) / "clocks.jsonl.gz"):
    phase = json.loads(line)
    if phase.get("phase", "trace").startswith(("trace", "closed", "decode")):
        continue
    # a step is [launched at, began at, spin, forward, with sampling, launch, host's total, sequences, tokens, new sequences]
    steps = [(a, b) for a, b in zip(phase["steps"][8:], phase["steps"][9:]) if a[9] and a[6] is not None and a[6] < 60]
    if len(steps) < 12:
        continue
    sequences, tokens = (statistics.median(a[i] for a, _ in steps) for i in (7, 8))
    between = statistics.quantiles([1e3 * (b[0] - a[0]) - a[6] for a, b in steps], n=4)[0]
    if between > 5:
        continue  # the host waits for the GPU
    launches, calls = host.launches("llama3.1-8b", tokens)
    print(f"| {phase['phase']} | {len(steps)} | {sequences:.0f} | {tokens:.0f} | {statistics.median(a[6] for a, _ in steps):.1f} | "
          f"{LAUNCH * launches + CALL * calls:.1f} | {between:.1f} | {SEQUENCE * sequences:.1f} |")
    if tokens > 512:
        took.append(statistics.median(a[6] for a, _ in steps))
print(f"more than 512 tokens: {statistics.median(took):.1f} ms in the median of phases ({min(took):.1f} to {max(took):.1f})")
