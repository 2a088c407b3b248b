#!/usr/bin/env python3
"""Predicts the points of run.sh's full models before they are measured: predict.py FOLDER writes FOLDER/predictions-SHA256.json by the program in $LLMPROF."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

GEN = 65
here = pathlib.Path(__file__).parent
points = re.search(r'^full\).*points="([^"]+)"', (here / "run.sh").read_text(), re.M)[1].split()
models = re.search(r'^full\) jobs_list="([^"]+)"', (here / "run.sh").read_text(), re.M)[1].split()
rows = []
for model in models:
    for point in points:
        batch, prompt = point.split("x")
        command = ["estimate", model, "h200", "--engine", "sglang@0.5.23", "--batch", batch, "--prompt-len", prompt, "--gen-len", str(GEN)]
        done = subprocess.run([os.environ.get("LLMPROF", "llmprof"), *command, "--format", "json"], capture_output=True, text=True, check=True)
        said = json.loads(done.stdout)
        rows.append({"command": "llmprof " + " ".join(command), "model": model, "batch": int(batch), "prompt": int(prompt), "ttft_s": said["ttft_s"], "tpot_s": said["tpot_s"]})
text = json.dumps(rows, indent=1) + "\n"
(pathlib.Path(sys.argv[1]) / f"predictions-{hashlib.sha256(text.encode()).hexdigest()}.json").write_text(text)
