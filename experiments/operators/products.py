#!/usr/bin/env python3
"""Compare GEMMs in 16 bits of two releases of vLLM: products.py OLD.txt NEW.parquet (needs pyarrow)

    pip download aiconfigurator==0.6.0 aiconfigurator-core==0.12.0 --no-deps, and unzip
    products.py aiconfigurator/systems/data/h200_sxm/vllm/0.12.0/gemm_perf.txt aiconfigurator_core/systems/data/h200_sxm/gemm/vllm/0.24.0/gemm_perf.parquet

GEMMs of 20 µs and more, with 256 inputs and outputs and more; those in FP8 are timed with other kernels around them, and cannot be compared.
"""
import csv
import statistics
import sys

import pyarrow.parquet

old = {(int(r["m"]), int(r["n"]), int(r["k"])): float(r["latency"]) for r in csv.DictReader(open(sys.argv[1])) if r["gemm_dtype"] == "float16"}
new = {(r["m"], r["n"], r["k"]): r["latency"] for r in pyarrow.parquet.read_table(sys.argv[2]).to_pylist() if r["gemm_dtype"] == "bfloat16"}
for least, most in (1, 128), (129, 1 << 20):
    off = [old[k] / new[k] - 1 for k in new if k in old and least <= k[0] <= most and new[k] >= 0.02 and min(k[1:]) >= 256]
    print(f"{least} to {most} rows: {len(off)} products, median {100 * statistics.median(off):.1f} %, nine of ten within {100 * statistics.quantiles(map(abs, off), n=10)[-1]:.1f} %")
