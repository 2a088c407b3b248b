#!/usr/bin/env python3
"""Print what SGLang's grouped GEMMs in 16 bits reach on a GPU: tuned.py aiconfigurator_core/systems/data h200_sxm h200-sxm-141gb        (Apache-2.0)

TFLOP/s at 8192 tokens of rows without TP and EP, and whether analytic/engine/sglang.go lists the shape as tuned.
"""
import pathlib
import re
import sys

import pyarrow.parquet

data, folder, gpu = sys.argv[1:]
source = (pathlib.Path(__file__).parents[2] / "analytic/engine/sglang.go").read_text()
listed = re.search(rf'"{gpu}": {{(.*?)\n\t}},', source, re.S).group(1)
tuned = {(int(e), int(w)) for e, widths in re.findall(r"(\d+): {([\d, ]+)}", listed) for w in widths.split(",")}
for r in pyarrow.parquet.read_table(f"{data}/{folder}/moe/sglang/0.5.14/moe_perf.parquet").to_pylist():
    if r["kernel_source"] == "sglang_fused_moe_triton" and r["moe_dtype"] == "bfloat16" and r["num_tokens"] == 8192 and r["distribution"] == "balanced" and r["moe_tp_size"] == r["moe_ep_size"] == 1:
        experts, hidden, width, top = (r[k] for k in ("num_experts", "hidden_size", "inter_size", "topk"))
        rate = 6 * 8192 * top * hidden * width / r["latency"] / 1e9
        print(f"{experts:4} x {hidden:5} x {width:5}  {rate:4.0f}  {'tuned' if (experts, width) in tuned else ''}")
