#!/usr/bin/env python3
"""Time the steps of vLLM's engine by its Python API, point by point.

    steps.py CONFIGS STATE RESULTS SECONDS

CONFIGS holds one folder a model with its config.json, STATE/jobs.json lists the jobs, and RESULTS gets a file of
JSON lines for each job, one line a point, as soon as it is measured. Weights are random (--load-format dummy).

vLLM is imported once; each job is a fork of that process. The hooks below reach the engine's process by fork, or as a
plugin of vLLM where it starts that process anew. They are: a log of what each step schedules; requests whose context counts as computed already, so
that decode steps at a long context need no prefill (the cache is filled with random values first, as vLLM's own
DecodeBenchConnector does); and PyTorch's profiler around some steps.
"""
import gzip
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time

os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_WORKER_MULTIPROCESSING_METHOD", "fork")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

STEPS = []  # of the engine's process: [scheduled at, seconds, sequences, tokens, new sequences] and [finished at]
PROFILER = {"on": None}


def hook():
    """Put the log, the computed contexts and the profiler into the engine's classes."""
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCore

    if hasattr(EngineCore, "llmprof_steps"):
        return
    schedule, update, init = Scheduler.schedule, Scheduler.update_from_output, Scheduler.__init__

    def logged_schedule(self, *a, **k):
        t = time.monotonic()
        with mark("llmprof: schedule"):
            out = schedule(self, *a, **k)
        n = out.num_scheduled_tokens
        STEPS.append([t, time.monotonic() - t, len(n), out.total_num_scheduled_tokens, len(out.scheduled_new_reqs)])
        return out

    def logged_update(self, *a, **k):
        STEPS.append([time.monotonic()])
        with mark("llmprof: update_from_output"):
            return update(self, *a, **k)

    def computed_init(self, *a, **k):
        init(self, *a, **k)
        manager = self.kv_cache_manager
        computed, allocate = manager.get_computed_blocks, manager.allocate_slots

        def get_computed_blocks(request):
            blocks, n = computed(request)
            if request.request_id.startswith("ctx") and request.num_preemptions == 0:
                return manager.empty_kv_cache_blocks, request.num_prompt_tokens - 1
            return blocks, n

        def allocate_slots(request, num_new_tokens, num_new_computed_tokens=0, new_computed_blocks=None, **k):
            if request.request_id.startswith("ctx") and num_new_computed_tokens:
                k["num_external_computed_tokens"] = num_new_computed_tokens
                num_new_computed_tokens = 0
            return allocate(request, num_new_tokens, num_new_computed_tokens=num_new_computed_tokens,
                            new_computed_blocks=new_computed_blocks, **k)

        manager.get_computed_blocks, manager.allocate_slots = get_computed_blocks, allocate_slots

    Scheduler.schedule, Scheduler.update_from_output, Scheduler.__init__ = logged_schedule, logged_update, computed_init
    EngineCore.llmprof_steps, EngineCore.llmprof_fill, EngineCore.llmprof_profile = drain, fill, profile
    for name in ("execute_model", "sample_tokens"):
        annotate(name)


class mark:
    """A profiler's range while the profiler runs, else nothing."""

    def __init__(self, name):
        self.name, self.range = name, None

    def __enter__(self):
        if PROFILER["on"] is not None:
            import torch
            self.range = torch.profiler.record_function(self.name)
            self.range.__enter__()

    def __exit__(self, *a):
        if self.range is not None:
            self.range.__exit__(*a)


def annotate(name):
    from vllm.v1.executor.uniproc_executor import UniProcExecutor
    call = getattr(UniProcExecutor, name)

    def marked(self, *a, **k):
        with mark("llmprof: " + name):
            return call(self, *a, **k)

    setattr(UniProcExecutor, name, marked)


def drain(self):
    out = list(STEPS)
    STEPS.clear()
    return out


def fill(self):
    """Fill the KV cache with random values, and say what the engine is."""
    s, (name, kv_bytes) = self.scheduler, self.model_executor.collective_rpc(fill_cache)[0]
    return {"kv_bytes": kv_bytes, "runner": name, "scheduler": type(s).__name__, "max_model_len": s.max_model_len,
            "blocks": s.kv_cache_manager.block_pool.num_gpu_blocks, "max_num_seqs": s.max_num_running_reqs,
            "max_num_batched_tokens": s.max_num_scheduled_tokens}


