#!/usr/bin/env python3
"""Work out what vLLM's host takes for the step of a prompt: host.py EXPERIMENT... (experiments/h200-vllm experiments/h100-vllm experiments/vllm-host).

From the traces of prompts: the time of a launch between two kernels of a compiled piece, and how many of them attention, the
way from attention to the next product and the experts take beyond their own launches. From steps.jsonl.gz and processes.csv: the launch of
steps that are not scored (several prompts at once; prompts of 4096 and more, whose time is the kernels'; a process that was kept busy,
clocks.jsonl.gz; small models), fitted as fixed + per request + launch x launches + call x calls, times a factor for each machine, with the least absolute error of the
logarithm, in which every process counts as one.

Then, of the prompts that are scored and wait for the host: how far TTFT is off by these constants, and by the launch that the
host was seen to take for the same prompt, the way of a request added to both; by these constants times what the launches of the other
prompts of the same process take of them (what a calibration on the user's own server can know); and how far launches lie apart
between processes, and within one. Last, how far the TTFT of one process is from that of another at the same point, which is what a
prediction of either can reach.
"""
import collections
import csv
import gzip
import json
import math
import pathlib
import statistics
import sys

LAYERS = {"llama3.2-1b": 16, "llama3.2-3b": 28, "llama3.1-8b": 32, "qwen2.5-7b": 28, "qwen3-8b": 36, "qwen3-30b-a3b": 48}  # of the models that are measured whole
MOE = ("topkGating", "moe_align", "count_and_sort", "fused_moe_kernel", "act_and_mul", "moe_sum", "DtoD",
       "_topk_forward", "_bitmatrix_", "_combined_routing", "_matmul_ogs", "_reduce_grouped")  # OpenAI's Triton kernels
EXPERTS = {  # kernels of the router and the experts, and their calls; a dense model has two products and an activation
    **dict.fromkeys(("qwen3-30b-a3b", "qwen3-moe-small", "olmoe-1b-7b"), (9, 3)), **dict.fromkeys(("gpt-oss-20b", "gpt-oss-small"), (8, 14))}
REPEATED = ["h100-vllm", "h100-vllm-fp8", "h100-vllm-again", "h200-vllm", "h200-vllm-fp8", "h200-vllm-again"]  # points that two processes ran
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
    for line in lines(folder / "steps.jsonl.gz"):
        point = json.loads(line)
        if point["kind"] != "prompts" or not (point["batch"] > 1 or point["prompt"] >= 4096 or point["model"] == "llama3.2-1b"):
            continue
        for repeat in point["repeats"]:
            seen = [x for x in repeat["core"] if len(x) > 1]
            if len(seen) > 1:
                first = seen[0]
                yield seen[1][0] - first[0], first[2], *launches(point["model"], first[3]), (folder.name, point["model"], point["weights"])


def busy(folder):
    """Steps with prompts of a process that is kept busy, by clocks.py; those that wait for the step before are left out."""
    for line in lines(folder / "clocks.jsonl.gz"):
        phase = json.loads(line)
        if phase.get("phase", "trace").startswith(("idle", "trace")):
            continue
        for s in phase["steps"][8 if phase.get("decoders") else 2:]:
            if s[6] is not None and s[9] and s[6] < 60:
                yield s[6] / 1e3, s[9], *launches("llama3.1-8b", s[8]), (folder.name, "llama3.1-8b", "busy")


def lines(path):
    return gzip.open(path) if path.exists() else ()


def small(folder):
    """Steps of the small models of processes.py on one GPU. Prompts of a mixture that a CUDA graph covers wait for its kernels and are left out."""
    for r in csv.DictReader(open(folder / "processes.csv")) if (folder / "processes.csv").exists() else ():
        if r["prompt_len"] and r["tp"] == "1" and (r["model"] not in EXPERTS or int(r["prompt_len"]) > covered(r["model"])):
            yield float(r["launch_ms"]) / 1e3, 1, *launches(r["model"], int(r["prompt_len"]), int(r["layers"]), r["weights"]), (r["process"], r["model"], r["layers"], r["weights"])


