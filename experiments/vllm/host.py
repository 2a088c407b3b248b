#!/usr/bin/env python3
"""Work out what vLLM's host takes for the step of a prompt: host.py EXPERIMENT... (experiments/h200-vllm experiments/h100-vllm).

From the traces of prompts: the time of a launch between two kernels of a compiled piece, and how many of them attention, the
way from attention to the next product and the experts take beyond their own launches. From steps.jsonl.gz: the launch of
steps that are not scored (several prompts at once; prompts of 4096 and more, whose time is the kernels'; llama3.2-1b), fitted
as fixed + per request + launch x (launches + 5 calls) with the least absolute error of the logarithm.

Then, of the prompts that are scored and wait for the host: how far TTFT is off by these constants, and by the launch that the
host was seen to take for the same prompt, the way of a request added to both; by these constants times what the launches of the other
prompts of the same process take of them (what a calibration on the user's own server can know); and how far launches lie apart
between processes, and within one. Last, the same fit of dense models alone, in which every process counts as one, with the steps of a
process that was kept busy (clocks.jsonl.gz) among them: whether the constants would be others.
"""
import collections
import csv
import gzip
import json
import math
import pathlib
import statistics
import sys

LAYERS = {"llama3.2-1b": 16, "llama3.2-3b": 28, "llama3.1-8b": 32, "qwen2.5-7b": 28, "qwen3-8b": 36, "qwen3-30b-a3b": 48}
MOE = ("topkGating", "moe_align", "count_and_sort", "fused_moe_kernel", "act_and_mul", "moe_sum", "DtoD",
       "_topk_forward", "_bitmatrix_", "_combined_routing", "_matmul_ogs", "_reduce_grouped")  # OpenAI's Triton kernels
REQUEST = 2.4e-3  # the way of a request and of its first token, beside its step
ATTENTION = ("FlashAttnFwdSm90", "flash::enable", "reshape_and_cache")


def kind(name):
    if "Combine" in name:
        return "piece"
    for key, words in (("attention", ATTENTION), ("experts", MOE), ("fill", ("FillFunc", "Memset"))):
        if any(w in name for w in words):
            return key
    return "piece"


