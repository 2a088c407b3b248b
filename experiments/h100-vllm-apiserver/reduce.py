#!/usr/bin/env python3
"""Reduce what run.sh measured to loads.csv, or print the constants that follow from it.

reduce.py RESULTS > loads.csv;  reduce.py < loads.csv prints the constants. Clients is 0 of an open loop; a merged token came in one chunk with another."""
import csv, json, pathlib, sys

COLUMNS = "load clients prompt generated requests duration_s tokens chunks burst_headers_ms headers_p50_ms ttft_p50_ms tpot_p50_ms".split()


def median(values):
    return sorted(values)[len(values) // 2]


def reduced(path):
    d = json.loads(path.read_text())
    s, w = d["serving"], d["workload"]
    records = sorted((r for r in s["records"] if not r["failure"]), key=lambda r: r["sent_s"])
    burst = records[:s["concurrency"]]  # the requests that come together at first
    return [path.stem, s["concurrency"], w["prompt_len"], w["gen_len"], len(records), round(s["duration_s"], 4), sum(r["generated_tokens"] for r in records),
            sum(r["chunks"] for r in records), round(1e3 * max((r["headers_s"] for r in burst), default=0), 1),
            round(1e3 * median([r["headers_s"] - r["wrote_s"] for r in records]), 1), round(1e3 * d["ttft_s"]["median"], 1),
            round(1e3 * d["tpot_s"]["median"], 2) if d["tpot_s"] else 0]


def constants(rows):
    rows = {r["load"]: {k: float(v) for k, v in r.items() if k != "load"} for r in rows}
    intakes = [rows[n]["burst_headers_ms"] / rows[n]["clients"] for n in ("tokens16", "tokens64")]
    intake = sum(intakes) / len(intakes)
    print("intake: until the last header of 16 and 64 requests that come together, ms each:", *(f"{i:.2f}" for i in intakes))
    request = 1e3 * rows["requests16"]["duration_s"] / rows["requests16"]["requests"]
    print(f"finish: a request of one token takes {request:.2f} ms of the saturated thread, {request - intake:.2f} of them beyond the intake")
    for name in ("tokens128", "tokens256", "tokens512"):  # saturated: many tokens are merged
        r = rows[name]
        token = 1e3 * r["duration_s"] / r["tokens"] - request / r["generated"]
        print(f"token: {name}: {token * 1e3:.1f} us with {100 * (1 - r['chunks'] / r['tokens']):.0f} % merged, so {token * 1e3 / (0.5 + 0.5 * r['chunks'] / r['tokens']):.1f} us to take one apart and send it")


if len(sys.argv) > 1:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    out.writerows(reduced(p) for p in sorted(pathlib.Path(sys.argv[1]).glob("*[0-9].json")))
else:
    constants(list(csv.DictReader(sys.stdin)))
