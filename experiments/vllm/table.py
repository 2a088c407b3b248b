#!/usr/bin/env python3
"""The main figures of experiments/GPU-vllm beside what was predicted, as Markdown: table.py FOLDER"""
import csv
import pathlib
import sys


def ms(r, key):
    return f"{float(r[key]) * 1e3:.2f}" if r and r.get(key) else "–"


def table(rows, key, predicted, columns, column, title):
    models = dict.fromkeys((r["model"], r["weights"]) for r in rows)
    print(f"| {title} | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for model, weights in models:
        at = {r[column]: r for r in rows if (r["model"], r["weights"]) == (model, weights)}
        print(f"| {model} {weights} | " + " | ".join(f"{ms(at.get(c), key)} ({ms(at.get(c), predicted)})" if c in at else "–" for c in columns) + " |")
    print()


folder = pathlib.Path(sys.argv[1])
decode = [r for r in csv.DictReader(open(folder / "decode.csv")) if r["temperature"] == ("1.0" if r["model"] == "qwen3-30b-a3b" else "0.0")]
for length in ("128", "1024", "4096", "16384"):
    table([r for r in decode if r["prompt_len"] == length], "tpot_s", "predicted_tpot_s", ["1", "2", "3", "4", "8", "12", "16", "32", "48", "64"], "batch", f"TPOT in ms at context {length}, by batch")
prompts = [r for r in csv.DictReader(open(folder / "prompts.csv")) if r["batch"] == "1" and r["gen_len"] == "1"]
table(prompts, "ttft_s", "predicted_ttft_s", ["128", "256", "300", "512", "700", "1024", "2048", "4096", "8192", "16384"], "prompt_len", "TTFT in ms of one prompt, by its length")
table(prompts, "launch_s", "first_step_s", ["128", "256", "300", "512", "700", "1024", "2048", "4096", "8192", "16384"], "prompt_len", "the host's launch in ms (and the first step in the engine)")
