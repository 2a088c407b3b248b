#!/usr/bin/env python3
"""Measure what the GPU draws while vLLM decodes and prefills prompts, and between these points the TTFT of single prompts.

    energy.py predict LLMPROF h100|h200 FOLDER    # the points, with what `llmprof estimate` says of them, named after the SHA-256 of the content
    energy.py run CONFIGS PREDICTIONS RESULTS SECONDS GPU MODEL:WEIGHTS...
    cat RESULTS/*.jsonl | gzip > FOLDER/steps.jsonl.gz
    energy.py reduce FOLDER                       # FOLDER/energy.csv, ttft.csv and observations.csv of its steps.jsonl.gz and nvml-*.csv.gz

A point lasts some SECONDS_EACH, for NVML's energy counter ticks every 100 ms and its power settles in some 0.2 s. Decode steps have a
context that counts as computed, as those of steps.py. Prompts are prefilled for one token each; the next is sent when the token of
the last has come, so that J a prompt includes the time in which the GPU waits for the host. TTFT is measured in rounds over all
lengths, one round after each of the other points, so that its repeats lie minutes apart and see the host in many states.
"""
import csv
import datetime
import gzip
import hashlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

import reduce as reduced
import steps

SECONDS_EACH = 2.5
DECODE = [(1, 1024), (8, 1024), (32, 1024), (64, 1024), (8, 8192), (1, 128)]
PROMPTS = [(1, 1024), (8, 1024), (1, 512), (1, 4096), (1, 8192)]
ROUND = {128: 4, 256: 4, 300: 4, 512: 4, 700: 4, 1024: 4, 2048: 4, 4096: 2, 8192: 1, 16384: 1}  # repeats of each length
JOBS = [("qwen3-30b-a3b", "bf16"), *((m, w) for m in ("llama3.1-8b", "qwen2.5-7b", "qwen3-8b", "llama3.2-3b") for w in ("bf16", "fp8"))]
KEYS = ("model", "weights", "batch", "prompt_len", "gen_len")


def estimate(program, gpu, model, weights, batch, prompt, gen):
    args = [program, "estimate", "--engine", "vllm", "-m", model, "-g", gpu, "-b", str(batch), "--prompt-len", str(prompt), "--gen-len", str(gen), "--weights", weights, "--offline", "--format", "json"]
    answer = json.loads(subprocess.run(args, capture_output=True, text=True, check=True).stdout)
    row = dict(zip(KEYS, (model, weights, batch, prompt, gen)))
    return {**row, **{k: answer[k] for k in ("ttft_s", "tpot_s", "energy_j", "power_w")}}


def predict(program, gpu, folder):
    rows = []
    for model, weights in JOBS:
        for batch, context in DECODE:
            tpot = estimate(program, gpu, model, weights, batch, context, 32)["tpot_s"]["expected"]
            rows.append({"kind": "decode", **estimate(program, gpu, model, weights, batch, context, round(SECONDS_EACH / tpot))})
        rows += [{"kind": "prompts", **estimate(program, gpu, model, weights, batch, prompt, 1)} for batch, prompt in PROMPTS]
        rows += [{"kind": "round", **estimate(program, gpu, model, weights, 1, prompt, 1)} for prompt in ROUND]
    version = subprocess.run([program, "version"], capture_output=True, text=True).stdout.strip()
    text = json.dumps({"written": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "llmprof": version, "gpu": gpu, "engine": "vllm", "points": rows}, indent=0)
    path = pathlib.Path(folder) / f"predictions-{hashlib.sha256(text.encode()).hexdigest()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(path, len(rows))


