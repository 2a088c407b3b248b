#!/usr/bin/env python3
"""Print results beside predictions: table.py PREDICTIONS.jsonl RESULTS. RESULTS has what load.sh wrote; power.csv, or power-SERVER.csv, is nvidia-smi's."""
import csv, datetime, json, pathlib, sys


def power(path):
    """Watts of each GPU over time."""
    all = {}
    for row in csv.reader(open(path)):
        if len(row) == 4 and row[2].strip().endswith("W"):
            at = datetime.datetime.strptime(row[1].strip(), "%Y/%m/%d %H:%M:%S.%f").timestamp()
            all.setdefault(int(row[0]), []).append((at, float(row[2].split()[0])))
    return all


def energy(result, watts, gpus):
    """J a request: mean power of the GPUs from the first request to the last answer."""
    seconds = result["serving"]["duration_s"]
    end = datetime.datetime.fromisoformat(result["ended"].replace("Z", "+00:00")).timestamp()
    total = 0.0
    for gpu in gpus:
        during = [w for at, w in watts[gpu] if end - seconds <= at <= end]
        total += sum(during) / len(during) * seconds
    return total / result["serving"]["completed"]


def main():
    lines = [json.loads(line) for line in open(sys.argv[1])]
    results = pathlib.Path(sys.argv[2])
    print("| load | TTFT p50 ms | TTFT p99 ms | TPOT p50 ms | requests/s | J/request |\n|---|---|---|---|---|---|")
    for name, p in ((a["load"], b) for a, b in zip(lines[::2], lines[1::2])):
        r = json.loads((results / f"{name}.json").read_text())
        own = results / f"power-{name.rsplit('-', 1)[0]}.csv"
        watts = power(own if own.exists() else results / "power.csv")
        pairs = [(1e3 * p["ttft_s"]["p50"], 1e3 * r["ttft_s"]["median"]), (1e3 * p["ttft_s"]["p99"], 1e3 * r["ttft_s"]["p99"]),
                 (1e3 * p["tpot_s"]["p50"], 1e3 * r["tpot_s"]["median"]), (p["requests_s"], r["serving"]["completed"] / r["serving"]["duration_s"]),
                 (p["energy_j_request"], energy(r, watts, (0, 1) if name.startswith("moe") else (2, 3)))]
        print(f"| {name} | " + " | ".join(f"{o:.3g} ({100 * (x / o - 1):+.1f})" for x, o in pairs) + " |")


main()
