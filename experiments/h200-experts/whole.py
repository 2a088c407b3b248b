#!/usr/bin/env python3
"""Whole models as measured and as predicted before: whole.py, in this folder."""
import gzip
import json
import pathlib
import statistics

HERE = pathlib.Path(__file__).parent
predicted = {(r["model"], r["batch"]): r for p in HERE.glob("predictions-*.json") for r in json.loads(p.read_text())}
times, energies, inside = [], [], 0
for line in gzip.open(HERE / "points.jsonl.gz", "rt"):
    r = json.loads(line)
    if r["kind"] != "tpot" or not r["job"].startswith("whole"):
        continue
    model = "gpt-oss-120b" if "120b" in r["job"] else "gpt-oss-20b"
    p = predicted[model, r["batch"]]
    joules = r["watts"] * r["seconds"] / (r["batch"] * r["gen"])
    times.append(p["tpot_s"]["expected"] / r["tail"] - 1)
    energies.append(p["joules_per_token"] / joules - 1)
    inside += p["tpot_s"]["low"] <= r["tail"] <= p["tpot_s"]["high"] and p["low"] <= joules <= p["high"]
    print(f"{r['job'].removeprefix('whole-'):12} {model:12} batch {r['batch']:3}: TPOT {r['tail'] * 1e3:6.2f} ms, predicted {p['tpot_s']['expected'] * 1e3:6.2f} "
          f"({times[-1]:+.1%}); {joules:.4f} J/token, predicted {p['joules_per_token']:.4f} ({energies[-1]:+.1%})")
print(f"median error of TPOT {statistics.median(map(abs, times)):.1%}, of energy {statistics.median(map(abs, energies)):.1%}; both inside in {inside} of {len(times)}")
