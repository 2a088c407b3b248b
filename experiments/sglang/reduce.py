#!/usr/bin/env python3
"""Reduce the loads of SGLang whose prediction is an estimate to observations: reduce.py h200 > ../../validate/observations/h200-sglang.csv, and so for h100

These are requests one at a time (TTFT and TPOT, medians with their 95 % intervals) and closed loops (mean TPOT). The other loads
are scored by "llmprof validate servers".
"""
import csv
import gzip
import json
import pathlib
import sys

GPUS = {"h200": "h200-sxm-141gb", "h100": "h100-sxm-80gb"}
COLUMNS = "source,id,model,gpu,engine,mode,release,tp,batch,prompt_len,gen_len,weights,kv,load,all_logits,params,metric,value,low,high,device,samples,marks,note".split(",")


def rows(path):
    server, _, load = path.name.removesuffix(".json.gz").partition("-")
    if not load.startswith(("batch", "prompt")):
        return
    weights = "fp8" if server == "fp8" else "bf16"
    d = json.load(gzip.open(path))
    clients = d["serving"]["concurrency"]
    gpu = path.parent.name
    row = {"source": f"{gpu}-sglang", "id": path.name.removesuffix(".gz"), "model": d["model"]["name"], "gpu": GPUS[gpu], "engine": "sglang", "tp": 2 if server.startswith("tp2") else 1, "release": d["engine"]["version"], "batch": clients,
           "prompt_len": d["workload"]["prompt_len"], "gen_len": d["workload"]["gen_len"], "weights": weights, "load": "static" if clients == 1 else "closed",
           "params": d["model"]["params_total"], "samples": d["serving"]["completed"], "note": f"SGLang {d['engine']['version']}, HTTP server"}
    for metric in ("ttft_s", "tpot_s"):
        m = d[metric]
        if clients == 1:
            yield {**row, "metric": metric, "value": m["median"], "low": m["median_low"], "high": m["median_high"]}
        elif metric == "tpot_s":
            yield {**row, "metric": metric, "value": m["mean"], "low": m["mean_low"], "high": m["mean_high"]}


out = csv.DictWriter(sys.stdout, COLUMNS, restval="", lineterminator="\n")
out.writeheader()
for file in sorted(pathlib.Path(sys.argv[1]).resolve().glob("*.json.gz")):
    out.writerows(rows(file))
