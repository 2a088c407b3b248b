#!/usr/bin/env python3
"""Print what the host took to launch steps with one prompt, phase by phase: table.py h100 (launches-*.jsonl.gz, phases.txt)."""
import gzip
import json
import pathlib
import statistics
import sys

folder = pathlib.Path(sys.argv[1])
phases = [line.split() for line in open(folder / "phases.txt")]
for server in dict.fromkeys(p[1] for p in phases):
    steps = [json.loads(line) for line in gzip.open(folder / f"launches-{server}.jsonl.gz")]
    mine = [p for p in phases if p[1] == server]
    for (begin, _, name), after in zip(mine, mine[1:] + [["inf"]]):
        took = [1e3 * (execute + sample) for at, execute, sample, sequences, tokens, new in steps
                if float(begin) <= at < float(after[0]) and new == 1 and 100 <= tokens - (sequences - 1) <= 1024]
        if len(took) > 4:
            tenths = statistics.quantiles(took, n=10)
            print(f"| {server} | {name} | {len(took)} | {statistics.median(took):.1f} | {tenths[0]:.1f} to {tenths[-1]:.1f} |")
