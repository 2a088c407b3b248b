#!/usr/bin/env python3
"""Say how much less time vLLM's and TensorRT-LLM's tables of GEMMs in 16 bits have than SGLang's, by SGLang's time.

power.py aiconfigurator_core/systems/data        (aiconfigurator-core 0.12.0, Apache-2.0; needs pandas and pyarrow)

All three call the same library. SGLang's and TensorRT-LLM's weights are random; vLLM's are what the memory held before, and zeros draw little power. For each
GPU the script prints the 10th percentile, the median and the 90th of the ratios.
"""
import sys

import pandas

RELEASES = {"vllm": "0.24.0", "sglang": "0.5.14", "trtllm": "1.3.0rc20"}
MILLISECONDS = [0, 0.1, 0.3, 1, 3, 10, 30, 1000]


def table(data, gpu, engine):
    d = pandas.read_parquet(f"{data}/{gpu}/gemm/{engine}/{RELEASES[engine]}/gemm_perf.parquet")
    d = d[(d.gemm_dtype == "bfloat16") & (d.n >= 1024) & (d.k >= 1024)]
    return d.drop_duplicates(["m", "n", "k"]).set_index(["m", "n", "k"]).latency


def main(data):
    for gpu in ("h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "l40s", "rtx_pro_6000_server"):
        x = pandas.DataFrame({e: table(data, gpu, e) for e in RELEASES}).dropna()
        for engine in ("vllm", "trtllm"):
            ratio = (x[engine] / x.sglang).groupby(pandas.cut(x.sglang, MILLISECONDS), observed=True)
            print(f"{gpu:20} {engine:6}", " ".join(f"{i.left:g}-{i.right:g}ms {a:.2f}/{b:.2f}/{c:.2f}" for i, a, b, c in zip(ratio.median().index, ratio.quantile(.1), ratio.median(), ratio.quantile(.9))))


if __name__ == "__main__":
    main(sys.argv[1])
