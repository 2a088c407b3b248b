#!/usr/bin/env python3
"""Write what `llmprof estimate --engine llama.cpp` says of every point that run.sh measures: predict.py LLMPROF GPU FOLDER MODEL:MIX...

The file is named after the SHA-256 of its content.
"""
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys

DECODE = [(batch, context) for context in (128, 1024, 4096) for batch in (1, 2, 3, 4, 8, 16, 32)] + [(batch, 16384) for batch in (1, 2, 4, 8)]
PROMPTS = (128, 512, 1024, 2048, 4096, 8192)


def estimate(program, gpu, model, mix, batch, prompt):
    args = [program, "estimate", "--engine", "llama.cpp", "-m", model, "-g", gpu, "-b", str(batch), "--prompt-len", str(prompt), "--gen-len", "32",
            "--weights", {"f16": "fp16"}.get(mix, mix), "--kv", "fp16", "--offline", "--format", "json"]
    r = subprocess.run(args, capture_output=True, text=True)
    row = {"model": model, "weights": mix, "batch": batch, "prompt_len": prompt, "gen_len": 32}
    if r.returncode:
        return {**row, "error": r.stderr.strip()}
    return {**row, **{k: json.loads(r.stdout)[k] for k in ("ttft_s", "tpot_s")}}


def main():
    program, gpu, folder, *models = sys.argv[1:]
    points = DECODE + [(1, n) for n in PROMPTS if (1, n) not in DECODE]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    rows = [estimate(program, gpu, *m.split(":"), *p) for m in models for p in points]
    text = json.dumps({"written": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit,
                       "gpu": gpu, "engine": "llama.cpp", "points": rows}, indent=0)
    path = pathlib.Path(folder) / f"predictions-{hashlib.sha256(text.encode()).hexdigest()}.json"
    path.write_text(text)
    print(path, len(rows), sum("error" in r for r in rows))


main()
