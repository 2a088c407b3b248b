#!/usr/bin/env python3
"""Medians of the watts beside operator times on a B200, from which hardware/defaults.toml has the power of Blackwell.

    watts.py aisimulate_core/systems/data/b200_sxm

reads AISimulate's tables of TensorRT-LLM 1.3.0rc20 (pip install aisimulate==0.13.0.dev202610270000000085, Apache-2.0) with pandas and pyarrow. Operators of 30 us and
more are listed: the power of shorter ones is averaged with what runs around them.
"""
import sys

import numpy
import pandas

WAITING, LIMIT = 206, 1000  # W


def table(folder, group, name):
    rows = pandas.read_parquet(f"{folder}/{group}/trtllm/1.3.0rc20/{name}_perf.parquet")
    return rows[rows.power > 0]


def main():
    folder = sys.argv[1]
    gemm = table(folder, "gemm", "gemm")
    print(f"least of {len(gemm)} GEMMs: {gemm.power.min():.0f} W of {gemm.power_limit.max():.0f}")
    few = gemm[(gemm.m <= 8) & (gemm.latency > 0.03)]
    for dtype, rows in few.groupby("gemm_dtype"):
        print(f"GEMMs of up to 8 rows, {dtype}: {rows.power.median():.0f} W, median of {len(rows)}")
    short = gemm[(gemm.m <= 16) & (gemm.latency > 0.004) & (gemm.gemm_dtype == "bfloat16")]
    moves = numpy.minimum(2 * short.n * short.k / (0.7 * 8e12) / (short.latency * 1e-3), 1)  # share of the time, at 0.7 of the bandwidth
    shares = (short.power - WAITING) / (LIMIT - WAITING)
    fit, *_ = numpy.linalg.lstsq(numpy.c_[moves, 1 - moves], shares, rcond=None)
    off = ((WAITING + (LIMIT - WAITING) * numpy.c_[moves, 1 - moves] @ fit) / short.power - 1).abs()
    print(f"power.memory {fit[0]:.3f}, power.gemm {fit[1]:.3f}: {len(short)} GEMMs in bfloat16, median error {off.median():.1%}, p90 {off.quantile(0.9):.1%}")
    for k, n in ((5120, 51200), (8192, 5120), (5120, 10240)):
        rows = gemm[(gemm.gemm_dtype == "bfloat16") & (gemm.m <= 8) & (gemm.k == k) & (gemm.n == n)]
        print(f"bfloat16, up to 8 rows, {k} inputs, {n} outputs: {rows.power.median():.0f} W, {rows.latency.median() * 1e3:.1f} us, median of {len(rows)}")
    started = gemm[(gemm.gemm_dtype == "fp8") & (gemm.m <= 16) & (gemm.latency >= 0.01) & (gemm.latency < 0.03)]
    print(f"fp8, up to 16 rows, 10 to 30 us: {started.power.median():.0f} W, median of {len(started)}, whose bytes take {(started.n * started.k / 8e12 / (started.latency * 1e-3)).median():.0%} of the time at the bandwidth")
    attention = table(folder, "attention", "generation_attention")
    long = attention[(attention.latency >= 0.1) & (attention.latency < 1)]
    for dtype, rows in long.groupby("kv_cache_dtype"):
        print(f"decode attention of 0.1 to 1 ms, cache in {dtype}: {rows.power.median():.0f} W, median of {len(rows)}")


main()
