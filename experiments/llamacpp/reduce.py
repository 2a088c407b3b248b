#!/usr/bin/env python3
"""Reduce what run.sh left to CSV, with what was predicted before: reduce.py FOLDER RESULTS

FOLDER is experiments/h100-llamacpp, where the predictions lie.
"""
import collections
import csv
import glob
import gzip
import json
import os
import re
import statistics
import sys

GPU, MIXES, STEPS = "h100-sxm-80gb", ("q4_k_m", "q8_0", "f16"), 32
PARAMS = {"llama3.1-8b": 8030261248, "qwen3-8b": 8190735360, "llama3.2-1b": 1235814400, "qwen3-30b-a3b": 30532122624}
LAYERS = {"llama3.1-8b": 32, "qwen3-8b": 36, "llama3.2-1b": 16, "qwen3-30b-a3b": 48}
OBSERVATION = "source,id,model,gpu,engine,mode,tp,batch,prompt_len,gen_len,weights,kv,load,all_logits,params,metric,value,low,high,device,samples,marks,note".split(",")
NOTE = "llama.cpp v0.5.0, {}"


def seconds(x):
    return f"{x:.7g}"


def case(path, end):
    """Return the model and the mix that a file is of."""
    name = os.path.basename(path).removesuffix(end)
    mix = next(m for m in MIXES if name.endswith(m))
    return name[:-len(mix) - 1], mix


def lines(path):
    return [json.loads(x) for x in open(path) if x.startswith("{")]


def predicted(predictions, model, mix, batch, prompt, metric):
    p = predictions[model, mix, batch, prompt].get(metric, {})
    return {f"predicted_{k}_s": seconds(p[k]) if p else "" for k in ("expected", "low", "high")}


def spread(samples, name):
    return {f"{name}_s": seconds(statistics.median(samples)), f"{name}_low_s": seconds(min(samples)), f"{name}_high_s": seconds(max(samples))}


def decode_rows(results, predictions):
    for path in sorted(glob.glob(os.path.join(results, "*.jsonl"))):
        if path.endswith(("-prompts.jsonl", "-decode.jsonl")):
            continue
        model, mix = case(path, ".jsonl")
        for r in lines(path):
            yield {"model": model, "weights": mix, "batch": r["pl"], "prompt_len": r["pp"], "tool": "batched-bench", "repeats": 1, **spread([r["t_tg"] / r["tg"]], "tpot"),
                   **predicted(predictions, model, mix, r["pl"], r["pp"], "tpot_s")}


def alone_rows(results):
    for path in sorted(glob.glob(os.path.join(results, "*-decode.jsonl"))):
        model, mix = case(path, "-decode.jsonl")
        for r in lines(path):
            yield {"model": model, "weights": mix, "batch": 1, "prompt_len": r["n_depth"], "tool": "llama-bench", "repeats": len(r["samples_ns"]),
                   **spread([x / r["n_gen"] / 1e9 for x in r["samples_ns"]], "tpot"), "predicted_expected_s": "", "predicted_low_s": "", "predicted_high_s": ""}


def prompt_rows(results, predictions):
    for path in sorted(glob.glob(os.path.join(results, "*-prompts.jsonl"))):
        model, mix = case(path, "-prompts.jsonl")
        for r in lines(path):
            yield {"model": model, "weights": mix, "prompt_len": r["n_prompt"], "repeats": len(r["samples_ns"]), **spread([x / 1e9 for x in r["samples_ns"]], "ttft"),
                   **predicted(predictions, model, mix, 1, r["n_prompt"], "ttft_s")}


def short(mangled):
    """Return the function of a mangled name with its template arguments: block sizes, types and rows."""
    m = re.match(r"_Z(?:N\d+_INTERNAL_\w+?_)?(\d+)([a-z].*)", mangled)
    if not m:
        return mangled[:70]
    n = int(m.group(1))
    name, rest = m.group(2)[:n], m.group(2)[n:]
    rest = re.sub(r"_ZN\d+_INTERNAL_\w+?(op_[a-z]+)E\w*", r"\1E", rest)
    return f"{name} {re.split('EEv|EvPK|PK|Pf|Pv|EE[fJ]', rest)[0]}".strip()


def kernel_log(path):
    with gzip.open(path, "rt") as f:
        return sorted((int(s), int(d), int(b), n) for s, d, b, n in (x.rstrip("\n").split(",", 3) for x in f))


def logs(results):
    """Yield the model, mix and batch of each log of kernels."""
    for path in sorted(glob.glob(os.path.join(results, "*-b1.csv.gz"))):
        base = path.removesuffix("-b1.csv.gz")
        for batch in (1, 4, 8, 32):
            yield *case(base, ""), batch, f"{base}-b{batch}.csv.gz"


