#!/usr/bin/env python3
"""Reduce what steps.py left to CSV, with what was predicted before: reduce.py GPU FOLDER RESULTS...

FOLDER is experiments/GPU-vllm or another, where the predictions lie; RESULTS are folders that steps.py wrote, a machine each.
"""
import bisect
import csv
import glob
import gzip
import json
import os
import re
import statistics
import sys

GPUS = {"h200": "h200-sxm-141gb", "h100": "h100-sxm-80gb"}
PARAMS = {"llama3.1-8b": 8030261248, "qwen3-8b": 8190735360, "llama3.2-1b": 1235814400, "llama3.2-3b": 3212749824, "qwen2.5-7b": 7615616512, "qwen3-30b-a3b": 30532122624, "gpt-oss-20b": 20914757184}
OBSERVATION = "source,id,model,gpu,engine,mode,tp,batch,prompt_len,gen_len,weights,kv,load,all_logits,params,metric,value,low,high,device,samples,marks,note".split(",")


class Clocks:
    """The GPU's clock and power while a point was measured."""

    def __init__(self, path):
        self.rows = [[float(x) for x in line.split(",")] for line in open(path) if line[0] != "{" and line.count(",") == 5 and line.endswith("\n")]
        self.at = [r[0] for r in self.rows]

    def between(self, begin, end):
        rows = self.rows[bisect.bisect_left(self.at, begin):bisect.bisect_right(self.at, end)]
        if not rows:
            return {"sm_clock_hz": "", "power_w": "", "power_capped": ""}
        return {"sm_clock_hz": round(statistics.median(r[1] for r in rows)) * 1000000, "power_w": round(statistics.median(r[3] for r in rows)),
                "power_capped": round(sum(int(r[5]) & 0x4 > 0 for r in rows) / len(rows), 2)}


def spread(values, name):
    return {f"{name}_s": seconds(statistics.median(values)), f"{name}_low_s": seconds(min(values)), f"{name}_high_s": seconds(max(values))}


def seconds(x):
    return "" if x is None else f"{x:.7g}"


def predicted(predictions, r, batch, prompt, gen, metric):
    p = predictions.get((r["model"], r["weights"], r["tp"], r["ep"], batch, prompt, gen))
    p = p and p.get(metric)
    return {f"predicted_{metric}": seconds(p and p["expected"]), "predicted_low_s": seconds(p and p["low"]), "predicted_high_s": seconds(p and p["high"])}


def named(r):
    """The process of a row, without a name where one process ran at a time."""
    return {**({"process": r["process"]} if r["process"] else {}), "model": r["model"], "weights": r["weights"], "tp": r["tp"], "ep": r["ep"]}


def decode_row(r, clocks, predictions):
    reps = r["repeats"]
    flat = [s for x in reps for s in x["step_s"]]
    row = {**named(r), "batch": r["batch"], "prompt_len": r["context"], "context_tokens": round(statistics.mean(x["context"] for x in reps), 1),
           "temperature": r["temperature"], "repeats": len(reps), "steps": len(flat), **spread([x["tpot_s"] for x in reps], "tpot"),
           "step_median_s": seconds(statistics.median(flat)), "schedule_s": seconds(statistics.median(x["schedule_s"] for x in reps if x["schedule_s"]))}
    return {**row, **clocks.between(reps[0]["sent"], r["t"]), **predicted(predictions, r, r["batch"], r["context"], 32, "tpot_s")}


def pairs(core):
    """Each step that has tokens, with when its results were there, and when the host had launched it."""
    out, queue = [], []
    for i, s in enumerate(core):
        if len(s) == 5:
            after = core[i + 1] if i + 1 < len(core) else None
            queue.append({"next": after[0] if after else s[0], "at": s[0], "sequences": s[2], "tokens": s[3], "new": s[4], "launched": after[0] if after and len(after) == 5 else None})
        elif queue:
            out.append({**queue.pop(0), "done": s[0]})
    return [s for s in out if s["tokens"]]


def prompts_row(r, clocks, predictions):
    reps = r["repeats"]
    first = [pairs(x["core"])[0] for x in reps]
    row = {**named(r), "batch": r["batch"], "prompt_len": r["prompt"], "gen_len": r["gen"], "temperature": r["temperature"], "repeats": len(reps),
           **spread([x["ttft_s"] for x in reps], "ttft"), **{f"{k}_s": seconds(statistics.median(x[f"{k}_s"] for x in reps)) for k in ("ttft_first", "ttft_last", "ttlt")},
           "tpot_s": seconds(statistics.median(x["tpot_s"] for x in reps)) if "tpot_s" in reps[0] else "",
           "first_step_tokens": first[-1]["tokens"], "first_step_s": seconds(statistics.median(f["done"] - f["at"] for f in first)),
           "launch_s": seconds(statistics.median(f["launched"] - f["at"] for f in first if f["launched"])) if any(f["launched"] for f in first) else ""}
    return {**row, **clocks.between(reps[0]["sent"], r["t"]), **predicted(predictions, r, r["batch"], r["prompt"], 32 if r["gen"] == 1 else r["gen"], "ttft_s")}


