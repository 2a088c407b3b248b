#!/usr/bin/env python3
"""Print how far predictions are off what was measured after them: errors.py EXPERIMENT [PREDICTIONS.json]

EXPERIMENT has decode.csv and prompts.csv (reduce.py). Without a file, its predictions-*.json are taken.
"""
import csv
import glob
import json
import statistics
import sys

folder = sys.argv[1]
points = json.load(open(sys.argv[2] if len(sys.argv) > 2 else glob.glob(f"{folder}/predictions-*.json")[0]))["points"]
predicted = {(p["model"], p["weights"], p["batch"], p["prompt_len"]): p for p in points}
for name, metric in (("decode", "tpot_s"), ("prompts", "ttft_s")):
    errors, inside = [], 0
    for r in csv.DictReader(open(f"{folder}/{name}.csv")):
        p = predicted[r["model"], r["weights"], int(r["batch"]), int(r["prompt_len"])][metric]
        t = float(r[metric])
        errors.append(abs(p["expected"] / t - 1))
        inside += p["low"] <= t <= p["high"]
    errors.sort()
    print(f"{metric}: {len(errors)} points, median {100 * statistics.median(errors):.1f} %, 90th percentile {100 * errors[int(0.9 * len(errors))]:.1f} %, inside {inside}")