def trace(path):
    events = json.load(gzip.open(path))["traceEvents"]
    kernels = {(e.get("args") or {}).get("correlation"): e["name"] for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")}
    calls = sorted((e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and e["args"].get("correlation") in kernels), key=lambda e: e["ts"])
    names = [kernels[e["args"]["correlation"]] for e in calls]
    flash = [i for i, n in enumerate(names) if kind(n) == "attention" and "reshape" not in n and "Combine" not in n]
    parts = {"attention": [], "to the next product": [], "experts": [], "launch": []}
    for a, b in zip(flash[2:], flash[3:]):
        sums = dict.fromkeys(parts, 0.0)
        for i in range(a, b):
            gap, k = calls[i + 1]["ts"] - calls[i]["ts"], kind(names[i + 1])
            if k == "attention":
                sums["attention"] += gap
            elif i == a or i == a + 1 and kind(names[i]) == "fill":
                sums["to the next product"] += gap
            elif k == "experts":
                sums["experts"] += gap
            else:
                parts["launch"].append(gap)
        for k in ("attention", "to the next product", "experts"):
            parts[k].append(sums[k])
    if len(flash) < 5:
        return
    launch = statistics.median(parts["launch"])
    print(f"{path.parent.parent.name}/{path.name}: a launch {launch:.0f} µs; in launches: " + ", ".join(f"{k} {statistics.median(parts[k]) / launch:.1f}" for k in parts if k != "launch"))


def steps(folder):
    for line in gzip.open(folder / "steps.jsonl.gz"):
        point = json.loads(line)
        if point["kind"] != "prompts" or not (point["batch"] > 1 or point["prompt"] >= 4096 or point["model"] == "llama3.2-1b"):
            continue
        for repeat in point["repeats"]:
            seen = [x for x in repeat["core"] if len(x) > 1]
            if len(seen) > 1:
                first = seen[0]
                yield seen[1][0] - first[0], first[2], launches(point["model"], first[3]), (folder.name, point["model"], point["weights"])


def busy(folder):
    """Steps with prompts of a process that is kept busy, by clocks.py; those that wait for the step before are left out."""
    for line in gzip.open(folder / "clocks.jsonl.gz") if (folder / "clocks.jsonl.gz").exists() else ():
        phase = json.loads(line)
        if phase.get("phase", "trace").startswith(("idle", "trace")):
            continue
        for s in phase["steps"][8 if phase.get("decoders") else 2:]:
            if s[6] is not None and s[9] and s[6] < 60:
                yield s[6] / 1e3, s[9], launches("llama3.1-8b", s[8]), (folder.name, "llama3.1-8b", "busy")


def launches(model, tokens):
    layers, moe, heads = LAYERS[model], model == "qwen3-30b-a3b", "qwen3" in model
    return layers * (10 + heads + 7 * moe + 5 * (2 + 3 * moe)) if tokens > 512 else layers * (3 + 5)


def scored(folder, c):
    """Ratios of TTFT to fit and to the launch that was seen, of prompts that wait for the host, by process."""
    for row in csv.DictReader(open(folder / "prompts.csv")):
        launch, length = float(row["launch_s"]), int(row["prompt_len"])
        if row["batch"] != "1" or row["gen_len"] != "1" or row["model"] == "llama3.2-1b" or length > 2048 or float(row["first_step_s"]) - launch > 1e-3:
            continue
        ttft, n = float(row["ttft_s"]), launches(row["model"], length)
        host = c[0] + c[1] + c[2] * n
        yield (folder.name, row["model"], row["weights"]), (host + REQUEST) / ttft, (launch + REQUEST) / ttft, launch / host, host, ttft


def held_out(seen):
    """Ratios of TTFT to the constants times the median share that launches of the process's other prompts take of them."""
    for i, x in enumerate(seen):
        others = [y[3] for j, y in enumerate(seen) if j != i and y[0] == x[0]]
        if len(others) > 2:
            yield (statistics.median(others) * x[4] + REQUEST) / x[5]


def fit(rows, weight=lambda process: 1):
    def cost(c):
        return sum(weight(p) * abs(math.log(t / (c[0] + c[1] * r + c[2] * n))) for t, r, n, p in rows)
    c, scale = [2e-3, 1e-3, 36e-6], 0.5
    best = cost(c)
    while scale > 1e-3:
        improved = False
        for i in range(3):
            for f in (1 + scale, 1 / (1 + scale)):
                d = c[:i] + [c[i] * f] + c[i + 1:]
                if (x := cost(d)) < best:
                    c, best, improved = d, x, True
        scale = scale if improved else scale / 2
    return c


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("host.py: which experiments? Give folders, as in host.py experiments/h200-vllm experiments/h100-vllm")
    rows = []
    for folder in map(pathlib.Path, sys.argv[1:]):
        for path in sorted(folder.glob("traces/*prompt*.json.gz")):
            trace(path)
        rows += steps(folder)
    c = fit(rows)
    ratio = sorted(t / (c[0] + c[1] * r + c[2] * n) for t, r, n, _ in rows)
    print(f"{len(rows)} steps: fixed {1e3 * c[0]:.2f} ms, a request {1e3 * c[1]:.2f} ms, a launch {1e6 * c[2]:.1f} µs; 5 % take {ratio[len(ratio) // 20]:.2f} times as long, 95 % {ratio[-len(ratio) // 20]:.2f}")
    seen = [x for folder in map(pathlib.Path, sys.argv[1:]) for x in scored(folder, c)]
    for k, by in ((1, "these constants"), (2, "the launch that was seen")):
        off = sorted(abs(x[k] - 1) for x in seen)
        print(f"TTFT of {len(off)} prompts that wait for the host, by {by}: median error {100 * statistics.median(off):.1f} %, p90 {100 * off[int(0.9 * len(off))]:.1f} %")
    off = sorted(abs(x - 1) for x in held_out(seen))
    print(f"TTFT of {len(off)} of them, by launches of the process's other prompts: median error {100 * statistics.median(off):.1f} %, p90 {100 * off[int(0.9 * len(off))]:.1f} %")
    middle = {key: statistics.median(x[3] for x in seen if x[0] == key) for key in {x[0] for x in seen}}
    within = sorted(abs(x[3] / middle[x[0]] - 1) for x in seen)
    print(f"launches over these constants: {min(middle.values()):.2f} to {max(middle.values()):.2f} by process; within one, p90 {100 * within[int(0.9 * len(within))]:.0f} % from its median")
    dense = [x for x in rows if x[3][1] != "qwen3-30b-a3b"] + [x for folder in map(pathlib.Path, sys.argv[1:]) for x in busy(folder)]
    count = collections.Counter(x[3] for x in dense)
    own = fit(dense, lambda process: 1 / count[process])
    print(f"dense models, {len(count)} processes alike: fixed {1e3 * own[0]:.2f} ms, a request {1e3 * own[1]:.2f} ms, a launch {1e6 * own[2]:.1f} µs")
    for process in sorted(count):
        print(f"  {' '.join(process)}: {statistics.median(t / (c[0] + c[1] * r + c[2] * n) for t, r, n, p in dense if p == process):.2f} times the constants")
