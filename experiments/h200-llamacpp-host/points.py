#!/usr/bin/env python3
"""The points of the second measurement: points.py predict LLMPROF FOLDER, points.py commands BENCH FILES, or points.py reduce LINES.

predict writes predictions-SHA256.json, named after its content; commands prints a line of llama-bench for each group of points; reduce
makes observations of what llama-bench wrote.
"""
import csv
import hashlib
import itertools
import json
import pathlib
import subprocess
import sys

MOE, DENSE = "olmoe-1b-7b", "qwen3-14b"
HOST = ["--host", "h200-vm", "--ram", "128GB", "--expert-skew", "0"]
STEPS = (512, 1024, 2048, 4096)
BENCH = {"n_cpu_moe": "-ncmoe", "ngl": "-ngl", "load_mode": "-lm", "no_op_offload": "-nopo"}


def groups():
    """Yield what one call of llama-bench measures: a model, prompts, answers, passes and options of a placement."""
    def group(model, prompts=(), answers=(32,), steps=(512,), threads=8, graphs=True, **options):
        return {"model": model, "prompts": prompts, "answers": answers, "steps": steps, "threads": threads, "graphs": graphs,
                "options": {"load_mode": "none"} | options}
    for n in (0, 4, 8, 16):  # of 16 layers
        yield group(MOE, (4096,), steps=STEPS, n_cpu_moe=n)
    for threads in (4, 12, 16):
        yield group(MOE, threads=threads, n_cpu_moe=16)
    yield group(MOE, (16, 31, 32, 128, 512), (), n_cpu_moe=16)
    yield group(MOE, (32, 512), (), n_cpu_moe=16, no_op_offload=1)
    yield group(MOE, (4096,), (), (512, 4096), n_cpu_moe=16, load_mode="mmap")
    yield group(MOE, graphs=False)
    for layers in (41, 31, 21, 0):  # of 40 and the output
        yield group(DENSE, (2048,), steps=(2048,), ngl=layers)
    yield group(DENSE, (2048,), (), ngl=21)


def points():
    for g in groups():
        for step in g["steps"]:
            for prompt, answer in itertools.chain(((p, 0) for p in g["prompts"]), ((0, a) for a in g["answers"])):
                yield g | {"step": step, "prompt": prompt, "answer": answer}


def predict(llmprof, folder):
    found = []
    for p in points():
        args = ["estimate", p["model"], "h200", "--weights", "q4_k_m", "--kv", "fp16", *HOST[:4 if p["model"] == DENSE else 6]]
        args += ["--threads", str(p["threads"]), "--ubatch", str(p["step"]), "--format", "json"]
        args += ["--prompt-len", str(p["prompt"] or 1), "--gen-len", str(p["answer"] + 1)]
        args += ["--engine", "llama.cpp" if p["graphs"] else "llama.cpp+no-graphs"]
        for key, value in p["options"].items():
            flag = "--" + key.replace("_", "-")
            args += [flag] if key.startswith("no_") else [flag, str(value)]
        # A prompt as long as the model's context is answered, and exits with 1.
        e = json.loads(subprocess.run([llmprof, *args], capture_output=True, text=True).stdout)
        t, n = (e["tpot_s"], 1) if p["answer"] else (e["ttft_s"], p["prompt"])
        found.append({"command": " ".join(args), "tok_s": n / t["expected"], "low": n / t["high"], "high": n / t["low"],
                      "gpu_weights_bytes": e["memory"]["weights_bytes"], "host_weights_bytes": e["home"]["host_weights_bytes"]})
    text = json.dumps(found, indent=1) + "\n"
    path = pathlib.Path(folder) / f"predictions-{hashlib.sha256(text.encode()).hexdigest()}.json"
    path.write_text(text)
    print(path)


def commands(bench, files):
    def listed(values):
        return ",".join(map(str, values)) or "0"
    for g in groups():
        args = [bench, "-m", f"{files}/{g['model']}.gguf", "-p", listed(g["prompts"]), "-n", listed(g["answers"]), "-ub", listed(g["steps"])]
        args += ["-b", 4096, "-r", 3, "-o", "jsonl", "-t", g["threads"]]
        for key, value in ({"ngl": 999} | g["options"]).items():
            args += [BENCH[key], value]
        print(("" if g["graphs"] else "GGML_CUDA_DISABLE_GRAPHS=1 ") + " ".join(map(str, args)))


HEAD = ("source,id,model,gpu,engine,mode,tp,option,expert_skew,host,placement,batch,prompt_len,gen_len,weights,kv,load,all_logits,params,metric,"
        "value,low,high,device,samples,marks,note")


def reduce(path):
    out = csv.DictWriter(sys.stdout, HEAD.split(","), restval="", lineterminator="\n")
    out.writeheader()
    seen = set()
    for line in map(json.loads, open(path)):
        model, prompt = pathlib.Path(line["model_filename"]).stem, line["n_prompt"]
        where = f"--n-cpu-moe {line['n_cpu_moe']}" if model == MOE else f"--ngl {line['n_gpu_layers']}"
        where += f" --ubatch {line['n_ubatch']} --threads {line['n_threads']}"
        where += " --mmap" * (line["load_mode"] == "mmap") + " --no-op-offload" * line["no_op_offload"]
        rate = line["avg_ts"]
        key = (model, where, prompt)
        out.writerow({
            "source": "h200-llamacpp-again", "id": f"{model} {where} {'pp%d' % prompt if prompt else 'tg32'}", "model": model, "gpu": "h200-sxm-141gb",
            "engine": "llama.cpp", "tp": 1, "option": "no-graphs" if key in seen else "", "expert_skew": "0" if model == MOE else "",
            "host": "h200-vm", "placement": where, "batch": 1, "prompt_len": prompt or 1, "gen_len": 1 if prompt else 33, "weights": "q4_k_m",
            "kv": "fp16", "load": "static", "metric": "ttft_s" if prompt else "tpot_s", "value": f"{(prompt or 1) / rate:.6g}",
            "note": f"{rate:.2f} ± {line['stddev_ts']:.2f} tok/s"})
        seen.add(key)


if __name__ == "__main__":
    {"predict": predict, "commands": commands, "reduce": reduce}[sys.argv[1]](*sys.argv[2:])
