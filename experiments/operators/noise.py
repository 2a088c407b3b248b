#!/usr/bin/env python3
"""Say how far tables of GEMMs in 16 bits contradict each other, and how well neighbours say a shape.

noise.py aiconfigurator_core/systems/data        (aiconfigurator-core 0.12.0, Apache-2.0; needs pandas and pyarrow)

vLLM, SGLang and TensorRT-LLM call the same library for these products. For each pair of their tables of a GPU it prints the bias, and
median and 90th percentile of the difference less the bias, in %. For each table it prints the median error of the geometric mean of the up to four next
shapes in inputs and outputs with as many rows, after division by the time of fixed + √(C² + M²), in %. Weights that an L2 cache of a GPU holds are left out
where some row is faster than memory.
"""
import glob
import itertools
import re
import sys

import numpy
import pandas

PEAKS = {"a100_sxm": (312e12, 2.039e12, 40), "h100_sxm": (989.4e12, 3.35e12, 50), "h200_sxm": (989.4e12, 4.8e12, 50), "b200_sxm": (2250e12, 8e12, 126),
         "b300_sxm": (2250e12, 8e12, 126), "l40s": (362.05e12, 864e9, 96), "rtx_pro_6000_server": (467.8e12, 1597e9, 128)}


def table(data, gpu, engine):
    peak, bandwidth, cache = PEAKS[gpu]
    d = pandas.read_parquet(max(glob.glob(f"{data}/{gpu}/gemm/{engine}/*/gemm_perf.parquet"), key=release))
    d = d[d.gemm_dtype.isin(["bfloat16", "float16"]) & (d.n >= 256) & (d.k >= 256)]
    compute, weights = 2.0 * d.m * d.n * d.k / peak, 2.0 * d.n * d.k
    memory = (weights + 2.0 * d.m * (d.n + d.k)) / bandwidth
    cold = (memory <= compute) | (weights > cache * 2**20) | (not (memory > d.latency * 1e-3).any())
    d, compute, memory = d[cold], compute[cold], memory[cold]
    return d.assign(rest=numpy.log(d.latency * 1e-3 / (3e-6 + numpy.hypot(compute, memory)))).set_index(["m", "n", "k"])[["latency", "rest"]]


def release(path):
    return [int(n) for n in re.findall(r"\d+", path.split("/")[-2])]


def neighbours(d):
    cube = d.rest.unstack(["n", "k"]).sort_index(axis=1)
    cube = cube.reindex(columns=pandas.MultiIndex.from_product(map(sorted, (set(cube.columns.levels[0]), set(cube.columns.levels[1])))))
    a = cube.to_numpy().reshape(len(cube), len(cube.columns.levels[0]), -1)
    near = numpy.full((4,) + a.shape, numpy.nan)
    near[0, :, 1:], near[1, :, :-1], near[2, :, :, 1:], near[3, :, :, :-1] = a[:, :-1], a[:, 1:], a[:, :, :-1], a[:, :, 1:]
    return 100 * numpy.nanmedian(numpy.abs(numpy.expm1(a - numpy.nanmean(near, axis=0))))


def main(data):
    for gpu in PEAKS:
        tables = {e: table(data, gpu, e) for e in ("vllm", "sglang", "trtllm")}
        for one, other in itertools.combinations(tables, 2):
            both = tables[one].join(tables[other], rsuffix="_other", how="inner")
            r = numpy.log(both.latency / both.latency_other)
            rest = 100 * (r - r.median()).abs()
            print(f"{gpu:20} {one:>6} and {other:6}: {len(both)} shapes, bias {100 * r.median():5.1f}, median {rest.median():4.1f}, p90 {rest.quantile(.9):4.1f}")
        print(f"{gpu:20} neighbours:", ", ".join(f"{e} {neighbours(d):.1f}" for e, d in tables.items()))


if __name__ == "__main__":
    numpy.seterr(all="ignore")
    main(sys.argv[1])
