#!/usr/bin/env python3
"""Constants of sparse attention from AISimulate's tables of whole attention modules (pip install aisimulate==0.13.0.dev202610270000000085, Apache-2.0).

    modules.py aisimulate_core/systems/data h200_sxm,b200_sxm

runs modules.go for the kernels that have constants already, fits what is left to the laws of sparse attention, half of the shapes held out, and prints the
errors held out and the rows of analytic/engine/operators.csv. It needs pandas, pyarrow, scipy and Go; a GPU takes some minutes.
"""
import io
import subprocess
import sys
import zlib

import numpy
import pandas
from scipy.optimize import minimize

GPUS = {"h100_sxm": ("h100-sxm-80gb", "hopper"), "h200_sxm": ("h200-sxm-141gb", ""), "b200_sxm": ("b200-sxm-180gb", "blackwell"),
        "b300_sxm": ("b300-sxm-288gb", ""), "gb200": ("gb200-186gb", ""), "gb300": ("gb300-288gb", "")}
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}
WEIGHTS = {"fp8_block": "fp8-block", "bfloat16": "w16a16", "nvfp4": "nvfp4", "fp8": "fp8"}
MODELS = {"deepseek-ai/DeepSeek-V3.2": ("deepseek-v3.2", 128), "zai-org/GLM-5": ("glm-5", 64), "zai-org/GLM-5-FP8": ("glm-5", 64),
          "MiniMaxAI/MiniMax-M3": ("minimax-m3", 64), "sgl-project/DeepSeek-V4-Flash-FP8": ("deepseek-v4-flash", 64),
          "sgl-project/DeepSeek-V4-Pro-FP8": ("deepseek-v4-pro", 128), "deepseek-ai/DeepSeek-V4-Flash": ("deepseek-v4-flash", 64),
          "deepseek-ai/DeepSeek-V4-Pro": ("deepseek-v4-pro", 128)}
# Group of tables, module, an operator of its layers, and the version of each engine. TensorRT-LLM's tables on Hopper, and of MiniMax-M3, show its host.
TABLES = {"dsa": ("sparse_attention", "indexer", {"vllm": "0.24.0", "sglang": "0.5.14", "trtllm": "1.3.0rc20"}),
          "dsv4_csa": ("sparse_attention", "indexer", {"vllm": "0.25.0", "sglang": "0.5.14", "trtllm": "1.3.0rc23"}),
          "dsv4_hca": ("sparse_attention", "compressed_attention", {"vllm": "0.25.0", "sglang": "0.5.14", "trtllm": "1.3.0rc23"}),
          "msa": ("msa", "indexer", {"vllm": "0.24.0", "sglang": "0.5.16"})}
COLUMNS = "model gpu engine tp weights cache batch new past time known choice_c choice_m attend_c attend_m blocks".split()
MOST = 16384  # tokens of a step
FEW = {"vllm": 512, "trtllm": 512, "sglang": 4096}  # tokens of a prompt below which its table shows the host
SAMPLE = 1500, 700  # rows of a table that are completed, and that are fitted


def rows(data, gpu, engine, name, phase):
    group, operator, versions = TABLES[name]
    if engine not in versions or engine == "trtllm" and gpu.startswith("h"):
        return None
    try:
        table = pandas.read_parquet(f"{data}/{gpu}/{group}/{engine}/{versions[engine]}/{name}_{phase}_module_perf.parquet")
    except FileNotFoundError:
        return None
    table = table[(table.latency > 0) & ~table.op_name.str.contains("skip") & table.model.isin(MODELS) & table.gemm_type.isin(WEIGHTS)]
    table = table[table.batch_size * table.isl <= MOST]
    text = []
    for r in table.sample(min(len(table), SAMPLE[0]), random_state=1).itertuples():
        model, heads = MODELS[r.model]
        if heads % r.num_heads or model.startswith("deepseek-v4") and r.gemm_type != "fp8_block":
            continue
        new = 1 if phase == "generation" else r.isl
        text.append(f"{model},{GPUS[gpu][0]},{ENGINES[engine]},{heads // r.num_heads},{WEIGHTS[r.gemm_type]},"
                    f"{'fp8' if 'fp8' in r.kv_cache_dtype else 'bf16'},{r.batch_size},{new},{r.step},{1e3 * r.latency:.2f}\n")
    out = subprocess.run(["go", "run", "experiments/operators/modules.go", operator], input="".join(text), text=True, check=True, capture_output=True)
    done = pandas.read_csv(io.StringIO(out.stdout), header=None, names=COLUMNS)
    done["phase"] = phase
    done = done[done.batch * done.new >= FEW[engine]] if phase == "context" else done[done.batch <= 512]
    return done.sample(min(len(done), SAMPLE[1]), random_state=1)


