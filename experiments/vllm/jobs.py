#!/usr/bin/env python3
"""Write the list of jobs that steps.py works off: jobs.py h200|h100 > jobs.json"""
import json
import sys

BATCHES = [1, 8, 32, 64, 2, 4, 16, 3, 12, 48]
LENGTHS = [1024, 128, 4096, 512, 2048, 8192, 16384, 256, 300, 700]
TOGETHER = [(1, 1024, 32), (8, 1024, 24), (32, 1024, 24), (8, 128, 24), (32, 128, 24), (3, 1024, 24), (4, 4096, 24), (12, 512, 24), (64, 128, 24), (1, 4096, 32)]
MIXED = [(8, 1024, 1024), (32, 1024, 1024), (32, 1024, 256), (32, 1024, 4096), (8, 1024, 8192), (64, 512, 1024), (8, 1024, 512)]


def decode(contexts, batches=BATCHES):
    return [["decode", b, c, {"repeats": 3 if c == 1024 else 2}] for c in contexts for b in batches]


def prompts(lengths=LENGTHS, together=TOGETHER):
    return [["prompts", 1, n, 1] for n in lengths] + [["prompts", *t] for t in together]


def traces(batches, lengths, marked=(1, 32)):
    return ([["trace", f"decode-b{b}", b, 1024, False] for b in batches] + [["trace", f"prompt-{n}", 1, 0, True, n] for n in lengths]
            + [["trace", f"decode-b{b}-cpu", b, 1024, True] for b in marked])


def job(name, points, model=None, **more):
    return {"name": name, "model": model or name, "points": points, "least_s": 75, **more}


def sampled(*batches):
    return [["decode", b, 1024, {"repeats": 2, "temperature": 1.0}] for b in batches]


def greedy(*batches):
    return [["decode", b, 1024, {"repeats": 2, "temperature": 0.0}] for b in batches]