def spans(rows):
    """Yield the name, blocks, duration and own time of each kernel: what its end lies behind the latest end before it. Kernels overlap where one starts early and waits."""
    end = rows[0][0]
    for start, length, blocks, name in rows:
        own, end = max(0, start + length - end), max(end, start + length)
        yield short(name), blocks, length, own


def phases(rows, layers):
    """Yield phase, steps and their kernels. A step is counted from the choice of the rows that get logits, in the last layer, to the next."""
    marks = [i for i, r in enumerate(rows) if "get_rows" in r[3] and (i == 0 or "get_rows" not in rows[i - 1][3])]
    decode = marks[-8:]
    lengths = [rows[b][0] - rows[a][0] for a, b in zip(decode, decode[1:])]
    middle = sorted(range(len(lengths)), key=lengths.__getitem__)[1:4]  # calm steps: neither the shortest nor those that something else delayed
    yield "decode", [rows[decode[i]:decode[i + 1]] for i in middle]
    attention = [i for i, r in enumerate(rows[:marks[0]]) if "flash_attn_ext" in r[3]]
    yield "prompt", [rows[attention[-layers]:attention[-1]]]  # all layers but one of the second pass of 512 tokens


def kernel_rows(results):
    for model, mix, batch, path in logs(results):
        for phase, steps in phases(kernel_log(path), LAYERS[model]):
            if phase == "prompt" and batch > 1:
                continue
            table = collections.defaultdict(list)
            for step in steps:
                for name, blocks, length, own in spans(step):
                    table[name, blocks].append((length, own))
            for (name, blocks), v in sorted(table.items(), key=lambda kv: -sum(x[1] for x in kv[1])):
                yield {"model": model, "weights": mix, "batch": batch, "phase": phase, "kernel": name, "blocks": blocks, "count": round(len(v) / len(steps), 2),
                       "time_s": seconds(sum(x[1] for x in v) / len(steps) / 1e9), "duration_s": seconds(sum(x[0] for x in v) / len(steps) / 1e9)}


def step_rows(results):
    """Yield what each logged decode step took, and the time in it without a kernel before the first of the next forward pass."""
    for model, mix, batch, path in logs(results):
        rows = kernel_log(path)
        marks = [i for i, r in enumerate(rows) if "get_rows" in r[3] and (i == 0 or "get_rows" not in rows[i - 1][3])][-8:]
        for n, (a, b) in enumerate(zip(marks, marks[1:])):
            end, gaps = rows[a][0] + rows[a][1], []
            for start, length, *_ in rows[a + 1:b + 1]:
                gaps.append(start - end)
                end = max(end, start + length)
            host = max(range(min(30, len(gaps))), key=gaps.__getitem__)
            others = [max(0, g) for i, g in enumerate(gaps) if i != host]
            yield {"model": model, "weights": mix, "batch": batch, "step": n + 2, "kernels": b - a, "step_s": seconds((rows[b][0] - rows[a][0]) / 1e9),
                   "between_steps_s": seconds(gaps[host] / 1e9), "gaps_s": seconds(sum(others) / 1e9), "median_gap_s": seconds(statistics.median(others) / 1e9)}


def observations(decode, prompts):
    for name, rows, metric in (("decode.csv", decode, "tpot"), ("prompts.csv", prompts, "ttft")):
        for r in rows:
            tool = r.get("tool", "llama-bench")
            if metric == "tpot" and tool != "batched-bench":
                continue
            batch = r.get("batch", 1)
            yield {**dict.fromkeys(OBSERVATION, ""), "source": "h100-llamacpp", "id": f"{name}:{r['model']}-{r['weights']}-b{batch}-p{r['prompt_len']}", "model": r["model"],
                   "gpu": GPU, "engine": "llama.cpp", "tp": 1, "batch": batch, "prompt_len": r["prompt_len"], "gen_len": STEPS,
                   "weights": {"f16": "fp16"}.get(r["weights"], r["weights"]), "kv": "fp16", "load": "static", "params": PARAMS[r["model"]], "metric": metric + "_s",
                   "value": r[metric + "_s"], "low": r[metric + "_low_s"], "high": r[metric + "_high_s"], "samples": r["repeats"], "note": NOTE.format(tool)}


def write(path, rows):
    with open(path, "w", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        w.writeheader()
        w.writerows(rows)
    print(path, len(rows))


def main():
    folder, results = sys.argv[1:]
    predictions = {(p["model"], p["weights"], p["batch"], p["prompt_len"]): p for f in glob.glob(os.path.join(folder, "predictions-*.json")) for p in json.load(open(f))["points"]}
    decode, prompts = list(decode_rows(results, predictions)), list(prompt_rows(results, predictions))
    tables = {"decode": decode + list(alone_rows(results)), "prompts": prompts, "kernels": list(kernel_rows(results)), "steps": list(step_rows(results)),
              "observations": list(observations(decode, prompts))}
    for name, rows in tables.items():
        write(os.path.join(folder, name + ".csv"), rows)


main()
