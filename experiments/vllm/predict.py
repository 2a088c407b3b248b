#!/usr/bin/env python3
"""Write what `llmprof estimate` says today of every point of jobs.py, before it is measured: predict.py LLMPROF JOBS FOLDER

The file is named after the SHA-256 of its content.
"""
import concurrent.futures
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys

import jobs


def estimate(program, gpu, model, weights, tp, ep, batch, prompt, gen):
    args = [program, "estimate", "--engine", "vllm", "-m", model, "-g", gpu, "-b", str(batch), "--prompt-len", str(prompt), "--gen-len", str(gen),
            "--weights", weights, "--tp", str(tp), *(["--ep", str(ep)] if ep > 1 else []), "--offline", "--format", "json"]
    r = subprocess.run(args, capture_output=True, text=True)
    row = {"model": model, "weights": weights, "tp": tp, **({"ep": ep} if ep > 1 else {}), "batch": batch, "prompt_len": prompt, "gen_len": gen}
    if r.returncode:
        return {**row, "error": r.stderr.strip()}
    answer = json.loads(r.stdout)
    return {**row, **{k: answer[k] for k in ("ttft_s", "tpot_s", "ttlt_s")}}


def points(name):
    seen = {}
    for j in jobs.JOBS[name]:
        for kind, *a in j.get("points", []):
            if kind in ("decode", "prompts"):
                gen = 32 if kind == "decode" or a[2] == 1 else a[2]
                seen[(j["model"], j.get("weights", "bf16"), j.get("tp", 1), j["tp"] if "enable_expert_parallel" in j.get("args", {}) else 1, a[0], a[1], gen)] = None
    return list(seen)


def main():
    program, name, folder = sys.argv[1:]
    gpu = name.partition("-")[0]
    version = subprocess.run([program, "version"], capture_output=True, text=True).stdout.strip()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda p: estimate(program, gpu, *p), points(name)))
    text = json.dumps({"written": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "llmprof": version, "commit": commit,
                       "gpu": gpu, "engine": "vllm", "points": rows}, indent=0)
    path = pathlib.Path(folder) / f"predictions-{hashlib.sha256(text.encode()).hexdigest()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(path, len(rows), sum("error" in r for r in rows))


main()
