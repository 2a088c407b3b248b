"""Reduces results of `llmprof measure --engine openai`: reduce.py NAME=RESULT[=TRACE]... writes NAME.csv beside this script.

With the trace that the load was, requests have the hashes of their prompts' blocks of 512 tokens (Mooncake's)."""

import csv
import json
import pathlib
import sys

for argument in sys.argv[1:]:
    name, source, *traces = argument.split("=")
    with open(source) as file:
        records = json.load(file)["serving"]["records"]
    for trace in traces:
        with open(trace) as file:
            for line, record in zip(file, records):
                record["hashes"] = " ".join(str(h) for h in json.loads(line)["hash_ids"])
    records.sort(key=lambda r: r["sent_s"])
    with (pathlib.Path(__file__).parent / f"{name}.csv").open("w") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["at_s", "prompt_tokens", "generated_tokens", "ttft_s", "e2e_s"] + ["hashes"] * len(traces))
        for r in records:
            out.writerow([f"{r['sent_s']:.4f}", r["prompt_tokens"], r["generated_tokens"], f"{r['first_token_s']:.5f}", f"{r['last_token_s']:.5f}"] + [r["hashes"] for _ in traces])
