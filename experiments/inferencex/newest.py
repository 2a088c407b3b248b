#!/usr/bin/env python3
"""Observations of GLM-5, Kimi-K2.5 and Qwen3.5-397B-A17B from AISimulate's silicon_sample.csv (pip install aisimulate==0.13.0.dev202610270000000085,
Apache-2.0), whose rows are InferenceX's, with the settings of its scripts on the day of each run.

    newest.py silicon_sample.csv > validate/observations/inferencex.csv
"""
import collections
import csv
import re
import sys

GPUS = {"b200_sxm": "b200-sxm-180gb", "b300_sxm": "b300-sxm-288gb", "h200_sxm": "h200-sxm-141gb"}
MODELS = {"Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b", "moonshotai/Kimi-K2.5": "kimi-k2.5", "zhipuai/GLM-5": "glm-5"}
HEADER = ("source,id,model,gpu,engine,mode,release,tp,ep,max_batched_tokens,graph_tokens,recv_interval,option,batch,prompt_len,gen_len,weights,kv,load,"
          "all_logits,params,metric,value,low,high,device,samples,marks,note")
MTP = "speculative decoding (MTP) was on, and how many drafts were accepted is not published"
REPEAT = "2026_03_25_kimi_k2_5_h200_sxm_vllm_int4_agg_1024x8192_c16_tp8_0_ep1_0_605"


def settings(r, model, gpu, release, clients, tp, ep):
    """Weights, cache, tokens of a step and of graphs, steps between looks for requests, option; and why the row is left out."""
    hopper, blackwell = gpu.startswith("h200"), gpu.startswith("b200")
    kept = collections.namedtuple("kept", "weights cache budget graphs interval option why")
    if model.startswith("qwen"):
        weights = {"bf16": "bf16", "fp8": "fp8-block", "fp4": "nvfp4"}[r["precision"]]
        fp8 = r["precision"] == "fp8"
        why = MTP if fp8 and tp == 4 and ep == 1 and "0.5.10" not in release else ""  # only the list with MTP has tp 4 and ep 1
        cache = "" if weights == "bf16" else "fp8"
        if fp8 and hopper:
            return kept(weights, cache, 16384, 0, 0, "", why)
        if fp8 and not blackwell and "0.5.10" in release:
            return kept(weights, cache, 16384, 0, 10, "", why)
        return kept(weights, cache, 32768, 0, 30 if clients >= 16 else 10, "flashinfer-gemm" if fp8 else "", why)
    if model == "glm-5":
        weights = {"fp8": "fp8-block", "fp4": "nvfp4"}[r["precision"]]
        if hopper:
            return kept(weights, "", 8192, 0, 0, "", "")
        return kept(weights, "fp8", 32768, 0, 10 if weights == "nvfp4" else 0, "", "")
    why = "another run of the same took a quarter of the time" if r["id"] == REPEAT else ""
    if r["precision"] == "int4":
        if not hopper:
            why = "FlashInfer ran the experts in INT4 (VLLM_USE_FLASHINFER_MOE_INT4), which no table has"
        return kept("stored", "", 0, 0, 0, "", why)
    day = re.search(r"measured=(\d{4}-\d\d)", r["silicon_data_source"])
    later = blackwell and (not day or day[1] >= "2026-04")
    return kept("nvfp4", "fp8", 2 * int(float(r["isl"])) if later else 0, 2048 if later else 0, 0, "", why)


def main():
    rows, left, seen = [], collections.Counter(), set()
    for r in csv.DictReader(open(sys.argv[1])):
        if r["mode"] != "agg" or r["model_path"] not in MODELS:
            continue
        model, gpu, engine = MODELS[r["model_path"]], GPUS[r["system"]], r["backend"]
        tp, ep, clients = int(float(r["tp_size"])), int(float(r["moe_ep_size"])), int(float(r["batch_size"]))
        if tp > 8:  # the newest dumps have TP times EP for TP where both are equal
            tp = int(float(r["moe_tp_size"]))
        ep = {16: 4}.get(ep, ep)
        release = {"glm5-hopper": "glm5-dev"}.get(r["backend_version"], re.sub("^nightly-dev.*", "nightly", r["backend_version"]))
        s = settings(r, model, gpu, release, clients, tp, ep)
        why, named = s.why, re.search(r"silicon_concurrency=(\d+)", r["silicon_data_source"])
        if named and int(named[1]) != clients:
            why = "the batch is not the concurrency of its name"
        run = (model, gpu, engine, release, tp, ep, clients, r["isl"], r["osl"], s, round(float(r["silicon_tpot_ms"]), 4))
        if not why and run in seen:
            why = "another row has the same run"
        if why:
            left[model, gpu, engine, s.weights, why] += 1
            continue
        seen.add(run)
        prompt, answer = (int(0.9 * float(r[n]) + 0.5) for n in ("isl", "osl"))
        rows.append(["inferencex", r["id"], model, gpu, engine, "", release, tp, ep if ep > 1 else "", s.budget or "", s.graphs or "", s.interval or "",
                     s.option, clients, prompt, answer, s.weights, s.cache, "closed-varied", "", "", "tpot_s",
                     f"{float(r['silicon_tpot_ms']) / 1e3:.6g}", "", "", "", "", "", "mean; lengths of 0.8 to 1 times those of the id"])
    print("# Left out of the table, rows of:")
    for (model, gpu, engine, weights, why), n in sorted(left.items()):
        print(f"# {model} on {gpu} by {engine}, {weights}: {n}, because {why}")
    print(HEADER)
    for row in sorted(rows, key=lambda r: (r[2], r[3], r[16], r[1])):
        print(",".join(map(str, row)))


if __name__ == "__main__":
    main()
