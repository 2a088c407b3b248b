#!/usr/bin/env python3
"""Time the launches of prompts by an engine whose thread stays on one processor: pinned.py CONFIGS RESULTS MODEL, or pinned.py RESULTS.jsonl PROBE.csv

The first form measures on a GPU machine, beside experiments/sglang/probe.py: prompts of 1024 tokens, one at a time, with the engine's thread
free to move, on one processor, and on one while another processor is kept busy. The second says what came out.
"""
import collections
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ALONE = (2, 3, 6, 7, 12, 13)
BESIDE = ((6, 7), (6, 14), (7, 6), (12, 13), (12, 4))


def engine():
    """The process of vLLM's engine."""
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if b"EngineCore" in (p / "cmdline").read_bytes() or "EngineCore" in (p / "comm").read_text():
                return int(p.name)
        except OSError:
            pass
    sys.exit("no process of vLLM's engine runs")


def pin(pid, cpu, away=8):
    """Keep the engine's first thread on a processor, its others off it and the client so far away; None lets all of them move."""
    every = set(range(os.cpu_count()))
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        try:
            os.sched_setaffinity(thread, every if cpu is None else {cpu} if thread == pid else every - {cpu})
        except ProcessLookupError:
            pass
    os.sched_setaffinity(0, every if cpu is None else {(cpu + away) % len(every)})


def measure(configs, results, model):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "vllm"))
    import steps

    class Process(steps.Bench):
        def launches(self, what, n):
            rows = []
            for _ in range(n):
                self.steps()
                self.request("real", self.tokens(1024), 1, 0.0)
                self.finish({})
                begun = [s[0] for s in self.steps() if len(s) > 1]
                rows.append(round(1e3 * (begun[1] - begun[0]), 2))
            self.write({"kind": "series", "what": what, "launch_ms": rows})

        def run(self):
            self.warm(0.0)
            pid = engine()
            for _ in range(2):
                pin(pid, None)
                self.launches("free", 120)
                for cpu in ALONE:
                    pin(pid, cpu)
                    self.launches(f"pinned to {cpu}", 60)
                for cpu, other in BESIDE:
                    busy = subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{other}}})\nwhile True: pass"])
                    time.sleep(0.1)
                    pin(pid, cpu, 3)
                    self.launches(f"pinned to {cpu}, {other} busy", 60)
                    busy.kill()
            pin(pid, None)

    os.makedirs(results, exist_ok=True)
    steps.plugin(results)
    import vllm  # noqa: F401
    steps.hook()
    args = {"max_model_len": 2048, "kv_cache_memory_bytes": 2 << 30, "gpu_memory_utilization": 0.1}
    steps.run_job({"name": "pinned", "model": model, "weights": "bf16", "args": args}, configs, results, time.monotonic() + 200, Process)


def say(results, probe):
    for line in open(results):
        row = json.loads(line)
        if row["kind"] == "series":
            ms = sorted(row["launch_ms"])
            print(f"{row['what']}: {ms[0]:.1f} to {ms[-1]:.1f} ms, median {statistics.median(ms):.1f}; {100 * sum(x > 19 for x in ms) / len(ms):.0f} % beyond 19 ms")
    count = collections.Counter(int(float(r["processor_us"]) // 100) * 100 for r in csv.DictReader(open(probe)))
    print("probe, processor time in us: " + ", ".join(f"{n} from {us}" for us, n in sorted(count.items())))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        measure(*sys.argv[1:])
    elif len(sys.argv) == 3:
        say(*sys.argv[1:])
    else:
        sys.exit(__doc__)
