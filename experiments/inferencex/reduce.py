#!/usr/bin/env python3
"""Reduce aiconfigurator's table of servers to observations of mixtures: reduce.py silicon_sample.csv > aiconfigurator-moe.csv

The table is in the wheel of aiconfigurator-core 0.12.0 (Apache-2.0). Most of its rows are InferenceX's (SemiAnalysisAI/InferenceX,
Apache-2.0), and some of their settings stand in neither the row nor its name: they are read from the scripts and the lists of
configurations that InferenceX had on the day of the run, and written down here.
"""
import collections
import csv
import re
import sys

MODELS = {"deepseek-ai/DeepSeek-R1": "deepseek-r1", "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5",
          "openai/gpt-oss-120b": "gpt-oss-120b", "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b"}
GPUS = {"h100_sxm": "h100-sxm-80gb", "h200_sxm": "h200-sxm-141gb", "b200_sxm": "b200-sxm-180gb", "b300_sxm": "b300-sxm-288gb"}
ENGINES = {"trtllm": "tensorrt-llm", "vllm": "vllm", "sglang": "sglang"}
COLUMNS = ("source,id,model,gpu,engine,mode,release,tp,ep,max_batched_tokens,graph_tokens,recv_interval,option,batch,prompt_len,gen_len,weights,kv,load,all_logits,params,metric,value,low,high,"
           "device,samples,marks,note").split(",")

MTP = "speculative decoding (MTP) was on, and how many drafts were accepted is not published"
DP = "attention was data-parallel"
CLIENTS = "the batch is not the concurrency of its name"
ABSENT = "no list of the day has so many clients, and the time is below that of their steps"
DEEPGEMM = "moe_config chose DeepGEMM for the experts, in place of the generated kernels that the engine takes"
NO_SPEED = "no time per token"

# Tokens of a prompt of DeepSeek-R1 that reached SGLang for one that the client counted, while the client's tokenizer was that of transformers 5: see README.md.
REACHED = 35921 / 7140


