#!/usr/bin/env python3
"""Writes what llmprof predicts of whole models, before they are measured: predict.py PROGRAM, in this folder. The name has the file's SHA-256."""
import hashlib
import json
import pathlib
import subprocess
import sys

rows = []
for model in ("gpt-oss-20b", "gpt-oss-120b"):
    for batch, gen in ((1, 1200), (8, 1200), (32, 600), (128, 600)):
        d = json.loads(subprocess.run([sys.argv[1], "estimate", model, "h200", "--engine", "vllm@0.33.0", "--batch", str(batch), "--prompt-len", "128",
                                       "--gen-len", str(gen), "--format", "json"], capture_output=True, check=True).stdout)
        e = d["energy_j"]
        rows.append({"model": model, "batch": batch, "prompt": 128, "gen": gen, "tpot_s": d["tpot_s"], "joules_per_token": e["per_request"] / gen,
                     "low": e["per_request_interval"]["low"] / gen, "high": e["per_request_interval"]["high"] / gen})
text = json.dumps(rows, indent=1) + "\n"
path = pathlib.Path(__file__).parent / f"predictions-{hashlib.sha256(text.encode()).hexdigest()}.json"
path.write_text(text)
print(path.name)
