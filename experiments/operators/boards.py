#!/usr/bin/env python3
"""Say how much longer products of 1024 rows and more take on an H100 than on an H200, by format and by their time on the H200.

boards.py aiconfigurator_core/systems/data        (aiconfigurator-core 0.12.0, Apache-2.0; needs pandas and pyarrow)
"""
import sys

import pandas

RELEASES = {"vllm": "0.24.0", "sglang": "0.5.14", "trtllm": "1.3.0rc20"}
MILLISECONDS = [0, 0.05, 0.2, 0.5, 2, 5, 1000]


def products(data, gpu, engine, quantization):
    d = pandas.read_parquet(f"{data}/{gpu}/gemm/{engine}/{RELEASES[engine]}/gemm_perf.parquet")
    d = d[(d.gemm_dtype == quantization) & (d.m >= 1024) & (d.n >= 1024) & (d.k >= 1024)]
    return d.drop_duplicates(["m", "n", "k"]).set_index(["m", "n", "k"]).latency


def main(data):
    print("H100 over H200, medians of products that take on the H200, in ms,", ", ".join(f"{a} to {b}" for a, b in zip(MILLISECONDS, MILLISECONDS[1:])))
    for engine in RELEASES:
        for quantization in ("bfloat16", "fp8", "fp8_block"):
            h100, h200 = products(data, "h100_sxm", engine, quantization), products(data, "h200_sxm", engine, quantization)
            both = pandas.concat([h100, h200], axis=1, keys=["h100", "h200"], join="inner")
            ratio = (both.h100 / both.h200).groupby(pandas.cut(both.h200, MILLISECONDS), observed=False).median()
            print(f"{engine:6} {quantization:9}", " ".join(f"{r:6.3f}" for r in ratio))


if __name__ == "__main__":
    main(sys.argv[1])
