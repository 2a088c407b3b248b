#!/usr/bin/env python3
"""Say what uneven routing and ranks of EP cost in tables of experts, and what of it follows from the counts of tokens.

uneven.py aiconfigurator_core/systems/data GPU ENGINE SCHEME        (aiconfigurator-core 0.12.0, Apache-2.0; needs numpy, pandas and pyarrow)

The tables' rows of the distribution power_law_A were timed with counts of tokens that collector/helper.py of aiconfigurator draws: experts have loads of a
density x^-A between 1 and 0.8 times the tokens (0.01 and 2 where there are fewer pairs than experts), scaled to the pairs, those that no expert
can take go to experts with the fewest, and the rank of EP with the most pairs is the one that is timed. For each number of ranks and of tokens this prints three medians over the shapes: the time of such rows over that of
even routing, the pairs of the timed rank over those of a mean rank, and its tiles over those of even routing, a tile having as many rows as the mean
expert, as a power of two from 16 to 128. Then it prints the time of ranks of EP less that of as many ranks of TP, in µs, for up to 8 tokens.
"""
import glob
import re
import sys

import numpy
import pandas

SHAPE = ["num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "kernel_source"]
DRAWS = 40


def counts(random, tokens, experts, topk, ranks, exponent):
    low, high = (1, 0.8 * tokens) if tokens * topk > experts else (0.01, 2)
    ends = low ** (1 - exponent), high ** (1 - exponent)
    loads = (ends[0] + random.random(experts) * (ends[1] - ends[0])) ** (1 / (1 - exponent))
    n = numpy.minimum(numpy.round(loads / loads.sum() * tokens * topk), tokens)
    left = int(tokens * topk - n.sum())
    while left > 0:  # pairs that no expert took go to those with the fewest, one by one
        least = n.argsort(kind="stable")[:left]
        least = least[n[least] < tokens]
        n[least] += 1
        left -= len(least)
    n = n.reshape(ranks, -1)
    return n[n.sum(1).argmax()]


def drawn(random, tokens, experts, topk, ranks, exponent):
    mean = tokens * topk / experts
    rows = min(max(16, 2 ** int(numpy.ceil(numpy.log2(max(mean, 1))))), 128)
    even = min(experts, tokens * topk) / ranks * numpy.ceil(max(mean, 1) / rows)
    all = [counts(random, tokens, experts, topk, ranks, exponent) for _ in range(DRAWS)]
    return numpy.mean([n.sum() for n in all]) / (tokens * topk / ranks), numpy.mean([numpy.ceil(n / rows).sum() for n in all]) / even


def main(data, gpu, engine, scheme):
    file = max(glob.glob(f"{data}/{gpu}/moe/{engine}/*/moe_perf.parquet"), key=lambda p: [int(n) for n in re.findall(r"\d+", p.split("/")[-2])])
    d = pandas.read_parquet(file)
    d = d[(d.moe_dtype == scheme) & (d.moe_ep_size <= 8)]
    random = numpy.random.default_rng(1)
    even = d[d.distribution == "balanced"].groupby(SHAPE).latency.min()
    for name in "power_law_1.01", "power_law_1.2":
        both = pandas.concat([even, d[d.distribution == name].groupby(SHAPE).latency.min()], axis=1, keys=["even", "uneven"], join="inner").reset_index()
        both = both[both.num_tokens.isin([64, 256, 512, 1024, 4096, 16384])]
        key = ["num_tokens", "num_experts", "topk", "moe_ep_size"]
        known = {t: drawn(random, *t, float(name.split("_")[-1])) for t in both[key].drop_duplicates().itertuples(index=False, name=None)}
        both["pairs"], both["tiles"] = zip(*[known[t] for t in both[key].itertuples(index=False, name=None)])
        both["time"] = both.uneven / both.even
        print(name)
        print(both.groupby(["moe_ep_size", "num_tokens"])[["time", "pairs", "tiles"]].median().round(2).unstack("moe_ep_size").to_string())
    few = d[(d.distribution == "balanced") & (d.num_tokens <= 8)]
    shape = ["num_tokens", "hidden_size", "inter_size", "topk", "num_experts"]
    ep = few[(few.moe_tp_size == 1) & (few.moe_ep_size > 1)].assign(ranks=few.moe_ep_size)
    tp = few[(few.moe_ep_size == 1) & (few.moe_tp_size > 1)].assign(ranks=few.moe_tp_size)
    more = ep.groupby(shape + ["ranks"]).latency.min() - tp.groupby(shape + ["ranks"]).latency.min()
    print((more * 1000).dropna().groupby(["ranks", "num_tokens"]).median().round(0).unstack("num_tokens").to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
