#!/usr/bin/env python3
"""Fit the constants of experts to all tables, and write the constants and the table of errors from the same fits.

experts.py LLMPROF aiconfigurator_core/systems/data FOLDER [--write]        (aiconfigurator-core 0.12.0, Apache-2.0)

LLMPROF is the program. The calibration of each GPU and engine is put into FOLDER by "llmprof calibrate --import", unless it is there. The script prints the table of
docs/calibration.md: median errors of shapes held out, in %, with an asterisk where analytic/engine/operators.csv has no constants of that GPU, engine and scheme. With
--write it gives the sections that are there the values of the fits, and the 90th percentiles of the errors. Those of vLLM's MXFP4 stay, which skewed.py has of more rows.
TensorRT-LLM has the values of SGLang's fits where its servers run the generated kernels that SGLang calls, and its tables have others.
"""
import os
import pathlib
import subprocess
import sys
import tomllib

GPUS = {"a100_sxm": "a100-sxm-80gb", "h100_sxm": "h100-sxm-80gb", "h200_sxm": "h200-sxm-141gb", "b200_sxm": "b200-sxm-180gb", "b300_sxm": "b300-sxm-288gb", "gb200": "gb200-186gb",
        "l40s": "l40s-48gb", "rtx_pro_6000_server": "rtx-pro-6000-server-96gb"}
ENGINES = {"vllm": ("vLLM", "vllm", "0.24.0"), "sglang": ("SGLang", "sglang", "0.5.14"), "tensorrt-llm": ("TensorRT-LLM", "trtllm", "1.3.0rc20")}
OLDER = {("a100_sxm", "sglang"): "0.5.10"}  # an A100 has no newer one
SCHEMES = {"": "16 bits", "_untuned": "16 bits, untuned", "_fp8": "FP8", "_fp8_block": "FP8 by blocks", "_w4a16": "INT4, weights alone", "_w4a16_mxfp4": "MXFP4, weights alone", "_mxfp4": "MXFP4", "_nvfp4": "NVFP4"}
UNITS = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "ps": 1e-12}
# TensorRT-LLM's servers run these by its generated kernels (resolve_moe_backend of model_config.py; the launch files of NVIDIA in InferenceX). Its tables have DeepGEMM's
# and CUTLASS's, and of the generated ones only rows whose tokens go to half of the experts.
GENERATED = [("tensorrt-llm", gpu, scheme) for gpu in ("b200_sxm", "b300_sxm", "gb200") for scheme in ("_fp8_block", "_nvfp4")]
CONSTANTS = ("compute", "memory", "fixed", "permute", "expert")
TABLE = pathlib.Path(__file__).parents[2] / "analytic/engine/operators.csv"


def fits(program, data, folder):
    """The calibration of each GPU and engine that has a table."""
    found = {}
    for gpu, key in GPUS.items():
        for engine, (_, name, version) in ENGINES.items():
            table, out = f"{data}/{gpu}/moe/{name}/{OLDER.get((gpu, engine), version)}/moe_perf.parquet", f"{folder}/{gpu}.{engine}.toml"
            if os.path.exists(table) and not os.path.exists(out):
                subprocess.run([program, "calibrate", "--import", table, "--engine", engine, "--gpu", key, "-o", out], check=True)
            if os.path.exists(out):
                found[gpu, engine] = tomllib.load(open(out, "rb"))
    return found


def value(v):
    if isinstance(v, str):
        number, unit = v.split()
        return float(number) * UNITS[unit]
    return v


def lines(fit, engine, key, generation, section, kept):
    """The lines of a section, without constants that are 0."""
    for name in CONSTANTS:
        v = value(fit[section][name]["value"]) if name in fit[section] else 0
        if v:
            error = ""
            if name in ("compute", "memory"):
                error = kept.get(name) or f"{fit['held_out'].get(f'{section}.{name}', fit['operators'][section])['p90']:.2g}"
            yield f"{engine},{key},{generation},{section}.{name},{v:.4g},{error}"


def write(found):
    text = TABLE.read_text().splitlines()
    for (gpu, engine), of in found.items():
        for scheme in SCHEMES:
            section = "grouped_gemm" + scheme
            fit = found[gpu, "sglang"] if (engine, gpu, scheme) in GENERATED else of
            own = [i for i, line in enumerate(text) if line.startswith(f"{engine},{GPUS[gpu]},") and line.split(",")[3].rpartition(".")[0] == section]
            if own and section in fit.get("operators", {}):
                rows = [text[i].split(",") for i in own]
                kept = {r[3].rpartition(".")[2]: r[5] for r in rows} if engine == "vllm" and scheme == "_w4a16_mxfp4" else {}
                new = list(lines(fit, engine, GPUS[gpu], rows[0][2], section, kept))
                text = [line for i, line in enumerate(text) if i not in own]
                text[own[0]:own[0]] = new
    TABLE.write_text("\n".join(text) + "\n")


def main(program, data, folder, *flags):
    os.makedirs(folder, exist_ok=True)
    found = fits(program, data, folder)
    if "--write" in flags:
        write(found)
    ships = {tuple(line.split(",")[i] for i in (0, 1, 3)) for line in TABLE.read_text().splitlines() if line[0] != "#"}
    ships -= {(engine, GPUS[gpu], f"grouped_gemm{scheme}.compute") for engine, gpu, scheme in GENERATED}
    print("| | | " + " | ".join(g.removesuffix("_server").removesuffix("_sxm").replace("_", " ").upper() for g in GPUS) + " |\n" + "|---" * (len(GPUS) + 2) + "|")
    for engine, (title, _, _) in ENGINES.items():
        for scheme, what in SCHEMES.items():
            cells = []
            for gpu, key in GPUS.items():
                o = found.get((gpu, engine), {}).get("operators", {}).get("grouped_gemm" + scheme)
                cells.append(f"{100 * o['median']:.1f}{'' if (engine, key, f'grouped_gemm{scheme}.compute') in ships else '*'}" if o else "–")
            if set(cells) != {"–"}:
                print(f"| {title} | {what} | " + " | ".join(cells) + " |")
                title = ""


main(*sys.argv[1:])
