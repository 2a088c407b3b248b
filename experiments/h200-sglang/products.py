#!/usr/bin/env python3
"""How fast a GPU multiplies the matrices of Llama-3.1-8B's layers by 8192 tokens, by what it did before and for how long it has been busy: products.py OUT

The four weights of each of eight layers are multiplied in turn for SECONDS, after a rest, after reading memory as a decode step does, and after a short
rest from other products. Weights and inputs are normal (of a trained model's size), or uniform within 1e-3 as the engines' dummy weights are. OUT gets a
row for each layer: library, what came before, data, its start after the first in seconds, TFLOP/s.
"""
import csv
import sys
import time

import torch

SHAPES = ((4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096))
TOKENS, LAYERS, SECONDS = 8192, 8, 0.5
FLOPS = 2 * TOKENS * sum(k * n for k, n in SHAPES)


def normal(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


def dummy(*shape):
    return torch.empty(*shape, device="cuda", dtype=torch.bfloat16).uniform_(-1e-3, 1e-3)


def products(weights, inputs, seconds):
    """The events between layers."""
    events = [torch.cuda.Event(enable_timing=True)]
    events[0].record()
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        for layer in weights:
            for x, w in zip(inputs, layer):
                x @ w
            events.append(torch.cuda.Event(enable_timing=True))
            events[-1].record()
        if len(events) > 2 * LAYERS:
            events[-2 * LAYERS].synchronize()  # the queue stays short, so that the clock above is the GPU's
    torch.cuda.synchronize()
    return events


def read(weights, seconds):
    """Multiplies all weights by one vector each, as a decode step does."""
    vectors = {k: normal(1, k) for k, _ in SHAPES}
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        for layer in weights:
            for w in layer:
                vectors[w.shape[0]] @ w
        torch.cuda.synchronize()


def main():
    rows = []
    for fill in (normal, dummy):
        weights = [[fill(k, n) for k, n in SHAPES] for _ in range(LAYERS)]
        inputs = [fill(TOKENS, k) for k, _ in SHAPES]
        products(weights, inputs, 0.01)
        for before in ("rest 1 s", "reads 1 s", "products, rest 0.1 s", "products, reads 0.1 s", "products, rest 0.3 s", "rest 0.3 s", "reads 0.3 s") * 2:
            if before.startswith("products"):
                products(weights, inputs, SECONDS)
            seconds = float(before.split()[-2])
            if "reads" in before:
                read(weights, seconds)
            else:
                time.sleep(seconds)
            events = products(weights, inputs, SECONDS)
            rows += [(torch.__version__, before, fill.__name__, round(events[0].elapsed_time(a) / 1e3, 4), round(FLOPS / a.elapsed_time(b) / 1e9, 1))
                     for a, b in zip(events, events[1:])]
        del weights, inputs
    with open(sys.argv[1], "w", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows([("library", "before", "data", "start_s", "tflops"), *rows])


main()
