#!/usr/bin/env python3
"""Measure what a GPU draws while GEMMs of few rows read their weights, as decode steps have them: weights.py SECONDS > FILE.jsonl

GEMMs are torch's (cuBLAS), in bf16, and in FP8 with a scale a row; weights are normal values and rotate over 2 GB, so that none stays in the L2
cache. A CUDA graph has one GEMM for each of them. Power is the slope of NVML's energy counter. `sum` reads the same bytes once and adds them up.
"""
import json
import sys
import time

import pynvml
import torch

import bursts

SHAPES = [(28672, 4096), (6144, 4096), (4096, 14336)]
ROWS = [1, 8, 16, 32, 64, 128]
BYTES = 2e9


def run(gpu, seconds, what, call, bytes_each, n, flops):
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        call(0)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=s):
            for i in range(n):
                call(i)
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        meter, begin, times = bursts.Meter(gpu), time.monotonic(), []
        meter.start()
        while time.monotonic() - begin < seconds:
            a.record()
            for _ in range(20):
                graph.replay()
            b.record()
            b.synchronize()
            times.append(1e-3 * a.elapsed_time(b) / 20 / n)
    t = sorted(times)[len(times) // 2]
    print(json.dumps({**what, "call_s": t, "bytes_s": bytes_each / t, "flop_s": flops / t, **meter.end(begin)}), flush=True)


def gemms(gpu, seconds, rows, n, k, fp8):
    width = 1 if fp8 else 2
    count = max(2, int(BYTES / (width * n * k)))
    x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    w = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    if fp8:
        x, w = x.to(torch.float8_e4m3fn), [y.to(torch.float8_e4m3fn) for y in w]
        sa, sb = torch.ones(rows, 1, device="cuda"), torch.ones(1, n, device="cuda")
        call = lambda i: torch._scaled_mm(x, w[i].T, sa, sb, out_dtype=torch.bfloat16)
    else:
        out = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
        call = lambda i: torch.matmul(x, w[i].T, out=out)
    run(gpu, seconds, {"kind": "gemm", "format": "fp8" if fp8 else "bf16", "m": rows, "n": n, "k": k}, call, width * n * k, count, 2 * rows * n * k)


def main():
    seconds = float(sys.argv[1])
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    print(json.dumps({"gpu": pynvml.nvmlDeviceGetName(gpu), "limit_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000, "driver": pynvml.nvmlSystemGetDriverVersion(), "torch": torch.__version__}), flush=True)
    print(json.dumps(bursts.waiting(gpu, seconds)), flush=True)
    for n, k in SHAPES:
        for fp8 in (False, True):
            for rows in ROWS:
                if fp8 and rows % 16 and rows > 1:
                    continue
                try:
                    gemms(gpu, seconds, rows, n, k, fp8)
                except Exception as e:
                    print(json.dumps({"kind": "error", "format": "fp8" if fp8 else "bf16", "m": rows, "n": n, "k": k, "error": repr(e)[:300]}), flush=True)
                torch.cuda.empty_cache()
    w = [torch.randn(1 << 28, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    run(gpu, seconds, {"kind": "sum"}, lambda i: w[i].sum(dtype=torch.float32), 1 << 29, 4, 0)
    print(json.dumps(bursts.waiting(gpu, seconds)), flush=True)


if __name__ == "__main__":
    main()