def fill_cache(worker):
    """Fill one rank's KV cache; return the model runner's module and the cache's bytes."""
    import torch
    r, n = getattr(worker, "worker", worker).model_runner, 0
    for cache in r.kv_caches:
        for block in cache.view(-1).split(1 << 28):
            if block.dtype in (torch.bfloat16, torch.float16, torch.float32):
                block.normal_()
            n += block.nbytes
    return type(r).__module__, n


def profile(self, path, cpu):
    """Start PyTorch's profiler in each rank, or with a path stop it and write the first rank's trace there."""
    self.model_executor.collective_rpc(profile_rank, args=(path, cpu))
    return True


def profile_rank(worker, path, cpu):
    import torch
    import vllm.v1.utils
    from torch.profiler import ProfilerActivity as A
    cuda = torch.cuda.is_available()
    if not path:
        kinds = ([A.CUDA] if cuda else []) + ([A.CPU] if cpu or not cuda else [])
        p = torch.profiler.profile(activities=kinds)
        vllm.v1.utils._PROFILER_FUNC = torch.profiler.record_function if cpu else vllm.v1.utils.contextlib.nullcontext
        p.__enter__()
        PROFILER["on"] = p
        return
    p, PROFILER["on"] = PROFILER["on"], None
    if cuda:
        torch.cuda.synchronize()
    p.__exit__(None, None, None)
    vllm.v1.utils._PROFILER_FUNC = vllm.v1.utils.contextlib.nullcontext
    if getattr(worker, "worker", worker).rank == 0:
        p.export_chrome_trace(path)


KEEP = {"kernel", "gpu_memcpy", "gpu_memset", "user_annotation", "cuda_runtime", "cuda_driver"}
ARGS = ("grid", "block", "stream", "correlation", "device", "bytes", "shared memory", "registers per thread", "graph node id", "External id")


def trim(path, out, note):
    """Keep the kernels, copies, runtime calls and marks of a trace."""
    with open(path) as f:
        trace = json.load(f)
    os.remove(path)
    events = []
    for e in trace["traceEvents"]:
        if e.get("ph") == "M" and e.get("name") in ("process_name", "thread_name"):
            events.append(e)
        elif e.get("ph") == "X" and e.get("cat") in KEEP:
            e["args"] = {k: v for k, v in e.get("args", {}).items() if k in ARGS}
            events.append(e)
    head = {k: trace[k] for k in ("schemaVersion", "deviceProperties", "baseTimeNanoseconds", "displayTimeUnit") if k in trace}
    with gzip.open(out, "wt", compresslevel=9) as f:
        json.dump({**head, "llmprof": note, "traceEvents": events}, f, separators=(",", ":"))


