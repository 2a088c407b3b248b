#!/usr/bin/env python3
"""Time the steps of vLLM's engine on the GPU while prompts and decodes alternate at a set pace, beside the SM clock and the power.

    clocks.py CONFIGS RESULTS SECONDS

SECONDS count from when the engine is ready.

CUDA events around each step give its time on the GPU; a kernel that spins for a set number of cycles before it gives the SM clock.
A hook of the scheduler lets so many prompts into every k-th step and none into the others. Builds on steps.py (in PYTHONPATH).
RESULTS gets clocks.jsonl, one line a phase, and nvml.csv, one line every 20 ms.
"""
import json
import os
import random
import sys
import time

import steps

SPIN = 40_000  # cycles
PACE = {"every": 0, "prompts": 0, "length": 0, "decoders": 0, "count": 0}
RUN, BASE, PROBE = [], {}, {"on": True}


def hook():
    steps.hook()
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.executor.uniproc_executor import UniProcExecutor
    if hasattr(EngineCore, "llmprof_pace"):
        return
    schedule, execute, sample = Scheduler.schedule, UniProcExecutor.execute_model, UniProcExecutor.sample_tokens

    def paced(self, *a, **k):
        if not PACE["every"]:
            return schedule(self, *a, **k)
        PACE["count"] += 1
        full, due = self.max_num_scheduled_tokens, PACE["count"] % PACE["every"] == 0
        self.max_num_scheduled_tokens = PACE["decoders"] + (PACE["prompts"] * PACE["length"] if due else 0)
        try:
            return schedule(self, *a, **k)
        finally:
            self.max_num_scheduled_tokens = full

    def timed(self, out, *a, **k):
        n = len(out.num_scheduled_tokens)
        if not n:
            return execute(self, out, *a, **k)
        row = {"t": time.monotonic(), "seqs": n, "tokens": out.total_num_scheduled_tokens, "new": len(out.scheduled_new_reqs),
               "e0": event(), "e1": None, "e2": None, "e3": None}
        if PROBE["on"] and row["e0"] is not None:
            import torch
            torch.cuda._sleep(SPIN)
        row["e1"] = event()
        got = execute(self, out, *a, **k)
        row["e2"], row["launch"] = event(), time.monotonic() - row["t"]
        RUN.append(row)
        return got

    def sampled(self, *a, **k):
        got = sample(self, *a, **k)
        if RUN:
            RUN[-1]["e3"], RUN[-1]["host"] = event(), time.monotonic() - RUN[-1]["t"]
        return got

    Scheduler.schedule, UniProcExecutor.execute_model, UniProcExecutor.sample_tokens = paced, timed, sampled
    if os.environ.get("CLOCKS_MULTIPROC"):  # a trial on a CPU, whose executor has a process of its own
        from vllm.v1.executor.multiproc_executor import MultiprocExecutor
        run, draw = MultiprocExecutor.execute_model, MultiprocExecutor.sample_tokens
        execute, sample = run, draw
        MultiprocExecutor.execute_model, MultiprocExecutor.sample_tokens = timed, sampled
    EngineCore.llmprof_pace, EngineCore.llmprof_gpu, EngineCore.llmprof_probe = pace, gpu, probe


def event():
    import torch
    if "cuda" not in PROBE:
        PROBE["cuda"] = torch.cuda.is_available()
    if not PROBE["cuda"]:
        return None
    e = torch.cuda.Event(enable_timing=True)
    e.record()
    return e


def pace(self, every, prompts, length, decoders):
    PACE.update(every=every, prompts=prompts, length=length, decoders=decoders, count=0)
    return True


def probe(self, on):
    PROBE["on"] = on
    return True