def mixed_rows(r, clocks):
    """The steps that one joining prompt shares, in order. While the host launches such a step, the results of the step before wait: its time is step_before_s."""
    for n, x in enumerate(r["repeats"]):
        steps = pairs(x["core"])
        decode = [b["done"] - a["done"] for a, b in zip(steps, steps[1:]) if b["tokens"] == b["sequences"] == r["batch"] and b["done"] < 0]
        for a, b, c in zip(steps, steps[1:], steps[2:]):
            if c["tokens"] > c["sequences"] and c["done"] > 0:
                yield {"model": r["model"], "weights": r["weights"], "tp": r["tp"], "batch": r["batch"], "context_tokens": r["context"], "prompt_len": r["prompt"], "repeat": n,
                       "ttft_s": seconds(x["ttft_s"]), "step_sequences": c["sequences"], "step_tokens": c["tokens"], "decode_step_s": seconds(statistics.median(decode)) if decode else "",
                       "step_before_s": seconds(b["done"] - a["done"]), "step_s": seconds(c["done"] - b["done"]), "launch_s": seconds(c["next"] - c["at"])}


def merged(path):
    """The lines of a process, with the repeats of a point that it measured in several rounds in one line."""
    seen, lines = {}, []
    for line in open(path):
        r = json.loads(line)
        point = tuple(r.get(k) for k in ("kind", "batch", "context", "prompt", "gen", "temperature"))
        if "repeats" in r and point in seen:
            seen[point]["repeats"] += r["repeats"]
            seen[point]["t"] = r["t"]
        else:
            seen[point] = r
            lines.append(r)
    return lines


def process(result, path):
    """The name of one of several processes that ran together, by processes.py."""
    number = re.match(r"(\d+-\d+)-", os.path.basename(path))
    return f"{os.path.basename(os.path.normpath(result))}-{number[1]}" if number else ""


def observations(gpu, source, name, rows, metric):
    for r in rows:
        if r["ep"] > 1 or r["model"] == "gpt-oss-20b" and r["batch"] > 1:  # with random weights all tokens of gpt-oss choose the same experts
            continue
        if metric == "ttft_s" and (r["batch"] != 1 or r["gen_len"] != 1) or metric == "tpot_s" and r["temperature"] > 0 and r["model"] not in ("qwen3-30b-a3b", "gpt-oss-20b"):
            continue
        if metric == "tpot_s" and r["temperature"] == 0 and r["model"] == "qwen3-30b-a3b":
            continue
        yield {**dict.fromkeys(OBSERVATION, ""), "source": source, "id": f"{name}:{r['model']}-{r['weights']}-b{r['batch']}-p{r['prompt_len']}" + ("" if r["tp"] == 1 else f"-tp{r['tp']}") + (r.get("process") and "-" + r["process"] or ""), "model": r["model"], "gpu": GPUS[gpu],
               "engine": "vllm", "tp": r["tp"], "batch": r["batch"], "prompt_len": r["prompt_len"], "gen_len": 32, "weights": r["weights"], "load": "static", "params": PARAMS[r["model"]],
               "metric": metric, "value": r[metric], "low": r[metric.replace("_s", "_low_s")], "high": r[metric.replace("_s", "_high_s")], "samples": r["repeats"],
               "note": "vLLM 0.25.1, Python API"}


def write(path, rows):
    if rows:
        with open(path, "w", newline="") as f:
            w = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
            w.writeheader()
            w.writerows(rows)
    print(path, len(rows))


def main():
    gpu, folder, *results = sys.argv[1:]
    files = glob.glob(os.path.join(folder, "predictions-*.json"))
    predictions = {(p["model"], p["weights"], p.get("tp", 1), p.get("ep", 1), p["batch"], p["prompt_len"], p["gen_len"]): p for f in files for p in json.load(open(f))["points"]}
    decode, prompts, mixed, engines = [], [], [], []
    with gzip.GzipFile(os.path.join(folder, "steps.jsonl.gz"), "wb", 9, mtime=0) as raw:
        for result in results:
            clocks = Clocks(os.path.join(result, "gpu.csv"))
            for path in sorted(glob.glob(os.path.join(result, "*.jsonl"))):
                tp = ep = 1
                raw.write(open(path, "rb").read())
                for r in merged(path):
                    tp = r.get("args", {}).get("tensor_parallel_size", tp)
                    ep = tp if r.get("args", {}).get("enable_expert_parallel") else ep
                    r["tp"], r["ep"], r["process"] = tp, ep, process(result, path)
                    if r["kind"] == "decode":
                        decode.append(decode_row(r, clocks, predictions))
                    elif r["kind"] == "prompts":
                        prompts.append(prompts_row(r, clocks, predictions))
                    elif r["kind"] == "mixed":
                        mixed.extend(mixed_rows(r, clocks))
                    elif r["kind"] == "engine":
                        engines.append({**named(r), "start_s": round(r["start_s"], 1), "kv_tokens": 16 * r["blocks"], "kv_bytes": r["kv_bytes"],
                                        "max_model_len": r["max_model_len"], "max_num_seqs": r["max_num_seqs"], "max_num_batched_tokens": r["max_num_batched_tokens"],
                                        "async_scheduling": r["async_scheduling"], "cudagraph_mode": r["cudagraph_mode"], "runner": r["runner"]})
    decode.sort(key=lambda r: (r["model"], r["weights"], r["tp"], r["ep"], r["temperature"], r["prompt_len"], r["batch"]))
    prompts.sort(key=lambda r: (r["model"], r["weights"], r["tp"], r["ep"], r["batch"], r["prompt_len"], r["gen_len"]))
    for name, rows in (("decode", decode), ("prompts", prompts), ("mixed", mixed), ("engines", engines)):
        write(os.path.join(folder, name + ".csv"), rows)
    source = os.path.basename(os.path.normpath(folder))
    write(os.path.join(folder, "observations.csv"), [*observations(gpu, source, "decode.csv", decode, "tpot_s"), *observations(gpu, source, "prompts.csv", prompts, "ttft_s")])


if __name__ == "__main__":
    main()
