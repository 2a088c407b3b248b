#!/usr/bin/env python3
"""Measures steps and power of a model of a few layers by vLLM 0.33: job.py NAME FOLDER OUT TURNS SECONDS [JSON of arguments]

It starts the engine, writes TURNS/NAME.ready, waits for TURNS/NAME.go, measures for at most SECONDS, and writes TURNS/NAME.done.
OUT/NAME.jsonl gets one line a point.
"""
import importlib.util
import json
import os
import pathlib
import random
import time

import probe

source = pathlib.Path(__file__).parent.parent / "h200-hybrids" / "job.py"
spec = importlib.util.spec_from_file_location("hybrids", source)
hybrids = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hybrids)
write = hybrids.write


def power(r, until):
    for rows in (8, 1, 32, 128, 4, 16, 64, 512, 2048, 8192):
        for what in ("experts", "gemms"):
            if time.monotonic() > until:
                return
            try:
                write(kind="watts", what=what, rows=rows, **r.rpc(probe.watts, rows, 1.3, what))
            except Exception as x:
                write(kind="error", what=what, rows=rows, error=repr(x)[:1500])


def steps(r, until):
    """Times and power of decode steps: the energy is that of the second half of the run's tokens."""
    for batch in (8, 1, 32, 128):
        if time.monotonic() > until:
            return
        r.run(batch, 128, 100)
        begun, before = r.rpc(probe.energy)
        log = r.run(batch, 128, 1200 if batch <= 8 else 600)
        ended, after = r.rpc(probe.energy)
        last = max(ts[0] for ts in log)
        times = sorted({t for ts in log for t in ts if t > last})
        write(kind="tpot", batch=batch, prompt=128, gen=len(log[0]), tail=round((times[-1] - times[0]) / (len(times) - 1), 7),
              watts=round((after - before) / (ended - begun), 1), seconds=round(ended - begun, 3))


def mixed(r, until):
    """Time of a step that decodes some sequences and takes one whole prompt, a prompt in every step."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind
    prompt_of = lambda n: {"prompt_token_ids": random.choices(range(10, r.vocab), k=n)}
    params = lambda n: SamplingParams(temperature=0.0, max_tokens=n, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA)
    for decodes, prompt in ((0, 1024), (16, 1024), (16, 128), (16, 512), (64, 1024), (16, 2048), (16, 4096), (0, 128), (1, 1024)):
        for count in (6, 24):  # the first compiles
            if time.monotonic() > until:
                return
            for _ in range(decodes):
                r.n += 1
                r.engine.add_request(f"d{r.n}", prompt_of(128), params(count + 30))
            for _ in range(8):
                if decodes:
                    r.engine.step()
            times = []
            for _ in range(count):
                r.n += 1
                r.engine.add_request(f"p{r.n}", prompt_of(prompt), params(1))
                r.engine.step()
                times.append(time.monotonic())
            while r.engine.has_unfinished_requests():
                r.engine.step()
        gaps = sorted(b - a for a, b in zip(times[4:], times[5:]))
        write(kind="mixed", decodes=decodes, prompt=prompt, mean=round(sum(gaps) / len(gaps), 7), median=round(gaps[len(gaps) // 2], 7))


def main():
    r = hybrids.Runner(hybrids.start())
    r.run(1, 64, 4)
    write(kind="engine", start_s=round(time.monotonic() - hybrids.started, 1), args=hybrids.args)
    hybrids.mark("ready")
    while not os.path.exists(os.path.join(hybrids.turns, hybrids.name + ".go")):
        time.sleep(0.1)
    begun = time.monotonic()
    total = float(hybrids.seconds)
    done = {"experts": ((power, 1.0),), "whole": ((steps, 1.0),)}
    parts = done.get(hybrids.name.split("-")[0], ((mixed, 0.5), (steps, 0.7), (hybrids.traces, 1.0)))
    for what, share in parts:
        try:
            what(r, begun + share * total)
        except Exception as x:
            write(kind="error", what=what.__name__, error=repr(x)[:1500])
    write(kind="end", measured_s=round(time.monotonic() - begun, 1))


if __name__ == "__main__":
    try:
        main()
    except BaseException as x:
        write(kind="error", what="main", error=repr(x)[:1500])
    hybrids.mark("ready")
    hybrids.mark("done")
    os._exit(0)
