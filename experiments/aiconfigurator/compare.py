"""Compares the choices of `llmprof plan` and of aiconfigurator, by the estimates of both.

    pip install aiconfigurator==0.12.0
    python compare.py LLMPROF [CASE...] > choices.json; python compare.py --table choices.json

LLMPROF is the program. A case asks for the fewest GPUs of one kind that answer a rate of
requests within a mean TTFT and TPOT, with the checkpoint's weights and a cache of 16 bits.
Each choice is then estimated by both: how many of its GPUs hold the rate and the targets.
"""

import csv
import glob
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

# name: model of each, GPU of each, backend, requests/s, tokens in and out, TTFT and TPOT in ms
CASES = {
    "qwen3-32b": ("Qwen/Qwen3-32B", "qwen3-32b", "h100_sxm", "h100", "vllm", 10, 2048, 512, 500, 30),
    "llama3.1-70b": ("meta-llama/Meta-Llama-3.1-70B", "llama3.1-70b", "h200_sxm", "h200", "vllm", 10, 2048, 512, 1000, 40),
    "deepseek-v3": ("deepseek-ai/DeepSeek-V3", "deepseek-v3", "h200_sxm", "h200", "vllm", 10, 1024, 256, 2000, 50),
    "qwen3-235b": ("Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b", "b200_sxm", "b200", "vllm", 10, 2048, 512, 1000, 30),
    "gpt-oss-120b": ("openai/gpt-oss-120b", "gpt-oss-120b", "h100_sxm", "h100", "vllm", 20, 2048, 512, 500, 20),
}
FIELDS = ("hub", "model", "system", "gpu", "backend", "rate", "isl", "osl", "ttft", "tpot")


def timed(words):
    """Runs a command; its output, its seconds and its seconds of processors."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run(words, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr[-2000:]}")
    return done.stdout, time.time() - begin, cpu


def worker(tp, attention_dp, moe_tp, moe_ep):
    return {"tp": tp, "dp": attention_dp, "moe_tp": moe_tp, "ep": moe_ep}


def gpus(w):
    return w["tp"] * w["dp"]


def named(w):
    s = f"tp {w['tp']}"
    if w["dp"] > 1:
        s += f" dp {w['dp']}"
    return s + (f" ep {w['ep']}" if w["ep"] > 1 else f" moe-tp {w['moe_tp']}" if w["dp"] > 1 else "")


def layout(choice):
    s = f"{choice['workers']} × ({named(choice['worker'])})"
    if choice.get("prefill"):
        s = f"{choice['prefillers']} × ({named(choice['prefill'])}) prefill + " + s
    return s


def theirs(case):
    """The best aggregated and the best disaggregated deployment that aiconfigurator finds."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["aiconfigurator", "cli", "default", "--model", case["hub"], "--system", case["system"], "--backend", case["backend"], "--target-request-rate", case["rate"],
                 "--isl", case["isl"], "--osl", case["osl"], "--ttft", case["ttft"], "--tpot", case["tpot"], "--strict-sla", "--save-dir", folder, "--log-level", "ERROR"]
        words[0] = os.path.join(os.path.dirname(sys.executable), words[0])
        _, wall, cpu = timed([str(w) for w in words])
        found = []
        for file in glob.glob(f"{folder}/**/best_config_topn.csv", recursive=True):
            rows = sorted(csv.DictReader(open(file)), key=lambda r: (int(r["total_gpus_needed"]), -float(r["tokens/s/gpu"])))
            if rows:
                found.append(chosen(rows[0]))
    return found, wall, cpu


def chosen(row):
    def of(role):
        return worker(*(int(row[role + key]) for key in ("tp", "dp", "moe_tp", "moe_ep")))

    n, c = int(row["replicas_needed"]), {"gpus": int(row["total_gpus_needed"]), "says": f"TTFT {float(row['ttft']):.0f} ms, TPOT {float(row['tpot']):.1f} ms"}
    if "(d)tp" not in row:
        return c | {"worker": of(""), "workers": n}
    return c | {"worker": of("(d)"), "workers": n * int(row["(d)workers"]), "prefill": of("(p)"), "prefillers": n * int(row["(p)workers"])}