def predicted(d, q):
    """The time of modules by fixed time, shares of peak and bandwidth of the choice, then those of attention and its time of a block."""
    choice = numpy.where(d.choice_c > 0, q[0] + numpy.maximum(d.choice_c / q[1], d.choice_m / q[2]), 0)
    return d.known + choice + q[3] + d.blocks * q[6] + numpy.maximum(d.attend_c / q[4], d.attend_m / q[5])


def fit(d, held):
    weight = 1 / d.groupby("phase").phase.transform("size")

    def full(x):
        x = iter(x)
        q = [numpy.exp(numpy.clip(next(x), -40, 40)) if h is None else h for h in held]
        return [min(v, 1.0) if i in (1, 2, 4, 5) else v for i, v in enumerate(q)]

    def error(x):
        return (weight * abs(numpy.log(predicted(d, full(x)) / d.time))).sum()

    found = []
    for start in ([20, .3, .5, 6, .4, .6, .1], [8, .1, .3, 10, .2, .3, .5], [40, .6, .8, 3, .7, .8, .02]):
        x = numpy.log([s for s, h in zip(start, held) if h is None])
        for _ in range(2):
            best = minimize(error, x, method="Nelder-Mead", options=dict(maxiter=9000, maxfev=9000, adaptive=True))
            x = best.x
        found.append(best)
    return full(min(found, key=lambda r: r.fun).x)


def fitted(name, d, held):
    half = numpy.array([zlib.crc32(f"{r.model}{r.tp}{r.new}{r.past}".encode()) >> 7 & 1 for r in d.itertuples()])
    left = d[half == 1]
    error = abs(predicted(left, fit(d[half == 0], held)) / left.time - 1)
    by = ", ".join(f"{p} {100 * e.median():.1f} % ({100 * e.quantile(.9):.0f})" for p, e in error.groupby(left.phase))
    print(f"# {name}: {len(d)} rows, held out {100 * error.median():.1f} % ({100 * error.quantile(.9):.0f}); {by}", flush=True)
    return fit(d, held), error.quantile(.9)


def put(engine, gpu, section, q, p90, choice=None):
    key, generation = GPUS[gpu]
    values = [(f"{section}.compute", q[4], p90), (f"{section}.memory", q[5], p90), (f"{section}.fixed", max(q[3], .1) * 1e-6, None),
              (f"{section}.tile", q[6] * 1e-6, None)]
    if choice:
        values += [(f"{choice}.compute", q[1], p90), (f"{choice}.memory", q[2], p90), (f"{choice}.fixed", max(q[0], .1) * 1e-6, None)]
    for constant, value, p in values:
        print(f"{ENGINES[engine]},{key},{generation},{constant},{max(value, 0):.4g},{'' if p is None else f'{p:.2g}'}")


def main():
    data, start = sys.argv[1], 5.0  # µs in which attention alone starts, where no module is without a choice
    for gpu in sys.argv[2].split(","):
        for engine in ENGINES:
            for names, section, choice in ((["dsa"], "sparse", "index"), (["dsv4_csa", "dsv4_hca"], "sparse_entries", "index_entries"),
                                           (["msa"], "sparse_blocks", "index_blocks")):
                found = [rows(data, gpu, engine, n, p) for n in names for p in ("generation", "context")]
                if found[0] is None:
                    continue
                d, held = pandas.concat(found), [None] * 7
                held[3] = None if len(names) > 1 else start
                name = f"{gpu} {engine} {' '.join(names)}"
                if names != ["dsa"]:
                    put(engine, gpu, section, *fitted(name, d, held), choice)
                    continue
                packed, p90 = fitted(name + " fp8", d[d.cache == "fp8"], held)
                put(engine, gpu, "sparse_fp8", packed, p90, choice)
                held[1:3] = packed[1:3]  # the choice is the same whatever the cache
                wide, p90 = fitted(name + " bf16", d[d.cache == "bf16"], held)
                wide[3] = max(start + wide[0] - packed[0], .1)
                put(engine, gpu, section, wide, p90)


if __name__ == "__main__":
    main()
