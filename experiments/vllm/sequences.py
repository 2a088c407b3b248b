#!/usr/bin/env python3
"""Work out what vLLM's host takes for a decode step by its sequences: sequences.py (in the root of the repository)

Fits step + sequence x n to steps whose kernels take less time than the host, with the least mean error: llama3.2-1b in 16 bits with up to
64 sequences, and llama3.2-3b in FP8 with 24 to 256 at context 128. At 136 its kernels are longer, for CUTLASS takes larger tiles.
"""
import csv

SOURCES = [("h200-vllm", "llama3.2-1b", 1), ("h100-vllm", "llama3.2-1b", 1), ("h200-vllm-fp8", "llama3.2-3b", 24), ("h100-vllm-fp8", "llama3.2-3b", 24)]


def steps(folder, model, least):
    for r in csv.DictReader(open(f"experiments/{folder}/decode.csv")):
        n, context = int(r["batch"]), int(r["prompt_len"])
        if r["model"] == model and n >= least and n != 136 and (context == 128 or context == 1024 and model == "llama3.2-1b"):
            yield n, float(r["tpot_s"])


def fit(points):
    def error(step, sequence):
        return sum(abs(step + sequence * n - t) / t for n, t in points) / len(points)
    return min((error(step * 2e-5, sequence * 5e-7), step * 2e-5, sequence * 5e-7) for step in range(80, 160) for sequence in range(100))


def main():
    every = []
    for source in SOURCES:
        points = list(steps(*source))
        every += points
        show(f"{source[0]} {source[1]}", points)
    show("all", every)


def show(name, points):
    error, step, sequence = fit(points)
    print(f"{name}: {len(points)} points, step {1e3 * step:.2f} ms, sequence {1e6 * sequence:.1f} µs, mean error {100 * error:.1f} %")


main()
