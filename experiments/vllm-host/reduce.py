#!/usr/bin/env python3
"""Reduce results of processes.py to medians of each process: reduce.py RESULTS... > processes.csv

launch_ms is the time from scheduling a step with a prompt to scheduling the next, which one process for each GPU alone shows:
over several GPUs workers of their own launch. processor_us is the time of probe.py's work, in the median of the minute when the process was measured.
"""
import collections
import csv
import json
import pathlib
import re
import statistics
import sys


def probe(folder):
    return [(float(r["time_s"]), float(r["processor_us"])) for r in csv.DictReader(open(folder / "probe.csv"))]


def reduce(folder):
    worked = probe(folder)
    for path in sorted(folder.glob("*-*.jsonl")):
        model, layers, weights, tp = re.match(r"\d+-\d+-(.*?)-(\d+)(?:-(fp8))?(?:-tp(\d))?$", path.stem).groups()
        points, times = collections.defaultdict(list), []
        for line in open(path):
            point = json.loads(line)
            if point["kind"] == "round":
                times.append(point["time"])
            elif point["kind"] in ("prompts", "decode"):
                points[point["kind"], point["batch"], point.get("prompt", "")] += point["repeats"]
        work = [us for t, us in worked if any(0 <= t - begun < 4 for begun in times)]
        for (kind, batch, prompt), repeats in points.items():
            row = {"process": f"{folder.name}-{path.stem.split('-' + model)[0]}", "model": model, "weights": weights or ("mxfp4" if "gpt-oss" in model else "bf16"), "layers": layers, "tp": tp or 1, "batch": batch, "prompt_len": prompt,
                   "processor_us": round(statistics.median(work))}
            if kind == "decode":
                yield {**row, "tpot_ms": round(1e3 * statistics.median(r["tpot_s"] for r in repeats), 3)}
                continue
            launched = [[s[0] for s in r["core"] if len(s) > 1] for r in repeats]
            yield {**row, "ttft_ms": round(1e3 * statistics.median(r["ttft_s"] for r in repeats), 2),
                   "launch_ms": "" if tp else round(1e3 * statistics.median(s[1] - s[0] for s in launched if len(s) > 1), 2)}


out = csv.DictWriter(sys.stdout, ["process", "model", "weights", "layers", "tp", "batch", "prompt_len", "ttft_ms", "launch_ms", "tpot_ms", "processor_us"], lineterminator="\n")
out.writeheader()
for folder in map(pathlib.Path, sys.argv[1:]):
    out.writerows(reduce(folder))