def settings(r):
    """What the run of a row had: GPUs that share the experts, tokens of a step, format of the cache; and why it is left out, if it is."""
    model, gpu, engine = MODELS[r["model_path"]], r["system"][:4], ENGINES[r["backend"]]
    tp, batch, prompt, version, day = int(r["tp_size"]), int(r["batch_size"]), int(r["isl"]), r["backend_version"], date(r)
    if not scripted(r):  # aiconfigurator's own runs
        clients = re.search(r"_c(\d+)_", r["id"])
        budget = batch + prompt + 1500 if engine in ("vllm", "tensorrt-llm") else ""  # of aiconfigurator's own launch files: see README.md
        return 1, budget, "", CLIENTS if clients and int(clients[1]) != batch else None
    if model == "gpt-oss-120b" and engine == "vllm":  # gptoss_fp4_*.sh
        return 1, 8192, "fp8" if gpu == "b200" and day >= "2026" else "", ABSENT if gpu == "h100" and batch > 64 else None
    if model == "gpt-oss-120b":  # gptoss_fp4_{b200,h200}_trt*.sh
        ep = tp if gpu == "h200" and day < "2025-12" else 1
        return ep, 20000, "fp8" if gpu == "b200" else "", DP if gpu == "b200" and day < "2025-12" and batch >= 256 else None
    if model == "minimax-m2.5":  # minimaxm2.5_fp*.sh: from 2026-03-11 on an EP_SIZE of 1 switched expert parallelism on, until vLLM 0.19.0
        if day < "2026-04-03":
            return tp if day >= "2026-03-11" else 1, 8192, "", None
        return 1, 2 * prompt, "fp8", None
    if engine == "sglang":  # dsr1_fp*_*.sh
        if gpu == "h200":
            return 1, 32768, "", None
        if r["precision"] == "fp4":
            return tp, 16384, "fp8", None
        mixed = tp == 8 and "db-dump" not in r["silicon_data_source"]  # two lists of one day, of which one is with MTP
        return 1, 32768 if tp == 8 else 8192, "fp8", MTP if mixed else None
    budget = max((batch + prompt + 64 + 63) // 64 * 64, 8192 if day >= "2026-01-21" else 0)  # dsr1_fp*_*_trt*.sh
    if "post3" in version or day == "2026-01-14":  # the image, and the day, of the runs with MTP alone
        return 1, budget, "fp8", MTP
    if gpu == "h200":
        return tp, budget, "fp8", DP if batch > (64 if prompt == 1024 else 32) else None
    if r["precision"] == "fp4" and day < "2026":
        if batch >= 256 or prompt == 8192 and batch > 32:
            return 1, budget, "fp8", DP
        most = 32 if tp == 4 else 16 if int(r["osl"]) == 8192 else 8 if prompt == 1024 else 32
        return tp if batch > most or tp == 4 and prompt == 8192 else 1, budget, "fp8", None
    if r["precision"] == "fp8" and day < "2026-01-29":
        return tp, budget, "fp8", DEEPGEMM
    return 1, budget, "fp8", None


def split(r):
    """Ranks of TP of a row, and of EP where the row states them: some rows have the ranks of TP times those of EP for the former."""
    tp, moe_tp, moe_ep = (int(r[k] or 1) for k in ("tp_size", "moe_tp_size", "moe_ep_size"))
    if moe_tp == moe_ep and tp == moe_tp * moe_ep in (16, 64):
        return moe_tp, moe_ep
    return tp, tp if moe_tp == 1 and moe_ep == tp else 0


def scripted(r):
    """Whether a row is InferenceX's, which has scripts and lengths of 0.8 to 1 times those named."""
    return date(r) and "gap-analysis" not in r["silicon_data_source"]


def reached(r):
    """How many times as long as the client counted the prompts were that reached the server."""
    wrong = r["model_path"] == "deepseek-ai/DeepSeek-R1" and r["backend"] == "sglang" and r["backend_version"].startswith("0.5.10") and date(r) < "2026-05-15"
    return REACHED if wrong else 1


def date(r):
    found = re.search(r"measured=(\d{4}-\d\d-\d\d)", r["silicon_data_source"])
    return found[1] if found else ""


def graphs(r):
    """The most tokens of a step that vLLM's CUDA graphs held, where its scripts set it."""
    vllm = r["backend"] == "vllm" and scripted(r)
    return 2048 if vllm and (r["model_path"] == "openai/gpt-oss-120b" or date(r) >= "2026-04-03") else ""


def option(r):
    """What dense products in FP8 ran by: dsr1_fp8_b*.sh switch SGLang's DeepGEMM off."""
    return "flashinfer-gemm" if r["backend"] == "sglang" and r["system"][0] == "b" and r["precision"] == "fp8" and scripted(r) else ""


def recv_interval(r):
    """SGLang's --scheduler-recv-interval, as dsr1_fp*_b*.sh set it."""
    if r["backend"] != "sglang" or r["system"][0] != "b" or not scripted(r):
        return ""
    return 30 if int(r["batch_size"]) >= 16 and (r["precision"] == "fp4" or r["tp_size"] == "8") else 10


def rank(r):
    """The latest run is taken, and of one run the newest copy."""
    return date(r), "db-dump" in r["silicon_data_source"]


def weights(r):
    if r["model_path"] == "openai/gpt-oss-120b":
        return "stored+act-fp8" if r["system"] in ("b200_sxm", "b300_sxm") else "stored"
    return "nvfp4" if r["precision"] == "fp4" else "fp8-block"


def release(r):
    """The release of the engine; that of the day for SGLang where the table has none."""
    return r["backend_version"] or ("0.5.5" if r["backend"] == "sglang" and "measured=2025-11" in r["silicon_data_source"] else "unknown")


def main():
    rows, left = {}, collections.Counter()
    for r in csv.DictReader(open(sys.argv[1])):
        if r["id"].startswith("dsr1_"):  # the copies of the newest dump have the name of another model of that shape
            r["model_path"] = "deepseek-ai/DeepSeek-R1"
        tp, experts = split(r)
        r["tp_size"] = str(tp)
        alone = r["attention_dp_size"] in ("1", "") and (int(r["moe_tp_size"] or 1) == tp or experts) and r["pp_size"] == "1"
        if r["mode"] != "agg" or not alone or r["model_path"] not in MODELS or r["system"] not in GPUS or int(r["tp_size"]) > 8:
            continue
        ep, budget, kv, why = settings(r)
        ep = experts or ep
        if not float(r["silicon_tpot_ms"] or 0) > 0:
            why = NO_SPEED
        if why:
            left[MODELS[r["model_path"]], GPUS[r["system"]], ENGINES[r["backend"]], weights(r), why] += 1
            continue
        key = r["model_path"], r["system"], r["backend"], weights(r), r["isl"], r["osl"], r["batch_size"], r["tp_size"], ep
        if key not in rows or rank(r) > rank(rows[key][0]):
            rows[key] = r, ep, budget, kv
    print("# Left out of the table, rows of:")
    for (model, gpu, engine, form, why), n in sorted(left.items()):
        print(f"# {model} on {gpu} by {engine}, {form}: {n}, because {why}")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for r, ep, budget, kv in sorted(rows.values(), key=lambda x: (MODELS[x[0]["model_path"]], GPUS[x[0]["system"]], ENGINES[x[0]["backend"]], weights(x[0]), x[0]["id"])):
        mean = 0.9 if scripted(r) else 1  # of the lengths that the id names
        note = "mean" + (f"; version {r['backend_version']}" if r["backend_version"] else "") + ("; lengths of 0.8 to 1 times those of the id" if scripted(r) else "")
        note += "; prompts 5.03 times as long" if reached(r) > 1 else ""
        out.writerow(["aiconfigurator-moe", r["id"], MODELS[r["model_path"]], GPUS[r["system"]], ENGINES[r["backend"]], "", release(r), r["tp_size"], ep if ep > 1 else "", budget, graphs(r), recv_interval(r), option(r),
                      r["batch_size"], round(mean * reached(r) * int(r["isl"])), round(mean * int(r["osl"])), weights(r), kv, "closed-varied" if scripted(r) else "closed", "", "", "tpot_s",
                      f"{float(r['silicon_tpot_ms']) / 1e3:.6g}", "", "", "", "", "", note])


main()
