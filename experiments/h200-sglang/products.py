#!/usr/bin/env python3
"""How fast a GPU multiplies the matrices of Llama-3.1-8B's layers by 8192 tokens, by what they hold and by how long it has been busy: products.py OUT

The four weights of each of eight layers are multiplied in turn, after a second of rest. Weights and inputs are normal (of a trained model's size), or
uniform within 1e-3 as the engines' dummy weights are. OUT gets a row for each layer: library, data, its start after the first in seconds, TFLOP/s.
"""
import csv
import sys
import time

import torch

SHAPES = ((4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096))
TOKENS, LAYERS, SECONDS = 8192, 8, 1.5


def normal(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


def uniform(*shape):
    return torch.empty(*shape, device="cuda", dtype=torch.bfloat16).uniform_(-1e-3, 1e-3)


def main():
    flops = 2 * TOKENS * sum(k * n for k, n in SHAPES)
    rows = []
    for name, fill in (("normal", normal), ("dummy", uniform), ("normal", normal), ("dummy", uniform)):
        weights = [[fill(k, n) for k, n in SHAPES] for _ in range(LAYERS)]
        inputs = [fill(TOKENS, k) for k, _ in SHAPES]
        for layer in weights[:2]:
            for x, w in zip(inputs, layer):
                x @ w
        torch.cuda.synchronize()
        time.sleep(1)
        events = [torch.cuda.Event(enable_timing=True)]
        events[0].record()
        begun = time.monotonic()
        while time.monotonic() - begun < SECONDS:
            for layer in weights:
                for x, w in zip(inputs, layer):
                    x @ w
                events.append(torch.cuda.Event(enable_timing=True))
                events[-1].record()
            if len(events) > 2 * LAYERS:
                events[-2 * LAYERS].synchronize()  # the queue stays short, so that the clock above is the GPU's
        torch.cuda.synchronize()
        for a, b in zip(events, events[1:]):
            rows.append((torch.__version__, name, round(events[0].elapsed_time(a) / 1e3, 4), round(flops / a.elapsed_time(b) / 1e9, 1)))
        del weights, inputs
    with open(sys.argv[1], "w", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows([("library", "data", "start_s", "tflops"), *rows])


main()