def ours(llmprof, case):
    """The best deployment that llmprof finds, and its best without disaggregation."""
    found, wall, cpu = [], 0, 0
    for more in ([], ["--aggregated"]):
        words = [llmprof, "plan", case["model"], "--gpus", case["gpu"], "--engines", case["backend"], "--rate", case["rate"], "--in", case["isl"], "--out", case["osl"],
                 "--ttft", f"{case['ttft']}ms", "--tpot", f"{case['tpot']}ms", "--weights", "", "--quality-floor", "bf16", "--expected", "--format", "json", *more]
        out, w, c = timed([str(x) for x in words])
        if not more:
            wall, cpu = w, c
        r = json.loads(out)["rows"][0]
        each = max(r["ep"] // r["tp"], 1)
        one = worker(r["tp"], each, 1 if r["ep"] > 1 else r["tp"], r["ep"])
        c = {"gpus": r["count"], "worker": one, "workers": r["dp"] // each, "says": f"TTFT {1e3 * r['ttft_s']:.0f} ms, TPOT {1e3 * r['tpot_s']:.1f} ms"}
        if r["prefill_replicas"]:
            c |= {"prefill": one, "prefillers": r["prefill_replicas"] // each}
        if c not in found:
            found.append(c)
    return found, wall, cpu


def estimate(case, **more):
    from aiconfigurator.cli.api import cli_estimate

    try:
        r = cli_estimate(case["hub"], case["system"], backend_name=case["backend"], isl=case["isl"], osl=case["osl"], kvcache_quant_mode="bfloat16", **more)
    except Exception:  # it has no data of the split, or the model does not fit
        return 0
    return r.raw["seq/s"] if r.ttft <= case["ttft"] and r.tpot <= case["tpot"] and not r.kv_cache_warning else 0


def split(w, role=""):
    return {f"{role}tp_size": w["tp"], f"{role}attention_dp_size": w["dp"], f"{role}moe_tp_size": w["moe_tp"], f"{role}moe_ep_size": w["ep"]}


BATCHES = sorted({*range(1, 16), *range(16, 64, 4), *range(64, 256, 8), *range(256, 1025, 32)})


def largest(answers):
    """The most requests a second of all batches: a larger one answers more, until it is too slow."""
    low, high, most = 0, len(BATCHES), 0
    while low < high:
        middle = (low + high) // 2
        rate = answers(BATCHES[middle])
        most = max(most, rate)
        low, high = (middle + 1, high) if rate else (low, middle)
    return most


def by_them(case, c):
    """GPUs that a layout takes for the rate by aiconfigurator's estimate, None where it has none."""
    if c.get("prefill"):
        roles = {**split(c["prefill"], "prefill_"), **split(c["worker"], "decode_")}
        most = largest(lambda b: estimate(case, mode="disagg", prefill_batch_size=1, prefill_num_workers=c["prefillers"], decode_batch_size=b, decode_num_workers=c["workers"], **roles))
        each = c["prefillers"] * gpus(c["prefill"]) + c["workers"] * gpus(c["worker"])
    else:
        most = max(largest(lambda b: estimate(case, batch_size=b, ctx_tokens=k * case["isl"], **split(c["worker"]))) for k in (1, 4))
        each = gpus(c["worker"])
    return math.ceil(case["rate"] / most) * each if most else None


def by_us(llmprof, case, c):
    """GPUs that a layout takes for the rate by llmprof's estimate, None where it has none."""
    w = c["worker"]
    if c.get("prefill") and c["prefill"] != w:
        return None
    for n in range(1, 33):
        words = [llmprof, "estimate", case["model"], case["gpu"], "--engine", case["backend"], "--tp", w["tp"], "--dp", n * w["dp"], "--kv", "bf16", "--rate", case["rate"],
                 "--prompt-len", case["isl"], "--gen-len", case["osl"], "--format", "json"]
        words += ["--ep", w["ep"]] if w["ep"] > 1 else ["--moe-tp", w["moe_tp"]] if w["dp"] > 1 else []
        prefillers = math.ceil(n * c["prefillers"] / c["workers"]) if c.get("prefill") else 0
        words += ["--prefill-replicas", prefillers * w["dp"]] if prefillers else []
        done = subprocess.run([str(x) for x in words], capture_output=True, text=True)
        load = json.loads(done.stdout).get("load") if done.returncode == 0 else None
        if load and 1e3 * load["ttft_s"] <= case["ttft"] and 1e3 * load["tpot_s"] <= case["tpot"]:
            return (n + prefillers) * gpus(w)
    return None


def table(results):
    print("| case | choice of | layout | GPUs | says | by aiconfigurator | by llmprof | s | CPU s |\n|---|---|---|---|---|---|---|---|---|")
    for r in results:
        for who in ("aiconfigurator", "llmprof"):
            for i, c in enumerate(r[who]["choices"]):
                cost = f"{r[who]['wall']:.1f} | {r[who]['cpu']:.1f}" if i == 0 else "|"
                print(f"| {r['case']} | {who} | {layout(c)} | {c['gpus']} | {c['says']} | {c['by_them'] or 'none'} | {c['by_us'] or 'none'} | {cost} |")


def main():
    if sys.argv[1] == "--table":
        return table(json.load(open(sys.argv[2])))
    llmprof, results = os.path.abspath(sys.argv[1]), []
    for name in sys.argv[2:] or CASES:
        case = dict(zip(FIELDS, CASES[name]))
        result = {"case": f"{name}, {case['gpu']}, {case['rate']}/s, {case['isl']} + {case['osl']}, {case['ttft']} and {case['tpot']} ms"}
        for who, (found, wall, cpu) in (("aiconfigurator", theirs(case)), ("llmprof", ours(llmprof, case))):
            for c in found:
                c["by_them"], c["by_us"] = by_them(case, c), by_us(llmprof, case, c)
            result[who] = {"choices": sorted(found, key=lambda c: c["gpus"]), "wall": wall, "cpu": cpu}
        results.append(result)
    json.dump(results, sys.stdout, indent=1)


main()