def gpu(self):
    """The steps since the last call: [launched at, began at (both by the host's clock), spin ms, forward ms, with sampling ms, host's launch ms, host's total ms, sequences, tokens, new]."""
    import torch
    rows, RUN[:] = list(RUN), []
    if not torch.cuda.is_available():
        return [[r["t"], None, None, None, None, r["launch"], r.get("host"), r["seqs"], r["tokens"], r["new"]] for r in rows]
    torch.cuda.synchronize()
    out = []
    for r in rows:
        out.append([round(r["t"], 6), round(BASE["t"] + BASE["e"].elapsed_time(r["e1"]) / 1e3, 6) if BASE else None, round(r["e0"].elapsed_time(r["e1"]), 5),
                    round(r["e1"].elapsed_time(r["e2"]), 4), round(r["e1"].elapsed_time(r["e3"]), 4) if r["e3"] is not None else None,
                    round(1e3 * r["launch"], 4), round(1e3 * r["host"], 4) if "host" in r else None, r["seqs"], r["tokens"], r["new"]])
    BASE["e"] = event()
    torch.cuda.synchronize()
    BASE["t"] = time.monotonic()
    return out


class Clocks(steps.Bench):
    def drain(self):
        self.steps()
        return self.call("llmprof_gpu")

    def clear(self, ids):
        self.call("llmprof_pace", 0, 0, 0, 0)
        ids = [i for i in ids if i]
        if ids:
            self.engine.abort_request(ids)
        end = time.monotonic() + 10
        while self.engine.has_unfinished_requests() and time.monotonic() < end:
            self.step({})
        time.sleep(0.1)
        self.drain()

    def phase(self, name, decoders, context, every, prompts=1, length=1024, seconds=3.0, trace=False, probe=True):
        """So many sequences decode while every so many steps take prompts; 0 for steps that only decode."""
        if not self.left(seconds + 4):
            return
        self.call("llmprof_probe", probe)
        log, ids, base = {}, [], self.tokens(context)
        for _ in range(decoders):
            base[-1] = random.randrange(self.vocab)
            ids.append(self.request("ctx", list(base), 4000, 0.0))
        while len(log) < decoders or any(len(ts) < 3 for ts in log.values()):
            self.step(log)
        sent, pool = [], [self.tokens(length) for _ in range(32)]
        begin = time.monotonic()
        self.drain()
        if every:
            self.call("llmprof_pace", every, prompts, length, decoders)
        stage, traced = 0, None
        while (now := time.monotonic()) < begin + seconds:
            sent = [i for i in sent if i not in log]
            while every and len(sent) < 3 * prompts + 3:
                t = pool[random.randrange(len(pool))]
                t[random.randrange(length)] = random.randrange(self.vocab)
                sent.append(self.request("real", list(t), 1, 0.0))
            if trace and stage == 0 and now > begin + seconds - 0.8:
                rows = self.drain()
                self.call("llmprof_profile", "", False)
                stage, begin2 = 1, time.monotonic()
                seconds = begin2 + 0.5 - begin
            self.step(log)
        end = time.monotonic()
        if trace and stage == 1:
            traced = os.path.join("/tmp", f"clocks-{os.getpid()}.json")
            self.call("llmprof_profile", traced, False)
        else:
            rows = self.call("llmprof_gpu")
        core = self.steps()
        self.clear(ids + sent)
        self.write({"phase": name, "decoders": decoders, "context": context, "every": every, "prompts": prompts, "length": length, "probe": probe,
                    "begin": begin, "end": end, "steps": rows, "core": core})
        if traced:
            steps.trim(traced, os.path.join(self.results, f"trace-{name}.json.gz"), {"phase": name})

    def spaced(self, name, n, length, idle, together=1):
        """Prompts one after another on a GPU that was idle before."""
        if not self.left(n * (idle + 0.06) + 2):
            return
        self.drain()
        begin = time.monotonic()
        for _ in range(n):
            for _ in range(together):
                self.request("real", self.tokens(length), 1, 0.0)
            self.finish({})
            time.sleep(idle)
        self.write({"phase": name, "decoders": 0, "prompts": together, "length": length, "begin": begin, "end": time.monotonic(), "steps": self.call("llmprof_gpu"), "core": self.steps()})

    def saturated(self, name, prompts, length, seconds):
        """Prompts alone, so many in each step."""
        if not self.left(seconds + 2):
            return
        self.drain()
        self.call("llmprof_pace", 1, prompts, length, 0)
        log, sent, begin = {}, [], time.monotonic()
        while time.monotonic() < begin + seconds:
            sent = [i for i in sent if i not in log]
            while len(sent) < 3 * prompts + 3:
                sent.append(self.request("real", self.tokens(length), 1, 0.0))
            self.step(log)
        rows, core, end = self.call("llmprof_gpu"), self.steps(), time.monotonic()
        self.clear(sent)
        self.write({"phase": name, "decoders": 0, "every": 1, "prompts": prompts, "length": length, "begin": begin, "end": end, "steps": rows, "core": core})

    def served(self, name, seconds, concurrency=0, rate=0.0, prompt=1024, gen=128):
        """Requests of a prompt and an answer without the HTTP server: so many at a time, or in a Poisson process."""
        if not self.left(seconds + 8):
            return
        self.drain()
        log, left, due, done = {}, {}, time.monotonic(), 0
        begin = time.monotonic()
        records = []
        while time.monotonic() < begin + seconds:
            now = time.monotonic()
            while len(left) < concurrency or (rate and due <= now):
                i = self.request("real", self.tokens(prompt), gen, 0.0)
                left[i] = due if rate else now
                due += random.expovariate(rate) if rate else 0
            if not left:
                time.sleep(max(due - time.monotonic(), 0))
                continue
            for o in self.step(log):
                if len(log[o.request_id]) >= gen and o.request_id in left:
                    ts = log.pop(o.request_id)
                    records.append([round(left.pop(o.request_id) - begin, 6), round(ts[0] - begin, 6), round(ts[-1] - begin, 6)])
        rows, core, end = self.call("llmprof_gpu"), self.steps(), time.monotonic()
        self.clear(list(left))
        self.write({"phase": name, "concurrency": concurrency, "rate": rate, "prompt": prompt, "gen": gen, "begin": begin, "end": end, "steps": rows, "core": core, "records": records})

    def run(self):
        self.until = time.monotonic() + self.until
        try:
            self.finish_warm()
        except Exception as e:
            self.write({"kind": "error", "error": repr(e)[:800]})
        for name, args, options in plan():
            try:
                getattr(self, name)(*args, **options)
            except Exception as e:  # a phase that fails must not take the others with it
                import traceback
                self.write({"kind": "error", "phase": args, "error": traceback.format_exc()[-1500:]})
                try:
                    self.clear([])
                except Exception:
                    pass
            print(args, round(self.until - time.monotonic(), 1), "s left", flush=True)
        self.write({"kind": "end"})

    def finish_warm(self):
        for batch in (1, 64):
            for _ in range(batch):
                self.request("ctx", self.tokens(256), 12, 0.0)
            self.finish({})
        for n in (128, 1024, 2048, 4096):
            self.request("real", self.tokens(n), 2, 0.0)
            self.finish({})


