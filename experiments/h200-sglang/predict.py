#!/usr/bin/env python3
"""Predicts points before they are measured: predict.py FOLDER ENGINE 'MODELS' 'POINTS' [FLAG...] writes FOLDER/predictions-SHA256.json by the program in
$LLMPROF. POINTS are batch x prompt pairs ("1x128 8x1024-512", of which 512 tokens lie in
the prefix cache), and FLAGs are of `llmprof estimate`."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys

GEN = 65
folder, engine, models, points, *flags = sys.argv[1:]
rows = []
for model in models.split():
    for point in points.split():
        batch, prompt = point.split("x")
        prompt, _, shared = prompt.partition("-")
        command = ["estimate", model, "h200", "--engine", engine, "--batch", batch, "--prompt-len", prompt, "--gen-len", str(GEN),
                   "--cached-prefix", shared or "0", *flags]
        done = subprocess.run([os.environ.get("LLMPROF", "llmprof"), *command, "--format", "json"], capture_output=True, text=True, check=True)
        said = json.loads(done.stdout)
        rows.append({"command": "llmprof " + " ".join(command), "model": model, "batch": int(batch), "prompt": int(prompt), "shared": int(shared or 0), "ttft_s": said["ttft_s"], "tpot_s": said["tpot_s"]})
text = json.dumps(rows, indent=1) + "\n"
(pathlib.Path(folder) / f"predictions-{hashlib.sha256(text.encode()).hexdigest()}.json").write_text(text)
