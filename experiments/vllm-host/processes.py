#!/usr/bin/env python3
"""Time prompts and decode steps of many processes of vLLM on one machine.

    processes.py CONFIGS RESULTS SECONDS WAVE MODEL[:LAYERS][@WEIGHTS][/TP][+]...

So many processes as WAVE says start together, for a start takes a minute. Once all of them are ready, one after the other measures
while the rest wait, ROUNDS times in turn, so that what differs from process to process is told from what differs from minute to
minute. LENGTHS and BATCHES choose the points. With a + it writes traces of prompts too, with PyTorch's operators where OPERATORS is set. A
model of SMALL is a mixture of its family with other sizes. RESULTS gets a file of JSON lines for each process, as of experiments/vllm/steps.py.
"""
import fcntl
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "vllm"))
import steps  # noqa: E402

LENGTHS = [int(n) for n in os.environ.get("LENGTHS", "32 128 256 384 512 520 768 1024").split()]
BATCHES = [int(n) for n in os.environ.get("BATCHES", "1 16 64").split()]
ROUNDS = int(os.environ.get("ROUNDS", 3))
SMALL = {
    "gpt-oss-small": ("gpt-oss-20b", {"hidden_size": 1024, "intermediate_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 4,
                                      "num_local_experts": 16}),
    "qwen3-moe-small": ("qwen3-30b-a3b", {"hidden_size": 1024, "moe_intermediate_size": 512, "num_hidden_layers": 12, "num_attention_heads": 16, "num_experts": 32}),
}


class Process(steps.Bench):
    """An engine that measures when it is its turn."""

    def run(self):
        self.warm(0.0)
        pathlib.Path(self.results, self.job["name"] + ".ready").touch()
        while not all(pathlib.Path(self.results, name + ".ready").exists() for name in self.job["wave"]) and self.left(30):
            time.sleep(0.2)
        for n in range(ROUNDS):
            with open(os.path.join(self.results, "turn"), "a") as turn:
                fcntl.flock(turn, fcntl.LOCK_EX)
                self.write({"kind": "round", "round": n, "time": time.time()})
                for length in LENGTHS:
                    self.prompts(1, length, repeats=8)
                for batch in BATCHES:
                    self.decode(batch, 128, repeats=2)
                fcntl.flock(turn, fcntl.LOCK_UN)
                time.sleep(0.3)  # another one's turn
        for length in self.job["traces"]:
            self.trace(f"prompt-{length}", 1, 0, True, length)
        self.write({"kind": "end"})


def job(folder, wave, number, name):
    """Write the model's folder, with fewer layers where the name says so, and return the process's job."""
    traced = name.endswith("+")
    name, _, tp = name.removesuffix("+").partition("/")
    name, _, weights = name.partition("@")
    model, _, layers = name.partition(":")
    base, sizes = SMALL.get(model, (model, {}))
    config = json.loads(pathlib.Path(folder, base, "config.json").read_text()) | sizes
    config["num_hidden_layers"] = int(layers or config["num_hidden_layers"])
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:config["num_hidden_layers"]]
    label = f"{model}-{config['num_hidden_layers']}"
    path = pathlib.Path(folder, label if layers or sizes else model)
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    args = {"max_model_len": max(2048, max(LENGTHS) + 256), "tensor_parallel_size": int(tp or 1), "kv_cache_memory_bytes": 2 << 30, "gpu_memory_utilization": 0.1,
            **({"quantization": weights} if weights else {}), **json.loads(os.environ.get("ARGS", "{}"))}
    weights = weights or ("mxfp4" if "gpt-oss" in model else "bf16")
    return {"name": f"{wave}-{number}-{label}" + ("-" + weights if weights == "fp8" else "") + ("-tp" + tp if tp else ""), "model": path.name, "weights": weights, "args": args,
            "traces": [256, 768] if traced else []}


def start(job, configs, results, until):
    pid = os.fork()
    if pid == 0:
        steps.run_job(job, configs, results, until, Process)
    return pid


def run(jobs, configs, results, until):
    """Run the processes of a wave to their end. One that fails holds up none of the others."""
    running = {start(j, configs, results, until - 4): j["name"] for j in jobs}
    every = list(running)
    while running and time.monotonic() < until:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            name = running.pop(pid)
            print(name, "status", status, flush=True)
            pathlib.Path(results, name + ".ready").touch()
        time.sleep(0.05)
    for pid in every:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def main():
    configs, results, seconds, size, *models = sys.argv[1:]
    end, size = time.monotonic() + float(seconds), int(size)
    os.makedirs(results, exist_ok=True)
    watcher = os.fork()
    if watcher == 0:
        steps.watch_gpu(os.path.join(results, "gpu.csv"))
    used = steps.gpu_memory()
    steps.plugin(results)
    import vllm  # noqa: F401
    import vllm.entrypoints.llm  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401
    steps.hook()
    if "OPERATORS" in os.environ:
        steps.KEEP.add("cpu_op")
    for wave in range(0, len(models), size):
        if end - time.monotonic() < 90:
            break
        jobs = [job(configs, wave // size, n, name) for n, name in enumerate(models[wave:wave + size])]
        for j in jobs:
            j["wave"] = [other["name"] for other in jobs]
        begun = time.monotonic()
        run(jobs, configs, results, end)
        print(f"wave {wave // size}: {time.monotonic() - begun:.0f} s", flush=True)
        for _ in range(100):
            if used is None or used() < 3e9:
                break
            time.sleep(0.1)
    os.kill(watcher, signal.SIGKILL)


main()