def plan():
    yield "spaced", ("idle-1", 8, 1024, 0.4), {}
    yield "phase", ("decode-64", 64, 1100, 0), {"seconds": 2}
    yield "phase", ("64-every-4", 64, 1100, 4), {}
    yield "saturated", ("alone-1", 1, 1024, 4), {}
    yield "served", ("closed-64", 8), {"concurrency": 64}
    yield "phase", ("64-every-1", 64, 1100, 1), {}
    yield "phase", ("64-every-2", 64, 1100, 2), {}
    yield "phase", ("64-every-8", 64, 1100, 8), {}
    yield "phase", ("64-every-16", 64, 1100, 16), {}
    yield "phase", ("64-every-64", 64, 1100, 64), {}
    yield "phase", ("decode-64-after", 64, 1100, 0), {"seconds": 1.5}
    for n in (96, 128, 144, 200):
        yield "phase", (f"decode-{n}", n, 1100, 0), {"seconds": 1.2}
    yield "served", ("poisson-28", 12), {"rate": 28.0}
    for n in (16, 128):
        for k in (1, 2, 4, 8, 16):
            yield "phase", (f"{n}-every-{k}", n, 1100, k), {"seconds": 2.5}
    yield "phase", ("64-every-4-no-probe", 64, 1100, 4), {"seconds": 2.5, "probe": False}
    yield "phase", ("64-every-4-of-2", 64, 1100, 4), {"seconds": 2.5, "prompts": 2}
    yield "phase", ("64-every-2-of-256", 64, 1100, 2), {"seconds": 2.5, "length": 256}
    yield "saturated", ("alone-4", 4, 1024, 3), {}
    yield "spaced", ("idle-2", 5, 1024, 0.3), {"together": 2}
    yield "phase", ("200-every-4", 200, 1100, 4), {"seconds": 2.5}
    for n in (8, 16, 32, 256):
        yield "phase", (f"decode-{n}", n, 1100, 0), {"seconds": 1}
    yield "phase", ("trace-64-every-4", 64, 1100, 4), {"seconds": 3, "trace": True}
    yield "phase", ("trace-decode-144", 144, 1100, 0), {"seconds": 2, "trace": True}
    yield "phase", ("trace-decode-64", 64, 1100, 0), {"seconds": 2, "trace": True}
    yield "phase", ("trace-64-every-64", 64, 1100, 64), {"seconds": 2, "trace": True}
    yield "phase", ("trace-64-every-1", 64, 1100, 1), {"seconds": 3, "trace": True}