class Bench(steps.Bench):
    def write(self, row):
        super().write({"device": int(self.job["device"]), **row})

    def run(self):
        t = self.job.get("temperature", 0.0)
        self.warm(t)
        for kind, batch, length, gen in self.job["points"]:
            if not self.fits(batch, length + gen + 8) or not self.left(2 * SECONDS_EACH + 2):
                continue
            try:
                self.write({"kind": kind, "batch": batch, "prompt": length, "gen": gen, **(self.decoding(batch, length, gen, t) if kind == "decode" else self.prefilling(batch, length, t))})
                self.round(t)
            except Exception as e:  # a point that fails must not take the others with it
                self.write({"kind": "error", "point": [kind, batch, length, gen], "error": repr(e)[:500]})
        self.write({"kind": "end"})

    def round(self, temperature):
        """Single prompts of all lengths, in a random order, while nothing reads NVML."""
        lengths = random.sample(list(ROUND), counts=list(ROUND.values()), k=sum(ROUND.values()))
        os.kill(self.job["sampler"], signal.SIGSTOP)
        try:
            for length in lengths:
                self.single(length, temperature)
        finally:
            os.kill(self.job["sampler"], signal.SIGCONT)

    def single(self, length, temperature):
        if not self.fits(1, length + 8) or not self.left(3):
            return
        tokens, log, _, sent = self.tokens(length), {}, self.steps(), time.monotonic()
        self.request("real", tokens, 1, temperature)
        self.finish(log)
        first = min(ts[0] for ts in log.values())
        self.write({"kind": "round", "prompt": length, "ttft_s": first - sent, "core": steps.relative(self.steps(), sent)})

    def decoding(self, batch, context, gen, temperature):
        base, log = self.tokens(context), {}
        for _ in range(batch):
            base[-1] = random.randrange(self.vocab)
            self.request("ctx", base, gen + 8, temperature)
        self.finish(log)
        count = {}
        for ts in log.values():
            for t in ts:
                count[t] = count.get(t, 0) + 1
        full = [t for t in sorted(count) if count[t] == batch][1:-2]
        return {"begin": full[0], "end": full[-1], "times": len(full) - 1}

    def prefilling(self, batch, prompt, temperature):
        begin, n, first = time.monotonic(), 0, []
        while time.monotonic() - begin < SECONDS_EACH:
            log, sent = {}, time.monotonic()
            for tokens in [self.tokens(prompt) for _ in range(batch)]:
                self.request("real", tokens, 1, temperature)
            self.finish(log)
            first.append(max(ts[0] for ts in log.values()) - sent)
            n += 1
        return {"begin": begin, "end": time.monotonic(), "times": n, "ttft_s": statistics.median(first)}


def run(configs, predictions, results, seconds, device, *jobs):
    end = time.monotonic() + float(seconds)
    os.makedirs(results, exist_ok=True)
    os.environ["CUDA_VISIBLE_DEVICES"] = device
    here = os.path.dirname(os.path.abspath(__file__))
    sampler = os.posix_spawn(sys.executable, [sys.executable, os.path.join(here, "clocks.py"), "watch", os.path.join(results, f"nvml-{device}.csv"), device], os.environ)
    try:
        steps.plugin(os.path.join(results, f"state-{device}"))
        import vllm  # noqa: F401
        import vllm.entrypoints.llm  # noqa: F401
        import vllm.v1.worker.gpu_worker  # noqa: F401
        import vllm.model_executor.models.llama  # noqa: F401
        steps.hook()
        points = json.load(open(predictions))["points"]
        for model, weights in (j.split(":") for j in jobs):
            if end - time.monotonic() > 90:
                work_off(configs, results, points, {"name": f"{model}-{weights}", "model": model, "weights": weights, "device": device, "sampler": sampler}, end)
    finally:
        os.kill(sampler, signal.SIGKILL)


def work_off(configs, results, points, job, end):
    job["temperature"] = 1.0 if "a3b" in job["model"] else 0.0
    job["points"] = [(p["kind"], p["batch"], p["prompt_len"], p["gen_len"]) for p in points if f"{p['model']}-{p['weights']}" == job["name"] and p["kind"] != "round"]
    job["args"] = {"quantization": "fp8"} if job["weights"] == "fp8" else {}
    used, pid = steps.gpu_memory(int(job["device"])), os.fork()
    if pid == 0:
        steps.run_job(job, configs, results, end - 5, Bench)
    steps.wait_for(job["name"], pid, end, used)


def drawn(nvml, begin, end):
    """Mean power between two times, in W: of NVML's energy counter, by the line through its ticks, and of its instantaneous readings."""
    rows = [r for r in nvml if begin + 0.3 <= r[0] <= end]
    ticks = [(r[0], 1e-3 * r[7]) for r in rows if r[7] >= 0]
    return {"power_w": statistics.linear_regression(*zip(*ticks)).slope, "instant_w": statistics.mean(r[4] for r in rows), "sm_clock_mhz": statistics.median(r[1] for r in rows),
            "capped": sum(int(r[6]) & 4 > 0 for r in rows) / len(rows), "temperature_c": statistics.median(r[5] for r in rows)}


def read_nvml(path):
    lines = list(gzip.open(path, "rt"))
    gpu = next(g for g in reduced.GPUS if g.upper() in lines[0])
    return gpu, [[float(x) for x in line.split(",")] for line in lines if line[:1].isdigit() and line.count(",") == 8]


