#!/usr/bin/env python3
"""Say what a trace of steps.py holds: traces.py TRACE... (--layer prints the kernels of one layer in order).

A decode step begins with the kernel of the embedding. Times are in µs, means over the whole steps of the trace.
"""
import collections
import gzip
import json
import re
import sys


def kernels(path):
    trace = json.load(gzip.open(path))
    out = [e for e in trace["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    return trace["llmprof"], sorted(out, key=lambda e: e["ts"])


def short(e):
    name = e["name"]
    if "FlashAttnFwdCombine" in name:
        return "flash_attn_3 combine"
    if "FlashAttnFwdSm90" in name:
        return "flash_attn_3"
    name = re.sub(r"^void ", "", name).replace("at::native::", "").replace("(anonymous namespace)::", "")
    if name.startswith("nvjet") or name.startswith("triton"):
        return re.sub(r"_v_bz|_bz", "", name)
    return re.sub(r"[<(].*", "", name)[:60]


def busy(rows):
    """The time in which at least one kernel runs."""
    total, end = 0.0, 0.0
    for e in rows:
        total += max(0.0, e["ts"] + e["dur"] - max(end, e["ts"]))
        end = max(end, e["ts"] + e["dur"])
    return total


def decode(note, rows, layer):
    starts = [i for i, e in enumerate(rows) if "embedding" in e["name"]]
    steps = [rows[a:b] for a, b in zip(starts, starts[1:])]
    print(f"  {len(steps)} whole steps of {len(steps[0])} kernels; step {sum(b[0]['ts'] - a[0]['ts'] for a, b in zip(steps, steps[1:])) / max(1, len(steps) - 1):.0f}, busy {sum(map(busy, steps)) / len(steps):.0f}")
    total, head = collections.Counter(), collections.Counter()
    for step in steps:
        last = max(i for i, e in enumerate(step) if "reshape_and_cache" in e["name"])
        tail = next(i for i in range(last, len(step)) if "gather_kernel" in step[i]["name"] or "index" in step[i]["name"] or "Memset" in step[i]["name"])
        total["layers busy"] += busy(step[:tail])
        total["layers span"] += step[tail]["ts"] - step[0]["ts"]
        big = max(range(tail, len(step)), key=lambda i: step[i]["dur"])
        total["lm_head"] += step[big]["dur"]
        total["before lm_head"] += step[big]["ts"] - step[tail]["ts"]
        total["after lm_head, span"] += step[-1]["ts"] + step[-1]["dur"] - step[big]["ts"] - step[big]["dur"]
        total["after lm_head, busy"] += busy(step[big + 1:])
        for e in step[:tail]:
            head[short(e)] += e["dur"]
    for k, v in total.items():
        print(f"    {k:24s} {v / len(steps):9.1f}")
    for k, v in head.most_common(14):
        n = sum(short(e) == k for e in steps[0])
        print(f"      {v / len(steps):9.1f}  {n:4d} × {v / len(steps) / max(n, 1):7.2f}  {k}")
    if layer:
        one = steps[1]
        marks = [i for i, e in enumerate(one) if "reshape_and_cache" in e["name"]]
        for e, f in zip(one[marks[3]:marks[4]], one[marks[3] + 1:]):
            print(f"        {e['dur']:8.2f}  gap {f['ts'] - e['ts'] - e['dur']:6.2f}  grid {e['args'].get('grid')}  {short(e)}")
        last = marks[-1]
        for e, f in zip(one[last:], one[last + 1:]):
            print(f"        {e['dur']:8.2f}  gap {f['ts'] - e['ts'] - e['dur']:6.2f}  grid {e['args'].get('grid')}  {short(e)}")


def prompt(note, rows, layer):
    starts = [i for i, e in enumerate(rows) if "embedding" in e["name"]]
    end = starts[1] if len(starts) > 1 else len(rows)
    step = rows[starts[0]:end]
    last = max(i for i, e in enumerate(step) if e["dur"] > 100 or "nvjet" in e["name"] or "gemm" in e["name"].lower())
    work = step[:last + 1]
    span = work[-1]["ts"] + work[-1]["dur"] - work[0]["ts"]
    print(f"  prefill: {len(work)} kernels, span {span:.0f}, busy {busy(work):.0f}, idle {span - busy(work):.0f}; before it {rows[starts[0]]['ts'] - rows[0]['ts']:.0f} from the first copy")
    total, count = collections.Counter(), collections.Counter()
    for e in work:
        total[short(e)] += e["dur"]
        count[short(e)] += 1
    for k, v in total.most_common(14):
        print(f"      {v:9.1f}  {count[k]:4d} × {v / count[k]:8.2f}  {k}")
    if layer:
        marks = [i for i, e in enumerate(step) if "reshape_and_cache" in e["name"]]
        for e, f in zip(step[marks[3]:marks[4]], step[marks[3] + 1:]):
            print(f"        {e['dur']:8.2f}  gap {f['ts'] - e['ts'] - e['dur']:7.2f}  grid {e['args'].get('grid')}  {short(e)}")


for path in [a for a in sys.argv[1:] if a != "--layer"]:
    note, rows = kernels(path)
    print(path.split("/")[-1], note)
    (prompt if note["prompt"] else decode)(note, rows, "--layer" in sys.argv)
