#!/usr/bin/env python3
"""What experts in 16 bits by vLLM take for few tokens: few.py TABLE TOML

TABLE is moe_perf.parquet of vLLM 0.25.0, and TOML what "llmprof calibrate --import TABLE" makes of it. The import leaves out rows whose weights the L2 cache may hold, and
with them nearly all of one token, so that the fixed time it finds is that of full batches. Printed are grouped_gemm.fixed by the rows of one token of narrow mixtures
(hidden size up to 3072), and grouped_gemm.expert by what the other constants leave of rows of 16 to 512 tokens.
"""
import statistics
import sys
import tomllib

import pandas

BANDWIDTH = {"h200": 4.8e12, "h100": 3.35e12}
PEAK = 989.4e12
UNGATED = {(2688, 1856), (4096, 2688), (1024, 2688), (8192, 5120), (2048, 5120)}  # as in measure/calibrate/tables

fit = tomllib.load(open(sys.argv[2], "rb"))["grouped_gemm"]
compute, memory, permute = (fit[k]["value"] for k in ("compute", "memory", "permute"))
bandwidth = next(v for k, v in BANDWIDTH.items() if k in sys.argv[1])
rows = []
for r in pandas.read_parquet(sys.argv[1]).itertuples():
    width, whole = r.inter_size // r.moe_tp_size, r.inter_size % (64 * r.moe_tp_size) == 0
    if r.moe_dtype != "bfloat16" or r.distribution != "balanced" or r.moe_ep_size > 1 or r.num_experts < 64 or not whole:
        continue
    matrices = 2 if (r.hidden_size, r.inter_size) in UNGATED else 3
    pairs = r.num_tokens * r.topk
    hit, one = min(r.num_experts, pairs), matrices * r.hidden_size * width
    least = ((2 * pairs * one / compute / PEAK) ** 2 + (2 * hit * one / memory / bandwidth) ** 2) ** 0.5
    rows.append((r.num_tokens, r.hidden_size, hit, r.latency / 1e3 - least - permute * 2 * pairs * r.hidden_size / bandwidth))
fixed = statistics.median(left / 2 for tokens, hidden, _, left in rows if tokens == 1 and hidden <= 3072)
expert = statistics.median((left / 2 - fixed) / hit for tokens, _, hit, left in rows if 16 <= tokens <= 512)
print(f"grouped_gemm.fixed {fixed:.4g}\ngrouped_gemm.expert {expert:.4g}")