def pairs(folder, c):
    """TTFT of processes of small models over two GPUs, over that of one GPU of the same machine and the copies of all-reduces that the host launches."""
    rows = {(r["model"], r["prompt_len"], r["tp"]): r for r in csv.DictReader(open(folder / "processes.csv")) if r["process"].startswith("second") and r["prompt_len"]}
    for (model, length, tp), r in rows.items():
        if tp == "2" and (model, length, "1") in rows:
            copies = 4 * int(r["layers"]) * c[2] if int(length) > 512 else 0
            yield int(length), float(r["ttft_ms"]) / (float(rows[model, length, "1"]["ttft_ms"]) + 1e3 * copies)


def covered(model):
    """The most tokens of a prompt that CUDA graphs cover."""
    return 1024 if "gpt-oss" in model else 512


def launches(model, tokens, layers=None, weights="bf16"):
    """Kernels that the host launches and calls of Python. A piece of a prompt that a CUDA graph covers is one launch, beside those of attention and the write to the cache."""
    layers = layers or LAYERS[model]
    if tokens <= covered(model):
        return 3 * layers, layers
    kernels, calls = EXPERTS.get(model, (3, 0))
    norms = 2 if model == "olmoe-1b-7b" else "qwen3" in model
    quantized = 2 * (calls > 0 and weights == "fp8")
    return layers * (7 + norms + kernels + quantized), layers * (2 + calls)


def expected(c, requests, launches, calls):
    return c[0] + c[1] * requests + c[2] * launches + c[3] * calls


def scored(folder, c):
    """Ratios of TTFT to fit and to the launch that was seen, of prompts that wait for the host, by process."""
    for row in csv.DictReader(open(folder / "prompts.csv")):
        launch, length = float(row["launch_s"]), int(row["prompt_len"])
        if row["batch"] != "1" or row["gen_len"] != "1" or row["model"] == "llama3.2-1b" or length > 2048 or float(row["first_step_s"]) - launch > 1e-3:
            continue
        ttft, host = float(row["ttft_s"]), expected(c, 1, *launches(row["model"], length))
        yield (folder.name, row["model"], row["weights"]), (host + REQUEST) / ttft, (launch + REQUEST) / ttft, launch / host, host, ttft


def held_out(seen):
    """Ratios of TTFT to the constants times the median share that launches of the process's other prompts take of them."""
    for i, x in enumerate(seen):
        others = [y[3] for j, y in enumerate(seen) if j != i and y[0] == x[0]]
        if len(others) > 2:
            yield (statistics.median(others) * x[4] + REQUEST) / x[5]


def machine(process):
    """The machine of a process: each of the older experiments ran on one, and so did all processes of processes.csv whose names begin alike."""
    return process[0] if "vllm" in process[0] else process[0].split("-")[0]


def weighted_median(pairs):
    """The median of values with weights."""
    pairs, below = sorted(pairs), 0.0
    half = sum(w for _, w in pairs) / 2
    for value, weight in pairs:
        below += weight
        if below >= half:
            return value


def fit(rows):
    """The constants of the median machine, and how many times as long each machine takes: which models a fast machine ran must not say what launches and calls take."""
    count = collections.Counter(process for *_, process in rows)
    machines = collections.defaultdict(list)
    for row in rows:
        machines[machine(row[-1])].append(row)

    def factors(c):
        logs = {m: [(math.log(t / expected(c, *n)), 1 / count[process]) for t, *n, process in of] for m, of in machines.items()}
        return logs, {m: weighted_median(pairs) for m, pairs in logs.items()}

    def cost(c):
        logs, middles = factors(c)
        return sum(w * abs(x - middles[m]) for m, pairs in logs.items() for x, w in pairs)
    c, scale = [2e-3, 1e-3, 36e-6, 180e-6], 0.5
    best = cost(c)
    while scale > 1e-3:
        improved = False
        for i in range(len(c)):
            for f in (1 + scale, 1 / (1 + scale)):
                d = c[:i] + [c[i] * f] + c[i + 1:]
                if (x := cost(d)) < best:
                    c, best, improved = d, x, True
        scale = scale if improved else scale / 2
    found = factors(c)[1]
    usual = statistics.median(found.values())
    return [x * math.exp(usual) for x in c], {m: math.exp(x - usual) for m, x in found.items()}


