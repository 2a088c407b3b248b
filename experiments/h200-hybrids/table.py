#!/usr/bin/env python3
"""What points.jsonl.gz says: TTFT beside what was predicted before, and what functions of the host take of a prompt: table.py FOLDER"""
import glob
import gzip
import json
import statistics
import sys

FUNCTIONS = {
    "QwenGatedDeltaNetAttention._forward_core": "gated delta net", "qwen_gdn_linear_attn:causal_conv1d_fn": "its convolution",
    "qwen_gdn_linear_attn:fused_post_conv_prep": "its split and norms", "qwen_gdn_linear_attn:fla_chunk_gated_delta_rule": "its rule",
    "MambaMixer2.conv_ssm_forward": "state-space model", "MoERunner._forward_impl": "experts", "SharedExperts.forward": "shared experts of them",
    "FlashAttentionImpl.forward": "attention", "GemmaRMSNorm.forward_native": "norm of Gemma", "GPUModelRunner.sample_tokens": "sampling",
}
folder = sys.argv[1]
predicted = {(p["job"], p["batch"], p["prompt_len"]): p["ttft_s"] for p in json.load(open(glob.glob(folder + "/predictions-*.json")[0]))["points"]}
rows = [json.loads(line) for line in gzip.open(folder + "/points.jsonl.gz", "rt")]

print(f"{'engine':18s} {'prompts':>8s} {'ms':>7s} {'least':>7s} {'most':>7s} {'predicted':>9s}")
for r in rows:
    p = predicted.get((r["job"], r.get("batch"), r.get("prompt")))
    if r["kind"] == "ttft" and p:
        last = [1e3 * ts[-1] for ts in r["first"]]
        print(f"{r['job']:18s} {r['batch']:3d}x{r['prompt']:<4d} {statistics.median(last):7.1f} {min(last):7.1f} {max(last):7.1f} {1e3 * p['expected']:9.1f}")

print(f"\n{'engine':18s} {'prompt':>6s}  µs a call, under the probe")
for r in rows:
    if r["kind"] == "host" and r["batch"] == 1 and r["gen"] == 1 and r["prompt"] in (128, 1024):
        calls = [f"{what} {r['stats'][f][1] / r['stats'][f][0] / 1e3:.0f}" for f, what in FUNCTIONS.items() if f in r["stats"]]
        print(f"{r['job']:18s} {r['prompt']:6d}  {', '.join(calls)}")