class Folder:
    """What a folder has: points, readings of NVML by device, and predictions by point."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.points = [json.loads(line) for line in gzip.open(self.path / "steps.jsonl.gz")]
        found = {p.name[5:].split(".")[0]: read_nvml(p) for p in self.path.glob("nvml-*.csv.gz")}
        self.gpu, self.nvml = next(iter(found.values()))[0], {int(k): rows for k, (_, rows) in found.items()}
        files = map(json.load, map(open, self.path.glob("predictions-*.json")))
        self.predictions = {(p["kind"], *(p[k] for k in KEYS)): p for d in files if d["gpu"] == self.gpu for p in d["points"]}

    def energy(self):
        for r in self.points:
            if r["kind"] not in ("decode", "prompts"):
                continue
            key = (r["model"], r["weights"], r["batch"], r["prompt"], r["gen"])
            p = self.predictions[r["kind"], *key]
            seen, each = drawn(self.nvml[r["device"]], r["begin"], r["end"]), (r["end"] - r["begin"]) / r["times"]
            what, power = ("per_token", "decode") if r["kind"] == "decode" else ("per_prompt", "prefill")
            energy = seen["power_w"] * each / r["batch"]
            time_s = p["tpot_s" if r["kind"] == "decode" else "ttft_s"]["expected"]
            yield {"gpu": self.gpu, "kind": r["kind"], **dict(zip(KEYS, key)), "times": r["times"], "each_s": f"{each:.6g}",
                   "predicted_s": f"{time_s:.6g}", **{k: "" if v is None else f"{v:.4g}" for k, v in seen.items()}, "predicted_w": f"{p['power_w'][power]:.4g}",
                   "energy_j": f"{energy:.6g}", "predicted_j": f"{p['energy_j'][what]:.6g}", "error": f"{p['energy_j'][what] / energy - 1:.4f}"}

    def ttft(self):
        """Medians over all rounds, with the range that 80 % of the prompts lie in."""
        rounds = {}
        for r in self.points:
            if r["kind"] == "round":
                rounds.setdefault((r["model"], r["weights"], r["device"], r["prompt"]), []).append(r)
        for (model, weights, device, prompt), seen in sorted(rounds.items()):
            times, first = sorted(r["ttft_s"] for r in seen), [reduced.pairs(r["core"])[0] for r in seen]
            p, ttft = self.predictions["round", model, weights, 1, prompt, 1]["ttft_s"], statistics.median(times)
            yield {"gpu": self.gpu, "device": device, "model": model, "weights": weights, "batch": 1, "prompt_len": prompt, "gen_len": 1, "repeats": len(times),
                   "ttft_s": f"{ttft:.6g}", "p10_s": f"{times[len(times) // 10]:.6g}", "p90_s": f"{times[-1 - len(times) // 10]:.6g}",
                   "first_step_s": f"{statistics.median(f['done'] - f['at'] for f in first):.6g}", "launch_s": f"{statistics.median(f['launched'] - f['at'] for f in first):.6g}",
                   "predicted_s": f"{p['expected']:.6g}", "error": f"{p['expected'] / ttft - 1:.4f}"}


def observation(source, table, r, metric, value, samples, note):
    return {**dict.fromkeys(reduced.OBSERVATION, ""), "source": source, "id": f"{table}:{r['model']}-{r['weights']}-b{r['batch']}-p{r['prompt_len']}" + (f"-{r['kind']}" if "kind" in r else ""), "model": r["model"],
            "gpu": reduced.GPUS[r["gpu"]], "engine": "vllm", "tp": 1, "batch": r["batch"], "prompt_len": r["prompt_len"], "gen_len": r["gen_len"], "weights": r["weights"], "load": "static",
            "params": reduced.PARAMS[r["model"]], "metric": metric, "value": value, "samples": samples, "note": note}


def reduce(path):
    folder = Folder(path)
    energy, ttft = list(folder.energy()), list(folder.ttft())
    reduced.write(folder.path / "energy.csv", energy)
    reduced.write(folder.path / "ttft.csv", ttft)
    metric = {"decode": "energy_per_token_j", "prompts": "energy_per_prompt_j"}
    reduced.write(folder.path / "observations.csv", [
        *(observation(folder.path.name, "energy.csv", r, metric[r["kind"]], r["energy_j"], r["times"], "vLLM 0.25.1, Python API, NVML") for r in energy),
        *({**observation(folder.path.name, "ttft.csv", r, "ttft_s", r["ttft_s"], r["repeats"], "vLLM 0.25.1, Python API, in rounds"), "gen_len": 32} for r in ttft)])
    for what, rows in (("decode", [r for r in energy if r["kind"] == "decode"]), ("prompts", [r for r in energy if r["kind"] == "prompts"]), ("TTFT", ttft)):
        off = sorted(abs(float(r["error"])) for r in rows)
        if off:
            print(f"{what}: {len(off)} points, median error {100 * statistics.median(off):.1f} %, p90 {100 * off[int(0.9 * len(off))]:.1f} %")


if __name__ == "__main__":
    {"predict": predict, "run": run, "reduce": reduce}[sys.argv[1]](*sys.argv[2:])