def apart(folders):
    """Ratios of the TTFT of one process to that of another at the same point."""
    points = collections.defaultdict(list)
    for name in folders:
        for r in csv.DictReader(open(pathlib.Path("experiments", name, "observations.csv"))):
            if r["metric"] == "ttft_s":
                points[r["gpu"], r["model"], r["weights"], r["batch"], r["prompt_len"]].append((name, float(r["value"])))
    for seen in points.values():
        yield from (a / b for x, a in seen for y, b in seen if x != y)


def said(ratios):
    off = sorted(abs(x - 1) for x in ratios)
    return f"{len(off)} prompts: median error {100 * statistics.median(off):.1f} %, p90 {100 * off[int(0.9 * len(off))]:.1f} %"


def main(folders):
    for path in sorted(path for folder in folders for path in folder.glob("traces/*prompt*.json.gz")):
        trace(path)
    rows = [x for folder in folders for kind in (steps, busy, small) for x in kind(folder)]
    c, machines = fit(rows)
    ratio = sorted(t / expected(c, *n) for t, *n, _ in rows)
    processes = collections.defaultdict(list)
    for t, *n, process in rows:
        processes[process].append(t / expected(c, *n))
    print(f"{len(rows)} steps of {len(processes)} processes: fixed {1e3 * c[0]:.2f} ms, a request {1e3 * c[1]:.2f} ms, a launch {1e6 * c[2]:.0f} µs, a call {1e6 * c[3]:.0f} µs; "
          f"5 % take {ratio[len(ratio) // 20]:.2f} times as long, 95 % {ratio[-len(ratio) // 20]:.2f}")
    print("machines take " + ", ".join(f"{x:.2f} ({m})" for m, x in sorted(machines.items())) + " times as long as the median one")
    for process in sorted(processes):
        print(f"  {' '.join(process)}: {statistics.median(processes[process]):.2f} times the constants")
    seen = [x for folder in folders if (folder / "prompts.csv").exists() for x in scored(folder, c)]
    for k, by in ((1, "these constants"), (2, "the launch that was seen")):
        print(f"TTFT of prompts that wait for the host, by {by}: {said(x[k] for x in seen)}")
    print(f"by launches of the process's other prompts: {said(held_out(seen))}")
    middle = {key: statistics.median(x[3] for x in seen if x[0] == key) for key in {x[0] for x in seen}}
    within = sorted(abs(x[3] / middle[x[0]] - 1) for x in seen)
    print(f"launches over these constants: {min(middle.values()):.2f} to {max(middle.values()):.2f} by process; within one, p90 {100 * within[int(0.9 * len(within))]:.0f} % from its median")
    for folder in folders:
        for what, of in (("up to 512", [x for n, x in pairs(folder, c) if n <= 512]), ("more", [x for n, x in pairs(folder, c) if n > 512])) if (folder / "processes.csv").exists() else ():
            print(f"two GPUs, {what} tokens: {min(of):.2f} to {max(of):.2f} times as long as one and the launches of all-reduces, {statistics.median(of):.2f} in the median")
    print(f"TTFT of one process by that of another, {said(apart(REPEATED))}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("host.py: which experiments? Give folders, as in host.py experiments/h200-vllm experiments/h100-vllm experiments/vllm-host")
    main(list(map(pathlib.Path, sys.argv[1:])))