class Bench:
    def __init__(self, job, configs, results, until):
        self.job, self.until, self.n = job, until, 0
        self.results = results
        self.file = open(os.path.join(results, job["name"] + ".jsonl"), "a")
        from vllm import LLM
        t = time.monotonic()
        self.llm = LLM(model=os.path.join(configs, job["model"]), load_format="dummy", skip_tokenizer_init=True, seed=0,
                       max_num_batched_tokens=8192, enable_prefix_caching=False, **job.get("args", {}))
        self.engine = self.llm.llm_engine
        self.vocab = self.engine.model_config.get_vocab_size()
        self.call = self.engine.engine_core.call_utility
        self.about = self.call("llmprof_fill")
        c = self.engine.vllm_config
        self.write({"kind": "engine", "start_s": time.monotonic() - t, "async_scheduling": c.scheduler_config.async_scheduling,
                    "cudagraph_mode": str(c.compilation_config.cudagraph_mode), "args": job.get("args", {}),
                    "cudagraph_capture_sizes": c.compilation_config.cudagraph_capture_sizes, **self.about})

    def write(self, row):
        row = {"job": self.job["name"], "model": self.job["model"], "weights": self.job.get("weights", "bf16"), "t": time.monotonic(), **row}
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def left(self, seconds):
        return self.until - time.monotonic() > seconds

    def fits(self, batch, tokens):
        tokens = -(-tokens // 16) * 16
        return tokens <= self.about["max_model_len"] and batch * tokens < 0.97 * 16 * self.about["blocks"]

    def request(self, kind, tokens, gen, temperature):
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        self.n += 1
        p = SamplingParams(temperature=temperature, max_tokens=gen, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA)
        name = f"{kind}{self.n}"
        self.engine.add_request(name, {"prompt_token_ids": tokens}, p)
        return name

    def tokens(self, n):
        return random.choices(range(self.vocab), k=n)

    def step(self, log):
        outs = self.engine.step()
        t = time.monotonic()
        for o in outs:
            log.setdefault(o.request_id, []).extend([t] * len(o.outputs[0].token_ids))
        return outs

    def finish(self, log):
        while self.engine.has_unfinished_requests():
            self.step(log)

    def steps(self):
        return self.call("llmprof_steps")

    def decode(self, batch, context, temperature=0.0, repeats=3, counted=20):
        """Steps in which all sequences decode, of a context that counts as computed."""
        gen = counted + 8 + batch // 4 + batch * context // 60000
        if not self.fits(batch, context + gen) or not self.left(5):
            return
        base, rows = self.tokens(context), []
        for _ in range(repeats):
            self.steps()
            log, sent = {}, time.monotonic()
            for _ in range(batch):
                base[-1] = random.randrange(self.vocab)
                self.request("ctx", base, gen, temperature)
            self.finish(log)
            times = sorted({t for ts in log.values() for t in ts})
            count = {}
            for ts in log.values():
                for t in ts:
                    count[t] = count.get(t, 0) + 1
            full = [t for t in times if count[t] == batch][1:-2]
            core = self.steps()
            done = context + max(0, gen - len(full)) + len(full) / 2
            rows.append({"sent": sent, "steps": len(full) - 1, "context": done, "tpot_s": (full[-1] - full[0]) / (len(full) - 1),
                         "step_s": [round(b - a, 7) for a, b in zip(full, full[1:])], "core_update_s": full_updates(core, batch),
                         "schedule_s": median([s[1] for s in core if len(s) == 5 and s[2] == batch])})
        self.write({"kind": "decode", "batch": batch, "context": context, "temperature": temperature, "repeats": rows})

    def prompts(self, batch, prompt, gen=1, temperature=0.0, repeats=5):
        """Prompts that are sent together and really prefilled, with the times of all tokens."""
        if not self.fits(batch, prompt + gen) or not self.left(5):
            return
        rows = []
        for _ in range(repeats):
            all_tokens = [self.tokens(prompt) for _ in range(batch)]
            self.steps()
            log, sent, t0 = {}, {}, time.monotonic()
            for tokens in all_tokens:
                at = time.monotonic()
                sent[self.request("real", tokens, gen, temperature)] = at
            self.finish(log)
            firsts = sorted(ts[0] - sent[i] for i, ts in log.items())
            last = max(ts[-1] for ts in log.values())
            row = {"sent": t0, "ttft_s": sum(firsts) / len(firsts), "ttft_first_s": firsts[0],
                   "ttft_last_s": max(ts[0] for ts in log.values()) - t0, "ttlt_s": last - t0}
            if gen > 1:
                row["tpot_s"] = sum((ts[-1] - ts[0]) / (len(ts) - 1) for ts in log.values()) / len(log)
            row["core"] = relative(self.steps(), t0)
            rows.append(row)
        self.write({"kind": "prompts", "batch": batch, "prompt": prompt, "gen": gen, "temperature": temperature, "repeats": rows})

    def mixed(self, batch, context, prompt, repeats=3):
        """One prompt that joins sequences which decode."""
        if not self.fits(batch + prompt // context, context + 60) or not self.left(5):
            return
        base, rows = self.tokens(context), []
        for _ in range(repeats):
            self.steps()
            log, ids = {}, []
            for _ in range(batch):
                base[-1] = random.randrange(self.vocab)
                ids.append(self.request("ctx", base, 40 + batch // 4 + prompt // 512, 0.0))
            tokens = self.tokens(prompt)
            while len(log) < batch or min(len(ts) for ts in log.values()) < 6:
                self.step(log)
            sent = time.monotonic()
            late = self.request("real", tokens, 8, 0.0)
            self.finish(log)
            rows.append({"sent": sent, "ttft_s": log[late][0] - sent, "core": relative(self.steps(), sent)})
        self.write({"kind": "mixed", "batch": batch, "context": context, "prompt": prompt, "repeats": rows})

    def trace(self, name, batch, context, cpu, prompt=0, temperature=0.0, steps=5):
        """A profiler's trace of some decode steps, or of one prompt."""
        if not self.left(15):
            return
        raw, log = os.path.join(tempfile.gettempdir(), f"trace-{os.getpid()}.json"), {}
        if prompt:
            self.call("llmprof_profile", "", cpu)
            self.request("real", self.tokens(prompt), 2, temperature)
            self.finish(log)
            self.call("llmprof_profile", raw, cpu)
        else:
            for _ in range(batch):
                self.request("ctx", self.tokens(context), 40 + batch // 4 + steps, temperature)
            while len(log) < batch or min(len(ts) for ts in log.values()) < 6:
                self.step(log)
            self.call("llmprof_profile", "", cpu)
            n = len(log[max(log)])
            while len(log[max(log)]) < n + steps:
                self.step(log)
            self.call("llmprof_profile", raw, cpu)
            self.finish(log)
        note = {"model": self.job["model"], "weights": self.job.get("weights", "bf16"), "batch": batch, "context": context, "prompt": prompt, "cpu": cpu}
        trim(raw, os.path.join(self.results, f"trace-{self.job['name']}-{name}.json.gz"), note)

    def warm(self, temperature):
        """Run some steps and prompts that are not measured."""
        self.steps()
        for batch in (1, 8, 64):
            for _ in range(batch):
                self.request("ctx", self.tokens(256), 12, temperature)
            self.finish({})
        for n in (128, 600, min(8192, self.about["max_model_len"] - 16)):
            self.request("real", self.tokens(n), 2, temperature)
            self.finish({})

    def run(self):
        t = self.job.get("temperature", 0.0)
        self.warm(t)
        for kind, *args in self.job["points"]:
            try:
                if kind == "decode":
                    self.decode(args[0], args[1], **{"temperature": t, **args[2]})
                elif kind == "prompts":
                    self.prompts(*args, temperature=t, repeats=5 if args[0] == 1 else 3)
                elif kind == "mixed":
                    self.mixed(*args)
                elif kind == "trace":
                    self.trace(*args, temperature=t)
            except Exception as e:  # a point that fails must not take the others with it
                self.write({"kind": "error", "point": [kind, *args], "error": repr(e)[:500]})
        self.write({"kind": "end"})


def full_updates(core, batch):
    """The engine's own times between the results of steps in which all sequences decode."""
    out, queue, last = [], [], None
    for s in core:
        if len(s) == 5:
            queue.append(s[2] == batch and s[3] == batch and s[4] == 0)
        elif queue:
            full = queue.pop(0)
            if full and last is not None:
                out.append(round(s[0] - last, 7))
            last = s[0] if full else None
    return out


def relative(core, t0):
    return [[round(s[0] - t0, 6), round(s[1], 6), *s[2:]] if len(s) == 5 else [round(s[0] - t0, 6)] for s in core]


def median(xs):
    xs = sorted(xs)
    return xs[len(xs) // 2] if xs else None


def watch_gpu(path):
    """Write clocks, power and temperature every 100 ms: a process of its own, for NVML's locks do not survive a fork."""
    import pynvml
    pynvml.nvmlInit()
    g = pynvml.nvmlDeviceGetHandleByIndex(0)
    with open(path, "a") as f:
        f.write(json.dumps({"name": pynvml.nvmlDeviceGetName(g), "driver": pynvml.nvmlSystemGetDriverVersion(),
                            "cuda": pynvml.nvmlSystemGetCudaDriverVersion(), "memory": pynvml.nvmlDeviceGetMemoryInfo(g).total,
                            "limit_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(g) / 1000}) + "\n")
        while True:
            f.write("%.3f,%d,%d,%.0f,%d,%d\n" % (
                time.monotonic(), pynvml.nvmlDeviceGetClockInfo(g, 1), pynvml.nvmlDeviceGetClockInfo(g, 2), pynvml.nvmlDeviceGetPowerUsage(g) / 1000,
                pynvml.nvmlDeviceGetTemperature(g, 0), pynvml.nvmlDeviceGetCurrentClocksEventReasons(g)))
            f.flush()
            time.sleep(0.1)


def gpu_memory(device=0):
    """A function that says how many bytes of the GPU are in use, or None without a GPU."""
    try:
        import pynvml
        pynvml.nvmlInit()
        g = pynvml.nvmlDeviceGetHandleByIndex(device)
        return lambda: pynvml.nvmlDeviceGetMemoryInfo(g).used
    except Exception:
        return None


def wait_for(name, pid, stop, used):
    """Wait for the process of a job, end its group, at the latest at a time, and wait until the GPU's memory is free again."""
    begun, status = time.monotonic(), None
    while status is None and time.monotonic() < stop:
        done, code = os.waitpid(pid, os.WNOHANG)
        status = code if done else None
        time.sleep(0.1)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    print(name, "status", status, "seconds", round(time.monotonic() - begun, 1), flush=True)
    for _ in range(100):
        if used is None or used() < 3e9:
            break
        time.sleep(0.1)


def run_job(job, configs, results, until, bench=Bench):
    """Work off a job in a process of its own, which ends with it."""
    os.setsid()
    log = os.open(os.path.join(results, job["name"] + ".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    random.seed(job["name"])
    try:
        bench(job, configs, results, until).run()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def digest():
    return hashlib.sha256(open(__file__, "rb").read()).hexdigest()


def plugin(state, module="steps"):
    """Make a module's hook a plugin of vLLM, for engines that are no forks."""
    info = os.path.join(state, "plugin", f"llmprof_{module}-0.dist-info")
    os.makedirs(info, exist_ok=True)
    with open(os.path.join(info, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\nName: llmprof-%s\nVersion: 0\n" % module)
    with open(os.path.join(info, "entry_points.txt"), "w") as f:
        f.write(f"[vllm.general_plugins]\nllmprof = {module}:hook\n")
    here = [os.path.dirname(info), os.path.dirname(os.path.abspath(__file__))]
    os.environ["PYTHONPATH"] = ":".join(here + os.environ.get("PYTHONPATH", "").split(":"))
    sys.path[:0] = here


def main():
    configs, state, results, seconds = sys.argv[1:4] + [float(sys.argv[4])]
    end, mine = time.monotonic() + seconds, digest()
    t = time.monotonic()
    used = gpu_memory()
    watch = os.posix_spawn(sys.executable, [sys.executable, __file__, "watch", os.path.join(results, "gpu.csv")], os.environ)
    plugin(state)
    import vllm  # noqa: F401
    import vllm.entrypoints.llm  # noqa: F401
    import vllm.v1.worker.gpu_worker  # noqa: F401
    import vllm.model_executor.models.llama  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401
    hook()
    print("imports", round(time.monotonic() - t, 1), flush=True)
    while time.monotonic() < end:
        jobs = [j for j in json.load(open(os.path.join(state, "jobs.json"))) if not os.path.exists(os.path.join(state, j["name"] + ".done"))]
        jobs = [j for j in jobs if end - time.monotonic() > j.get("least_s", 60)]
        if not jobs:
            break
        if digest() != mine:
            os.kill(watch, signal.SIGKILL)
            os.execv(sys.executable, [sys.executable, __file__, configs, state, results, str(end - time.monotonic())])
        job = jobs[0]
        open(os.path.join(state, job["name"] + ".done"), "w").close()
        if "command" in job:
            pid = os.posix_spawn("/bin/bash", ["bash", "-c", job["command"]], {**os.environ, "RESULTS": results, "CONFIGS": configs, "HERE": os.path.dirname(os.path.abspath(__file__))}, setsid=True)
        else:
            pid = os.fork()
            if pid == 0:
                run_job(job, configs, results, min(end - 4, time.monotonic() + job.get("most_s", 400)))
        wait_for(job["name"], pid, min(end, time.monotonic() + job.get("most_s", 400) + 20), used)
    os.kill(watch, signal.SIGKILL)
    print("finished", flush=True)
    open(os.path.join(state, "finished"), "w").close()


if __name__ == "__main__":
    watch_gpu(sys.argv[2]) if sys.argv[1] == "watch" else main()
