#!/usr/bin/env python3
"""Say what of tables of GEMMs in 16 bits comes from how they were timed: from the L2 cache, and from the power limit.

timed.py aiconfigurator_core/systems/data        (aiconfigurator-core 0.12.0, Apache-2.0; needs numpy, pandas and pyarrow)

The collector empties no cache. vLLM's and SGLang's call six copies of the weights in turn, TensorRT-LLM's as many as exceed the L2 cache, up to five. For products of up to 32 rows
the script prints their time over that of reading the weights from memory, by the share of the L2 cache that all copies have (medians).

Each table calls a product six times for each copy before it measures as many calls. SGLang's and TensorRT-LLM's weights are random; vLLM's are what the memory held before, and zeros draw little power.
For products that leave few SMs without a tile it prints the share of the peak, as 10th percentile, median and 90th, by the time of all calls.
"""
import glob
import re
import sys

import numpy
import pandas

PEAKS = {"a100_sxm": (312e12, 2.039e12, 40, 108), "h100_sxm": (989.4e12, 3.35e12, 50, 132), "h200_sxm": (989.4e12, 4.8e12, 50, 132), "b200_sxm": (2250e12, 8e12, 126, 148),
         "b300_sxm": (2250e12, 8e12, 126, 148), "l40s": (362.05e12, 864e9, 96, 142), "rtx_pro_6000_server": (467.8e12, 1597e9, 128, 188)}
FILLED = [0.5, 0.8, 0.9, 1, 1.03, 1.05, 1.1, 1.2, 1.5, 2, 4]
SECONDS = [0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 100]


def release(path):
    return [int(n) for n in re.findall(r"\d+", path.split("/")[-2])]


def main(data):
    for gpu, (peak, bandwidth, cache, sms) in PEAKS.items():
        for engine in ("vllm", "sglang", "trtllm"):
            d = pandas.read_parquet(max(glob.glob(f"{data}/{gpu}/gemm/{engine}/*/gemm_perf.parquet"), key=release))
            d = d[d.gemm_dtype.isin(["bfloat16", "float16"]) & (d.n >= 256) & (d.k >= 256)]
            weights, time = 2.0 * d.n * d.k, d.latency * 1e-3
            copies = numpy.clip(numpy.ceil(cache * 2**20 / weights), 1, 5) if engine == "trtllm" else 6
            filled = copies * weights / (cache * 2**20)
            few = d.m <= 32
            ratio = (time / (weights / bandwidth))[few].groupby(pandas.cut(filled[few], FILLED), observed=True).median()
            print(f"{gpu:20} {engine:7} filled:", " ".join(f"{i.left:g}-{i.right:g} {r:.2f}" for i, r in ratio.items()))
            waves = numpy.ceil(d.m / 128) * numpy.ceil(d.n / 256)
            full = (d.m >= 1024) & (d.n >= 1024) & (d.k >= 1024) & (d.m % 128 == 0) & (numpy.ceil(waves / sms) * sms * 128 * 256 < 1.12 * d.m * d.n)
            share = (2.0 * d.m * d.n * d.k / peak / time)[full].groupby(pandas.cut((12 * copies * time)[full], SECONDS), observed=True)
            print(f"{gpu:20} {engine:7} called:", " ".join(f"{i.left:g}-{i.right:g}s {a:.2f}/{b:.2f}/{c:.2f}" for i, a, b, c in zip(share.median().index, share.quantile(.1), share.median(), share.quantile(.9))))


if __name__ == "__main__":
    main(sys.argv[1])
