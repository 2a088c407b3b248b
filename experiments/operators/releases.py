#!/usr/bin/env python3
"""Say how far operators differ between releases of an engine, and experts in 8 or 4 bits from the law of those in 16 bits.

    pip download aiconfigurator-core==0.12.0 --no-deps && unzip -q aiconfigurator_core-*.whl
    python releases.py aiconfigurator_core/systems/data          # needs pyarrow and numpy
"""
import glob
import itertools
import re
import sys

import numpy as np
import pyarrow.parquet as pq

PEAKS = {"h100_sxm": (989.5e12, 3.35e12), "h200_sxm": (989.5e12, 4.8e12), "b200_sxm": (2250e12, 8e12), "b300_sxm": (2250e12, 8e12)}  # FLOP/s in bf16, bytes/s
ENGINES = ["vllm", "sglang", "trtllm"]
FILES = {
    "experts": ["moe/{}/*/moe_perf.parquet"],
    "prefill": ["attention/{}/*/context_attention_perf.parquet"],
    "decode": ["attention/{}/*/generation_attention_perf.parquet"],
    "all-reduces": ["comm/{}/*/custom_allreduce_perf.parquet"],
}
ASIDE = {"framework", "version", "device", "op_name", "kernel_source", "latency", "power", "power_limit"}
FORMATS = {  # bytes of a weight with its scales, and how many times faster products run than in bf16
    "fp8": (1, 2), "fp8_block": (1, 2), "int4_wo": (0.5 + 2 / 128, 1), "w4a16_mxfp4": (0.53125, 1), "w4a8_mxfp4_mxfp8": (0.53125, 2), "nvfp4": (0.5625, 4),
}


def kernel(name):
    """The kernel that runs, whatever the release calls it."""
    for known, same in {"trtllm": "trtllm", "triton": "triton", "fused_moe": "triton", "cutlass": "cutlass", "marlin": "marlin"}.items():
        if known in name:
            return same
    return re.sub("^(vllm|sglang)_", "", name)


def read(path):
    return pq.read_table(path).to_pydict()


def halved(t, i):
    """Whether the collectors of some releases let the router of DeepSeek-V3 choose among groups of experts, so that half of them have no tokens (grouped in measure/calibrate/tables)."""
    return t["framework"][i].lower() != "trtllm" and (t["num_experts"][i], t["topk"][i], t["hidden_size"][i], t["inter_size"][i]) == (256, 8, 7168, 2048)


def rows(t):
    """Times by shape and kernel, of experts over up to 8 GPUs and of up to 8192 tokens."""
    names = [n for n in sorted(t) if n not in ASIDE]
    own = lambda i: "moe_tp_size" not in t or t["moe_tp_size"][i] * t["moe_ep_size"][i] <= 8 and t["num_tokens"][i] <= 8192 and not halved(t, i)
    return {(*(t[n][i] for n in names), kernel(t["kernel_source"][i])): t["latency"][i] for i in range(len(t["latency"])) if own(i)}


def releases(data):
    print("operator     engine   pairs of tables   rows  median %  p90 %  p90 % from 20 µs  p90 µs up to 100 µs")
    for (what, files), engine in itertools.product(FILES.items(), ENGINES):
        changes, times, pairs = [], [], 0
        for gpu, f in itertools.product(PEAKS, files):
            tables = [rows(read(p)) for p in sorted(glob.glob(f"{data}/{gpu}/{f.format(engine)}"))]
            for a, b in itertools.combinations(tables, 2):
                both = [(a[k] * 1e3, b[k] * 1e3) for k in a.keys() & b.keys() if min(a[k], b[k]) > 0]
                changes, times, pairs = changes + [abs(np.log(x / y)) for x, y in both], times + both, pairs + bool(both)
        if changes:
            changes, times = np.array(changes), np.array(times)
            median, p90, long = (100 * (np.exp(np.quantile(c, p)) - 1) for c, p in ((changes, 0.5), (changes, 0.9), (changes[times[:, 1] >= 20], 0.9)))
            short = np.quantile(np.abs(times[:, 0] - times[:, 1])[times[:, 1] < 100], 0.9)
            print(f"{what:12} {engine:8} {pairs:15} {len(changes):6} {median:9.1f} {p90:6.0f} {long:16.0f} {short:20.1f}")


def law(t, i, peak, bandwidth):
    """What the law of experts in 16 bits says by the constants of vllm.go and of Hopper: two products, their sums, four small kernels."""
    size, faster = FORMATS[t["moe_dtype"][i]]
    tokens, k, hidden, inter = t["num_tokens"][i], t["topk"][i], t["hidden_size"][i], t["inter_size"][i] / t["moe_tp_size"][i]
    time = 4 * 2e-6 + 1.2 * 2 * tokens * k * hidden / bandwidth
    for n, m in ((2 * inter, hidden), (hidden, inter)):
        compute = 2 * tokens * k * n * m / (0.5 * peak * faster)
        time += 3.8e-6 + np.hypot(compute, min(t["num_experts"][i], tokens * k) * n * m * size / (0.8 * bandwidth))
    return time


def quantized(data):
    print("\nformat             rows  median %  p90 %")
    off = {}
    for engine, (gpu, peaks) in itertools.product(ENGINES, PEAKS.items()):
        for path in sorted(glob.glob(f"{data}/{gpu}/moe/{engine}/*/moe_perf.parquet")):
            t = read(path)
            for i, time in enumerate(t["latency"]):
                if t["moe_dtype"][i] in FORMATS and t["moe_ep_size"][i] == 1 and t["moe_tp_size"][i] <= 8 and t["num_tokens"][i] <= 8192 and t["distribution"][i] == "balanced":
                    off.setdefault(t["moe_dtype"][i], []).append(abs(law(t, i, *peaks) / (time * 1e-3) - 1))
    for name, of in {**off, "all": sum(off.values(), [])}.items():
        print(f"{name:18} {len(of):5} {100 * np.median(of):8.0f} {100 * np.quantile(of, 0.9):7.0f}")


releases(sys.argv[1])
quantized(sys.argv[1])
