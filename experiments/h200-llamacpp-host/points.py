#!/usr/bin/env python3
"""The points of the second measurement, and their predictions: points.py predict LLMPROF FOLDER, or points.py commands BENCH FILES.

predict writes predictions-SHA256.json, named after its content; commands prints a line of llama-bench for each group of points.
"""
import hashlib
import json
import pathlib
import subprocess
import sys

MOE, DENSE = "olmoe-1b-7b", "qwen3-14b"
HOST = ["--host", "h200-vm", "--ram", "128GB"]


def points():
    """Yield model, options of a placement, tokens of the prompt and of the answer, and whether graphs are on."""
    def point(model, prompt, gen, graphs=True, **options):
        return {"model": model, "prompt": prompt, "gen": gen, "graphs": graphs} | options
    for n in (0, 8, 16):  # of 16 layers
        yield point(MOE, 0, 32, n_cpu_moe=n, threads=8)
        for step in (512, 1024, 2048, 4096):
            yield point(MOE, 4096, 0, n_cpu_moe=n, ubatch=step, threads=8)
    for threads in (4, 12):
        yield point(MOE, 0, 32, n_cpu_moe=16, threads=threads)
    for tokens in (16, 31, 32, 128):
        yield point(MOE, tokens, 0, n_cpu_moe=16, threads=8)
    yield point(MOE, 4096, 0, n_cpu_moe=16, threads=8, load_mode="mmap")
    yield point(MOE, 0, 32, graphs=False, n_cpu_moe=0, threads=8)
    for layers in (41, 31, 21, 0):  # of 40 and the output
        yield point(DENSE, 0, 32, ngl=layers, threads=8)
        yield point(DENSE, 2048, 0, ngl=layers, threads=8, ubatch=2048)


def predict(llmprof, folder):
    found = []
    for p in points():
        args = ["estimate", p["model"], "h200", "--weights", "q4_k_m", *HOST, "--threads", str(p["threads"])]
        args += ["--prompt-len", str(p["prompt"] or 1), "--gen-len", str(p["gen"] + 1), "--format", "json"]
        args += ["--engine", "llama.cpp" if p["graphs"] else "llama.cpp+no-graphs"]
        for key in ("n_cpu_moe", "ngl", "ubatch", "load_mode"):
            if key in p:
                args += ["--" + key.replace("_", "-"), str(p[key])]
        # A prompt as long as the model's context is answered, and exits with 1.
        e = json.loads(subprocess.run([llmprof, *args], capture_output=True, text=True).stdout)
        t = e["tpot_s"] if p["gen"] else e["ttft_s"]
        rate = lambda s: (1 if p["gen"] else p["prompt"]) / s
        found.append(p | {"tok_s": rate(t["expected"]), "low": rate(t["high"]), "high": rate(t["low"]), "gpu_weights_bytes":
                          e["memory"]["weights_bytes"], "host_weights_bytes": e["home"]["host_weights_bytes"]})
    text = json.dumps(found, indent=1) + "\n"
    path = pathlib.Path(folder) / f"predictions-{hashlib.sha256(text.encode()).hexdigest()}.json"
    path.write_text(text)
    print(path)


def commands(bench, files):
    for p in points():
        args = [bench, "-m", f"{files}/{p['model']}.gguf", "-p", p["prompt"], "-n", p["gen"], "-r", 3, "-o", "jsonl", "-t", p["threads"]]
        args += ["-ub", p.get("ubatch", 512), "-b", max(p.get("ubatch", 512), 2048), "-ngl", p.get("ngl", 999)]
        if p.get("n_cpu_moe"):
            args += ["-ncmoe", p["n_cpu_moe"]]
        args += ["-lm", p.get("load_mode", "none")]
        print(("" if p["graphs"] else "GGML_CUDA_DISABLE_GRAPHS=1 ") + " ".join(map(str, args)))


if sys.argv[1] == "predict":
    predict(*sys.argv[2:])
else:
    commands(*sys.argv[2:])
