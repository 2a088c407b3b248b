#!/usr/bin/env python3
"""Measures one model with random weights by SGLang 0.5.23: job.py NAME FOLDER OUT TURNS SECONDS 'POINTS' TRACES [JSON of arguments]

POINTS are batch x prompt pairs ("1x128 8x1024"). The job starts the engine, writes TURNS/NAME.ready, waits for TURNS/NAME.go, measures for at
most SECONDS, and writes TURNS/NAME.done. OUT/NAME.jsonl gets one line a point; with TRACES 1 PyTorch's profiler writes traces of some of them.
"""
import asyncio
import json
import os
import random
import sys
import time

GEN = 65
PREFIXES = ((1, 4096, 0), (1, 4096, 2048), (1, 4096, 3840), (8, 1024, 0), (8, 1024, 512), (8, 1024, 896), (32, 1024, 896))  # batch, prompt, tokens in the cache


class Job:
    def __init__(self, name, folder, out, turns, seconds):
        self.name, self.folder, self.out, self.turns, self.seconds = name, folder, out, turns, float(seconds)
        self.begun = time.monotonic()
        self.file = open(os.path.join(out, name + ".jsonl"), "a")

    def write(self, **row):
        self.file.write(json.dumps({"job": self.name, "engine": "sglang", "t": round(time.monotonic() - self.begun, 2), **row}) + "\n")
        self.file.flush()

    def mark(self, what):
        open(os.path.join(self.turns, f"{self.name}.{what}"), "w").close()

    def start(self, args):
        import sglang as sgl
        kw = {"load_format": "dummy", "skip_tokenizer_init": True, "disable_radix_cache": True, "sampling_backend": "pytorch", "log_level": "info",
              "random_seed": 0, "mem_fraction_static": 0.93, "max_total_tokens": 160000, "max_running_requests": 128, **args}
        self.radix = not kw["disable_radix_cache"]
        self.engine = sgl.Engine(model_path=self.folder, **kw)
        self.loop = getattr(self.engine, "loop", None) or asyncio.get_event_loop()
        self.write(kind="engine", start_s=round(time.monotonic() - self.begun, 1), args=args)

    def run(self, batch, prompt, gen):
        """Seconds from sending until each token of each of batch sequences."""
        return self.run_prompts([random.choices(range(10, 30000), k=prompt) for _ in range(batch)], gen)

    def run_prompts(self, prompts, gen):
        log = {}

        async def go():
            sent = time.monotonic()
            chunks = await self.engine.async_generate(
                input_ids=prompts, sampling_params=[{"temperature": 0.0, "max_new_tokens": gen, "ignore_eos": True}] * len(prompts), stream=True)
            async for c in chunks:
                i, t, n = c.get("index", 0), time.monotonic() - sent, c["meta_info"]["completion_tokens"]
                have = log.setdefault(i, [])
                have.extend([t] * (n - len(have)))
            return time.monotonic() - sent

        wall = self.loop.run_until_complete(go())
        return list(log.values()), wall

    def point(self, batch, prompt):
        self.run(batch, prompt, 12)  # compiles what this shape needs
        self.run(batch, prompt, 2)
        rows = []
        for _ in range(5 if batch * prompt <= 20000 else 2):
            log, wall = self.run(batch, prompt, GEN)
            first = sorted(ts[0] for ts in log)
            rows.append({"ttft": sum(first) / len(first), "ttft_first": first[0], "ttft_last": first[-1], "wall": wall})
        self.write(kind="point", batch=batch, prompt=prompt, gen=GEN, repeats=rows)

    def prefix(self, batch, prompt, shared):
        """TTFT and steps of prompts whose first tokens lie in the radix cache."""
        rows = []
        for repeat in range(6):  # the first compiles what this shape needs
            start = random.choices(range(10, 30000), k=shared)
            if shared:
                self.run_prompts([start + random.choices(range(10, 30000), k=8)], 1)
            log, wall = self.run_prompts([start + random.choices(range(10, 30000), k=prompt - shared) for _ in range(batch)], 17)
            first = sorted(ts[0] for ts in log)
            if repeat:
                rows.append({"ttft_first": first[0], "ttft_last": first[-1], "wall": wall})
        self.write(kind="prefix", batch=batch, prompt=prompt, shared=shared, gen=17, repeats=rows)

    def trace(self, batch, prompt, gen):
        self.run(batch, prompt, gen)
        folder = os.path.join(self.out, f"{self.name}-b{batch}-p{prompt}-g{gen}")
        self.engine.start_profile(output_dir=folder, activities=["CPU", "GPU"], with_stack=False, record_shapes=False)
        self.run(batch, prompt, gen)
        self.engine.stop_profile()
        self.write(kind="trace", batch=batch, prompt=prompt, gen=gen, files={f: os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)})

    def tasks(self, points, traces):
        shared = [(self.prefix, p) for p in PREFIXES if self.radix]
        return shared + [(self.point, p) for p in points] + [(self.trace, p) for p in ((1, 1024, 1), (1, 128, 6), (8, 128, 6), (32, 128, 6), (128, 128, 6),
                                                                             (1, 8192, 1), (8, 1024, 1)) if traces]


def main():
    job = Job(*sys.argv[1:6])
    points = [tuple(map(int, p.split("x"))) for p in sys.argv[6].split()]
    try:
        job.start(json.loads(sys.argv[8]) if len(sys.argv) > 8 else {})
        job.run(1, 64, 8)
        job.mark("ready")
        while not os.path.exists(os.path.join(job.turns, job.name + ".go")):
            time.sleep(0.1)
        begun = time.monotonic()
        for task, what in job.tasks(points, sys.argv[7] == "1"):
            if time.monotonic() - begun > job.seconds:
                job.write(kind="skipped", task=task.__name__, what=what)
                continue
            try:
                task(*what)
            except Exception as x:
                job.write(kind="error", task=task.__name__, what=what, error=repr(x)[:600])
        job.write(kind="end", measured_s=round(time.monotonic() - begun, 1))
    except BaseException as x:
        job.write(kind="error", task="start", error=repr(x)[:800])
    job.mark("ready")
    job.mark("done")
    os._exit(0)


if __name__ == "__main__":
    main()
