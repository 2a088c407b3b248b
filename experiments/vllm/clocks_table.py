#!/usr/bin/env python3
"""Reduce what clocks.py wrote to a table of steps: clocks_table.py EXPERIMENT (experiments/h200-vllm).

A row is the steps of a phase that only decode, or those that have prompts too: the median of their time on the GPU with its 10th and
90th percentile, the host's launch, the SM clock by a kernel of 40000 cycles, and the mean power. The first steps of a phase are left out.
"""
import csv
import gzip
import json
import statistics
import sys

SPIN, STARTS = 40000, 3.5e-3  # cycles; ms that the kernel and the event after it take besides


def median(xs):
    return statistics.median(xs)


def main():
    folder = sys.argv[1]
    nvml = [[float(x) for x in line.split(",")] for line in gzip.open(folder + "/nvml.csv.gz", "rt") if line[:1].isdigit()]
    out = csv.writer(open(folder + "/clocks.csv", "w"), lineterminator="\n")
    out.writerow("phase,decodes,context_tokens,every,prompts,prompt_len,mixed,steps,step_s,step_low_s,step_high_s,launch_s,sm_clock_hz,power_w".split(","))
    for d in map(json.loads, gzip.open(folder + "/clocks.jsonl.gz", "rt")):
        name = d.get("phase", "")
        if "steps" not in d or name.startswith(("closed", "poisson", "trace")) or name.endswith("no-probe"):
            continue
        power = [r[4] for r in nvml if d["begin"] + 0.5 <= r[0] <= d["end"]]
        for mixed in (0, 1):
            rows = [(i, s) for i, s in enumerate(d["steps"]) if i >= (8 if d["decoders"] else 2) and (s[8] != s[7]) == mixed and s[4] is not None]
            if mixed and d["decoders"]:
                rows = [(i, s) for i, s in rows if s[7] == d["decoders"] + d["prompts"]]
            if len(rows) < 3:
                continue
            times = sorted(s[4] / 1e3 for _, s in rows)
            context = round(statistics.mean(1108 + i for i, _ in rows)) if d["decoders"] else 0
            clock = "" if name.startswith("idle") else int(round(median([SPIN / 1e3 / (s[2] - STARTS) for _, s in rows]), -1) * 1e6)
            tenths = statistics.quantiles(times, n=10, method="inclusive")
            out.writerow([name, d["decoders"], context, d.get("every", 0), d["prompts"] if mixed else 0, d.get("length", 0) if mixed else 0, mixed, len(rows),
                          *(f"{x:.6f}" for x in (median(times), tenths[0], tenths[-1], median([s[5] for _, s in rows]) / 1e3)), clock, round(statistics.mean(power))])


main()
