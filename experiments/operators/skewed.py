#!/usr/bin/env python3
"""Score the law of grouped GEMMs, of whole tiles and without them, on rows of uneven routing, which no constant was fitted to.

skewed.py aiconfigurator_core/systems/data        (aiconfigurator-core 0.12.0, Apache-2.0; needs numpy, pandas and pyarrow)

Rows of aiconfigurator's tables of experts are predicted with the constants of analytic/engine/operators.csv, on Hopper, for kernels whose tiles are known
(analytic/engine/tiles.go). uneven.py draws the counts of tokens of rows by a power law. For even routing and both power laws, on one rank and on 2
to 8, it prints the median and the 90th percentile of the error in %, of rows and of whole tiles, and the median over all rows of uneven routing.
"""
import csv
import glob
import pathlib
import sys

import numpy
import pandas

from uneven import counts

PEAK = {"h100_sxm": (989.4e12, 3.35e12), "h200_sxm": (989.4e12, 4.8e12)}
GPU = {"h100_sxm": "h100-sxm-80gb", "h200_sxm": "h200-sxm-141gb"}
TABLES = {"vllm": "0.24.0", "sglang": "0.5.14"}
KERNELS = [("vllm", "w4a16_mxfp4", "_w4a16_mxfp4", 17 / 32, "oaitriton"), ("vllm", "int4_wo", "_w4a16", 0.5 + 2 / 128, "marlin"),
           ("sglang", "int4_wo", "_w4a16", 0.5 + 2 / 128, "marlin"), ("sglang", "bfloat16", "", 2, "fused_moe_triton")]
UNGATED = {(2688, 1856), (4096, 2688), (1024, 2688), (8192, 5120), (2048, 5120)}
MAPPED = 9 * 2e-6  # kernels that map experts to ranks of EP, in MXFP4, and element.fixed
DRAWS = 40


def rows(scheme, tokens, topk, local):
    pairs = tokens * topk / local
    if scheme == "w4a16_mxfp4":
        return next((b for b in (16, 32, 64) if numpy.floor(pairs) <= b), 128)
    if scheme == "int4_wo":
        return next((b for b in (8, 16, 32, 48) if pairs < 0.9 * b), 64)
    return 16 if tokens <= local else 64


def drawn(random, scheme, tokens, topk, experts, ranks, distribution):
    """The pairs, the experts with tokens and the rows of whole tiles of the timed rank."""
    tile = rows(scheme, tokens, topk, experts // ranks)
    if distribution == "balanced":
        hit = min(experts, tokens * topk) / ranks
        pairs = tokens * topk / ranks
        return pairs, hit, hit * numpy.ceil(pairs / hit / tile) * tile
    all = [counts(random, tokens, experts, topk, ranks, float(distribution.split("_")[-1])) for _ in range(DRAWS)]
    return tuple(numpy.mean([f(n) for n in all]) for f in (numpy.sum, numpy.count_nonzero, lambda n: numpy.ceil(n / tile).sum() * tile))


def main(data):
    table = pathlib.Path(__file__).parents[2] / "analytic/engine/operators.csv"
    constants = {tuple(r[i] for i in (0, 1, 3)): float(r[4]) for r in csv.reader(line for line in table.open() if line[0] != "#") if r[4:] and r[4] not in ("", "value")}
    for gpu, (peak, bandwidth) in PEAK.items():
        for engine, scheme, section, size, kernel in KERNELS:
            random = numpy.random.default_rng(1)
            d = pandas.read_parquet(glob.glob(f"{data}/{gpu}/moe/{engine}/{TABLES[engine]}/moe_perf.parquet")[0])
            d = d[(d.moe_dtype == scheme) & (d.moe_ep_size <= 8) & d.kernel_source.str.contains(kernel) & ~d.kernel_source.str.contains("situ")]
            d = d[(d.num_tokens * d.topk >= d.moe_ep_size) & ((d.inter_size % (64 * d.moe_tp_size) == 0) | (scheme == "w4a16_mxfp4"))]
            key = ["num_tokens", "topk", "num_experts", "moe_ep_size", "distribution"]
            known = {t: drawn(random, scheme, *t) for t in d[key].drop_duplicates().itertuples(index=False, name=None)}
            pairs, hit, whole = numpy.array([known[t] for t in d[key].itertuples(index=False, name=None)]).T
            matrices = [2 if t in UNGATED else 3 for t in zip(d.hidden_size, d.inter_size)]
            expert = numpy.array(matrices) * d.hidden_size.values * (d.inter_size // d.moe_tp_size).values
            c = {k: constants.get((engine, GPU[gpu], f"grouped_gemm{section}.{k}"), 0) for k in ("compute", "memory", "fixed", "permute", "expert")}
            fixed = 2 * c["fixed"] + 2 * hit * c["expert"] + c["permute"] * 2 * (d.num_tokens * d.topk * d.hidden_size).values / bandwidth
            memory = hit * expert * size / bandwidth / c["memory"]
            ep = (d.moe_ep_size > 1).values
            print(gpu, engine, scheme)
            for name, n, more in ("rows", pairs, 0), ("whole tiles", whole, MAPPED * ep * (scheme == "w4a16_mxfp4")):
                t = fixed + more + numpy.hypot(2 * n * expert / peak / c["compute"], memory)
                error = abs(t / d.latency.values * 1e3 - 1) * 100
                out = [f"{numpy.median(error[m]):5.1f} {numpy.percentile(error[m], 90):3.0f}" for x in ("balanced", "power_law_1.01", "power_law_1.2")
                       for m in ((d.distribution == x).values & ~ep, (d.distribution == x).values & ep)]
                uneven, even = (d.distribution != "balanced").values, (d.distribution == "balanced").values
                print(f"  {name:12}", " | ".join(out), f"| uneven {numpy.median(error[uneven]):.1f}, even p90 {numpy.percentile(error[even], 90):.0f}")


main(*sys.argv[1:])
