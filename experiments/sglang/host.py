#!/usr/bin/env python3
"""Work out what SGLang's host takes from results of host.sh: host.py RESULTS... > host.csv, then host.py < host.csv;
host.py TRACE.json.gz... says how fast a rank launches the pieces of a prompt.

Of each process it takes the medians of TTFT and TPOT. The host's time of a step is the TPOT of one sequence of the models with 4 layers, and that
of a sequence what 16 take more. The server's thread is the limit with 64 sequences, so its time of a token is TPOT / 64. TTFT is fitted as

    request + max(kernels, layers x call + step)

with the least mean absolute error of its logarithm, where kernels_ms is what `llmprof estimate` expects of the kernels.
"""
import csv
import gzip
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

LAYERS = {"qwen3-0.6b": 28, "llama3.2-3b": 28, "qwen3-4b": 36, "olmoe-1b-7b": 16}
COLUMNS = ["process", "model", "layers", "tp", "weights", "load", "started", "ttft_ms", "tpot_ms", "kernels_ms"]


def kernels(model, weights, tokens, share):
    """What the program expects of the kernels, in ms. Its constants of the host are set to next to nothing."""
    flags = ["--weights", weights, "--act", weights] if weights else []
    said = subprocess.run([os.environ["LLMPROF"], "estimate", model, os.environ.get("GPU", "h200"), "--engine", "sglang", "--prompt-len", str(tokens), "--gen-len", "2",
                           "--format", "json", *flags], capture_output=True, text=True, check=True).stdout
    return round(1e3 * share * json.loads(said)["prefill"]["expected_s"], 2)


def reduce(folder, kernels):
    for path in sorted(folder.glob("*.json")):
        found = re.match(r"(\d+)-(.*?)(?:-(\d+))?(?:-quantization-(fp8))?(?:-tp-size-(\d))?-(prompt|batch)(\d+)$", path.stem)
        if not found:
            continue
        number, model, layers, weights, tp, kind, n = found.groups()
        d = json.load(open(path))
        yield {"process": f"{folder.name}{number}", "model": model, "layers": int(layers or LAYERS[model]), "tp": tp or 1, "weights": weights or "bf16", "load": kind + n,
               "started": d["started"][:19], "ttft_ms": round(1e3 * d["ttft_s"]["median"], 2), "tpot_ms": round(1e3 * d["tpot_s"]["median"], 3),
               "kernels_ms": "" if tp else kernels(model, weights, int(n) if kind == "prompt" else 32, int(layers or LAYERS[model]) / LAYERS[model])}


def constants(rows):
    def tpot(load, layers=None):
        return {r["process"]: float(r["tpot_ms"]) for r in rows if r["load"] == load and layers in (None, int(r["layers"]))}
    one, sixteen, many = tpot("batch1", 4), tpot("batch16", 4), tpot("batch64")
    step = statistics.median(one.values())
    print(f"step: {step:.2f} ms, of {', '.join(f'{v:.2f}' for v in one.values())}")
    print(f"sequence: {statistics.median(1e3 * (sixteen[p] - one[p]) / 15 for p in one):.0f} us")
    tokens = [1e3 * v / 64 for p, v in many.items()]
    print(f"token: {statistics.median(tokens):.0f} us, {min(tokens):.0f} to {max(tokens):.0f}")
    prompts = [(int(r["layers"]), float(r["kernels_ms"]), float(r["ttft_ms"]), r) for r in rows if r["load"] == "batch1" or r["load"].startswith("prompt")]

    def off(request, call):
        return [math.log(t / (request + max(k, n * call + step))) for n, k, t, _ in prompts]
    best = min((statistics.mean(map(abs, off(r / 10, c / 1000))), r / 10, c / 1000) for r in range(15, 100) for c in range(100, 400, 5))
    print(f"request: {best[1]:.1f} ms, call: {best[2]:.3f} ms, {100 * best[0]:.0f} % off in the mean")
    for process in dict.fromkeys(r["process"] for r in rows):
        of = [math.exp(e) for e, (*_, r) in zip(off(*best[1:]), prompts) if r["process"] == process]
        print(f"  {process}: TTFT is {min(of):.2f} to {max(of):.2f} times as long")
    return step, *best[1:]


def ranks(rows, step, request, call):
    """How many times as long as the constants of one GPU one sequence takes over several, load by load: TTFT, and TPOT where it is the host's."""
    for process in dict.fromkeys(r["process"] for r in rows):
        of = [r for r in rows if r["process"] == process and (r["load"] == "batch1" or r["load"].startswith("prompt"))]
        layers = int(of[0]["layers"])
        ttft = [float(r["ttft_ms"]) / (request + layers * call + step) for r in of]
        tpot = [float(r["tpot_ms"]) / step for r in of]
        print(f"TP {of[0]['tp']}, {of[0]['model']} with {layers} layers: TTFT is " + " ".join(f"{x:.2f}" for x in ttft) + " times as long, TPOT " + " ".join(f"{x:.2f}" for x in tpot))


def pieces(path):
    """How long after each other a rank launches the pieces of a prompt."""
    calls = sorted(e["ts"] for e in json.load(gzip.open(path))["traceEvents"] if "GraphLaunch" in e["name"])
    print(f"{path.name}: {len(calls)} pieces, {statistics.median(b - a for a, b in zip(calls, calls[1:])):.0f} us apart")


def probe(path):
    rows = list(csv.DictReader(open(path)))
    took = sorted(float(r["processor_us"]) for r in rows)
    print(f"{path}: the same work took {took[len(took) // 20]:.0f} to {took[-len(took) // 20]:.0f} us of processor time (5th and 95th of {len(took)}); "
          f"the hypervisor took more than 1 % in {sum(float(r['stolen']) > 0.01 for r in rows)} intervals", file=sys.stderr)


def main():
    if len(sys.argv) == 1:
        rows = list(csv.DictReader(sys.stdin))
        return ranks([r for r in rows if r["tp"] != "1"], *constants([r for r in rows if r["tp"] == "1"]))
    if sys.argv[1].endswith(".json.gz"):
        return [pieces(pathlib.Path(path)) for path in sys.argv[1:]]
    out = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    out.writeheader()
    for folder in map(pathlib.Path, sys.argv[1:]):
        out.writerows(reduce(folder, kernels))
        probe(folder / "probe.csv")


main()
