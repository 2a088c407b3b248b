#!/usr/bin/env python3
"""Print predictions beside results: table.py PREDICTIONS.jsonl RESULTS."""
import json, pathlib, sys

lines = [json.loads(line) for line in open(sys.argv[1])]
print("| load | TTFT p50 ms | TTFT p99 ms | TPOT p50 ms | E2E p50 s | requests/s |\n|---|---|---|---|---|---|")
errors = []
for load, predicted in zip(lines[::2], lines[1::2]):
    path = pathlib.Path(sys.argv[2]) / f"{load['load']}.json"
    if not path.exists():
        continue
    measured = json.loads(path.read_text())
    serving = measured["serving"]
    pairs = [(1e3 * predicted["ttft_s"]["p50"], 1e3 * measured["ttft_s"]["median"]), (1e3 * predicted["ttft_s"]["p99"], 1e3 * measured["ttft_s"]["p99"]),
             (1e3 * predicted["tpot_s"]["p50"], 1e3 * measured["tpot_s"]["median"]), (predicted["e2e_s"]["p50"], measured["ttlt_s"]["median"]),
             (predicted["requests_s"], serving["completed"] / serving["duration_s"])]
    errors.append([abs(p / m - 1) for p, m in pairs])
    print(f"| {load['load']} | " + " | ".join(f"{p:.3g} / {m:.3g}, {100 * (p / m - 1):+.1f} %" for p, m in pairs) + " |")
print("| median of the absolute error | " + " | ".join(f"{100 * sorted(c)[len(c) // 2]:.1f} %" for c in zip(*errors)) + " |")