FULL = decode([1024, 128]) + prompts() + decode([4096, 16384])
FP8 = {"weights": "fp8", "args": {"quantization": "fp8"}}
TP2 = {"tensor_parallel_size": 2}
EP2 = {**TP2, "enable_expert_parallel": True}
PAIR = decode([1024], [1, 8, 32, 64, 2, 4, 16]) + prompts([1024, 128, 4096, 512, 2048, 8192], TOGETHER[:2]) + decode([4096], [1, 8, 32]) + decode([128], [1, 32, 64])
EXPERTS = prompts([1024, 512, 4096, 2048, 256], []) + decode([1024], [1, 8, 32, 64])
PROCESSES = prompts([128, 256, 300, 512, 700, 1024, 2048, 4096], [])  # of experiments/vllm-host/processes.py
EDGES = decode([128, 1024], [16, 24, 32, 40, 64, 72, 96, 128, 136, 192, 256]) + prompts(together=[])  # rows on both sides of where CUTLASS takes larger tiles
SERVER = {"name": "server", "command": "bash $HERE/server.sh", "least_s": 150, "most_s": 260}
JOBS = {
    "h200": [
        job("llama3.1-8b", FULL + traces([1, 8, 32, 64], [1024, 4096]) + [["mixed", *m] for m in MIXED] + sampled(1, 8, 64)),
        job("qwen3-8b", FULL + [["mixed", *m] for m in MIXED[:3]]),
        job("qwen3-30b-a3b", decode([1024, 128]) + prompts(), temperature=1.0),
        job("llama3.2-1b", FULL + traces([1, 32], [1024]) + [["mixed", *m] for m in MIXED[:2]]),
        job("qwen3-30b-a3b-long", traces([1, 8, 32, 64], [1024, 4096], (1,)) + decode([4096, 16384]) + greedy(1, 8, 32) + [["mixed", *m] for m in MIXED[:2]],
            "qwen3-30b-a3b", temperature=1.0),
        job("llama3.1-8b-fp8", FULL + traces([1, 32], [1024], ()), "llama3.1-8b", **FP8),
        job("qwen2.5-7b", FULL),
        SERVER,
        job("llama3.2-3b", FULL),
        job("qwen3-8b-fp8", FULL, "qwen3-8b", **FP8),
    ],
    "h100": [
        {"name": "native", "command": "bash $HERE/native.sh", "least_s": 100, "most_s": 420},
        job("llama3.1-8b", FULL + traces([1, 8, 32, 64], [1024, 4096], (1,)) + [["mixed", *m] for m in MIXED[:4]]),
        job("qwen3-8b", FULL),
        job("llama3.2-1b", FULL + traces([1, 32], [1024], ())),
        job("qwen3-30b-a3b", FULL + traces([1, 32], [1024], ()), temperature=1.0),
        job("llama3.1-8b-fp8", FULL, "llama3.1-8b", **FP8),
        job("qwen2.5-7b", FULL),
        job("llama3.2-3b", FULL),
        SERVER,
        job("qwen3-8b-fp8", FULL, "qwen3-8b", **FP8),
    ],
    "h100-tp2": [
        job("llama3.1-8b-tp2", PAIR + traces([1, 32], [1024], ()), "llama3.1-8b", tp=2, args=TP2),
        job("qwen3-30b-a3b-tp2", PAIR + traces([1, 32], [1024], ()), "qwen3-30b-a3b", temperature=1.0, tp=2, args=TP2),
        job("qwen3-8b-tp2", PAIR, "qwen3-8b", tp=2, args=TP2),
    ],
    "h100-ep": [job(f"{m}-{'ep' if args is EP2 else 'tp'}2", EXPERTS, m, tp=2, args=args, **more)
                for m, more in (("gpt-oss-20b", {"weights": "mxfp4"}), ("qwen3-30b-a3b", {"temperature": 1.0})) for args in (EP2, TP2)],
    "h100-oss": [job("gpt-oss-20b", [["trace", "prompt-2048", 1, 0, True, 2048], ["trace", "decode-b1", 1, 1024, False], *EXPERTS, ["prompts", 1, 8192, 1], ["prompts", 1, 1536, 1], ["trace", "decode-b32", 32, 1024, False],
                                  ["trace", "prompt-1024", 1, 0, True, 1024]], weights="mxfp4", temperature=1.0)],
    **{f"{gpu}-processes": [job(m, PROCESSES, m, **more) for more in ({}, FP8) for m in ("llama3.1-8b", "qwen3-8b", "qwen2.5-7b", "llama3.2-3b")]
       + [job("qwen3-30b-a3b", PROCESSES), job("gpt-oss-20b", PROCESSES, weights="mxfp4")] for gpu in ("h100", "h200")},
    "h100-processes-tp2": [job(m, PROCESSES, tp=2, args=TP2, **more) for m, more in (("llama3.1-8b", {}), ("qwen3-8b", {}), ("qwen3-30b-a3b", {}), ("gpt-oss-20b", {"weights": "mxfp4"}))],
    "h100-fp8": [job(m + "-fp8", EDGES, m, **FP8) for m in ("qwen3-8b", "qwen2.5-7b", "llama3.2-3b")],
    "tiny-tp2": [job("tiny", [["decode", 1, 128, {"repeats": 2}], ["prompts", 1, 128, 1], ["trace", "decode-b4", 4, 128, True]], tp=2,
                     args={"enforce_eager": True, "max_model_len": 2048, "tensor_parallel_size": 2})],
    "tiny": [
        job("tiny", [["decode", 1, 128, {"repeats": 2}], ["decode", 8, 256, {"repeats": 2, "temperature": 1.0}], ["prompts", 1, 128, 1], ["prompts", 3, 100, 6],
                     ["mixed", 4, 128, 256], ["trace", "decode-b4", 4, 128, True], ["trace", "prompt-256", 1, 0, True, 256]],
            args={"enforce_eager": True, "max_model_len": 2048, "distributed_executor_backend": "uni"}),
    ],
}
if __name__ == "__main__":
    json.dump(JOBS[sys.argv[1]], sys.stdout, indent=1)