def watch(path, device=0):
    """Write what NVML says every 20 ms: SM and memory clock, the driver's mean power and the instantaneous one, temperature, reasons, energy."""
    import pynvml as n
    n.nvmlInit()
    g = n.nvmlDeviceGetHandleByIndex(int(device))
    with open(path, "w") as f:
        f.write("# %s, limit %.0f W\n" % (n.nvmlDeviceGetName(g), n.nvmlDeviceGetEnforcedPowerLimit(g) / 1000))
        f.write("t_s,sm_mhz,mem_mhz,mean_w,instant_w,temperature_c,reasons,energy_mj,read_s\n")
        i = 0
        while True:
            t = time.monotonic()
            try:
                instant = n.nvmlDeviceGetFieldValues(g, [186])[0].value.uiVal / 1000
            except Exception:
                instant = float("nan")
            row = [t, n.nvmlDeviceGetClockInfo(g, 1), n.nvmlDeviceGetClockInfo(g, 2), n.nvmlDeviceGetPowerUsage(g) / 1000, instant,
                   n.nvmlDeviceGetTemperature(g, 0), n.nvmlDeviceGetCurrentClocksEventReasons(g), n.nvmlDeviceGetTotalEnergyConsumption(g) if i % 5 == 0 else -1]
            f.write("%.4f,%d,%d,%.1f,%.1f,%d,%d,%d,%.4f\n" % (*row, time.monotonic() - t))
            f.flush()
            i += 1
            time.sleep(max(0.02 - (time.monotonic() - t), 0.001))


def main():
    configs, results, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    os.makedirs(results, exist_ok=True)
    os.environ["VLLM_PLUGINS"] = "llmprof"
    steps.plugin("/tmp/clocks-state", "clocks")
    sampler = os.posix_spawn(sys.executable, [sys.executable, os.path.abspath(__file__), "watch", os.path.join(results, "nvml.csv")], os.environ)
    try:
        import vllm  # noqa: F401
        hook()
        random.seed("clocks")
        job = {"name": "clocks", "model": os.environ.get("CLOCKS_MODEL", "llama3.1-8b"), "args": json.loads(os.environ.get("CLOCKS_ARGS", "{}"))}
        Clocks(job, configs, results, seconds).run()
    finally:
        import signal
        os.kill(sampler, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    import clocks
    clocks.watch(*sys.argv[2:]) if sys.argv[1] == "watch" else clocks.main()
