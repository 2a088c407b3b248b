#!/usr/bin/env python3
"""Convert operator tables of other projects to the columns that llmprof calibrate --import reads.

convert.py vidur data/profiling/compute/a40 > a40.csv          products of torch in fp16 (microsoft/vidur 7d47513, MIT)
convert.py infersim bench_data/gemm/h20/data.csv > h20.csv     DeepGEMM's products in FP8 by blocks (alibaba/InferSim f2293da, Apache-2.0)
convert.py infersim-attention bench_data/mha h20 > h20.csv     FlashAttention 3 and FlashInfer (the same)
convert.py llmservingsim . RTXPRO6000 > pro6000.csv            vLLM 0.19's products in bf16 (casys-kaist/LLMServingSim 5daddb2, MIT)
convert.py every 5 gemm_perf.parquet | tail -n +2 >> pro6000.csv   and one of five of vLLM 0.24.0's in bf16 (aiconfigurator-core 0.12.0, Apache-2.0; needs pyarrow), so that either table has as many
"""
import csv
import glob
import json
import os
import re
import sys

GEMM = ["framework", "version", "device", "op_name", "kernel_source", "gemm_dtype", "m", "n", "k", "latency"]
ATTENTION = ["framework", "version", "device", "op_name", "kernel_source", "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim", "latency"]


def vidur(out, folder):
    out.writerow(GEMM)
    for path in sorted(glob.glob(folder + "/**/mlp.csv", recursive=True)):
        for r in csv.DictReader(open(path)):
            tp, hidden, heads, kv, wide = (int(r[k]) for k in ("num_tensor_parallel_workers", "n_embd", "n_head", "n_kv_head", "n_expanded_embd"))
            head, gated = hidden // heads, r["use_gated_mlp"] == "True"
            for name, n, k in (("attn_pre_proj", (heads // tp + 2 * max(kv // tp, 1)) * head, hidden), ("attn_post_proj", hidden, heads // tp * head),
                               ("mlp_up_proj", (1 + gated) * wide // tp, hidden), ("mlp_down_proj", hidden, wide // tp)):
                ms = float(r[f"time_stats.{name}.median"] or 0)
                if ms > 0:
                    out.writerow(["vidur", "7d47513", os.path.basename(os.path.normpath(folder)).upper(), "gemm", "torch", "float16", r["num_tokens"], n, k, ms])


def infersim(out, path):
    out.writerow(GEMM)
    for r in csv.DictReader(open(path)):
        out.writerow(["infersim", "f2293da", path.split("/")[-2].upper(), "gemm", "deepgemm", "fp8_block", r["m"], r["n"], r["k"], float(r["latency_us"]) / 1e3])


def infersim_attention(out, folder, gpu):
    out.writerow(ATTENTION)
    name = {"bf16": "bfloat16"}
    for path in sorted(glob.glob(f"{folder}/*/{gpu}/*.csv")):
        heads, kv, head = re.search(r"(\d+)-(\d+)-(\d+)\.csv$", path).groups()
        for r in csv.DictReader(open(path)):
            if "latency_us" not in r:  # a file without a header
                break
            decode = "kv_len" in r
            out.writerow(["infersim", "f2293da", gpu.upper(), "generation_attention" if decode else "context_attention", "flashinfer" if decode else "fa3", name.get(r["dtype"], r["dtype"]),
                          name.get(r.get("kv_dtype", "bf16"), r.get("kv_dtype")), r.get("batch_size", 1), r.get("seq_len", 1), int(r.get("kv_len", 1)) - 1, heads, kv, head,
                          float(r["latency_us"]) / 1e3])


def llmservingsim(out, root, gpu):
    out.writerow(GEMM)
    for path in sorted(glob.glob(f"{root}/profiler/perf/{gpu}/*/*/bf16/tp*/*.csv")):
        model, tp, table = re.search(r"perf/[^/]+/(.+)/bf16/tp(\d+)/(\w+)\.csv$", path).groups()
        if table not in ("dense", "per_sequence"):
            continue
        c, tp = json.load(open(f"{root}/configs/model/{model}.json")), int(tp)
        hidden, heads, kv = c["hidden_size"], c["num_attention_heads"] // tp, max(c["num_key_value_heads"] // tp, 1)
        head, wide = c.get("head_dim") or hidden // c["num_attention_heads"], c["intermediate_size"] // tp
        shapes = {"qkv_proj": ((heads + 2 * kv) * head, hidden), "o_proj": (hidden, heads * head), "gate_up_proj": (2 * wide, hidden),
                  "down_proj": (hidden, wide), "lm_head": (c["vocab_size"] // tp, hidden)}
        for r in csv.DictReader(open(path)):
            if r["layer"] in shapes:
                n, k = shapes[r["layer"]]
                out.writerow(["llmservingsim", "5daddb2", gpu, "gemm", "vllm 0.19.0", "bfloat16", r.get("tokens") or r["sequences"], n, k, float(r["time_us"]) / 1e3])


def every(out, step, path):
    import pyarrow.parquet
    out.writerow(GEMM)
    rows = [r for r in pyarrow.parquet.read_table(path).to_pylist() if r["gemm_dtype"] == "bfloat16" and min(r["n"], r["k"]) >= 256]
    for r in sorted(rows, key=lambda r: (r["n"], r["k"], r["m"]))[::int(step)]:
        out.writerow(["llmservingsim", "5daddb2", "RTXPRO6000", "gemm", "vllm 0.19.0", "bfloat16", r["m"], r["n"], r["k"], r["latency"]])


if __name__ == "__main__":
    {"vidur": vidur, "every": every, "llmservingsim": llmservingsim, "infersim": infersim, "infersim-attention": infersim_attention}[sys.argv[1]](csv.writer(sys.stdout, lineterminator="\n"), *sys.argv[2:])
