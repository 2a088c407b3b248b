#!/usr/bin/env python3
"""Measures one model with random weights by vLLM 0.33: job.py NAME FOLDER OUT TURNS SECONDS [JSON of arguments]

It starts the engine, writes TURNS/NAME.ready, waits for TURNS/NAME.go, measures for at most SECONDS, and writes TURNS/NAME.done.
OUT/NAME.jsonl gets one line a point.
"""
import json
import os
import random
import sys
import time

import hostprobe

name, folder, out, turns, seconds = sys.argv[1:6]
args = json.loads(sys.argv[6]) if len(sys.argv) > 6 else {}
started = time.monotonic()
file = open(os.path.join(out, name + ".jsonl"), "a")


def write(**row):
    file.write(json.dumps({"job": name, "t": round(time.monotonic() - started, 2), **row}) + "\n")
    file.flush()


def mark(what):
    open(os.path.join(turns, f"{name}.{what}"), "w").close()


def start():
    from vllm import LLM
    kw = {"load_format": "dummy", "skip_tokenizer_init": True, "seed": 0, "max_num_batched_tokens": 8192, "enable_prefix_caching": False, "max_num_seqs": 128,
          "max_model_len": 10000, "gpu_memory_utilization": 0.02, "kv_cache_memory_bytes": 3 << 29, "additional_config": {"gdn_prefill_backend": "triton"},
          "disable_log_stats": True, **args}
    if not kw.get("enforce_eager"):
        kw["compilation_config"] = {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]}
    return LLM(model=folder, **kw)


class Runner:
    def __init__(self, llm):
        self.llm, self.engine, self.n = llm, llm.llm_engine, 0
        self.vocab = min(self.engine.vllm_config.model_config.get_vocab_size(), 30000)

    def run(self, batch, prompt, gen):
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        prompts = [random.choices(range(10, self.vocab), k=prompt) for _ in range(batch)]
        p = SamplingParams(temperature=0.0, max_tokens=gen, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA)
        sent, log = time.monotonic(), {}
        for tokens in prompts:
            self.n += 1
            self.engine.add_request(f"r{self.n}", {"prompt_token_ids": tokens}, p)
        while self.engine.has_unfinished_requests():
            outs = self.engine.step()
            t = time.monotonic()
            for o in outs:
                log.setdefault(o.request_id, []).extend([t - sent] * len(o.outputs[0].token_ids))
        return list(log.values())

    def rpc(self, f, *a):
        return json.loads(self.llm.collective_rpc(f, args=a)[0])


def points(r, until):
    eager = bool(args.get("enforce_eager"))
    shapes = [(1, 128, 12), (1, 1024, 12), (1, 512, 8), (1, 2048, 8), (1, 8192, 5), (8, 1024, 6), (8, 128, 6), (32, 1024, 3)]
    for batch, prompt, repeats in shapes[:6] if eager else shapes:
        if time.monotonic() > until:
            return
        r.run(batch, prompt, 2), r.run(batch, prompt, 1)
        rows = []
        for _ in range(repeats):
            first = sorted(ts[0] for ts in r.run(batch, prompt, 1))
            rows.append([round(t, 6) for t in (first if batch <= 8 else first[:: batch // 8])])
            if time.monotonic() > until:
                break
        write(kind="ttft", batch=batch, prompt=prompt, first=rows)
    for batch in (1, 8, 32):
        if time.monotonic() > until:
            return
        r.run(batch, 128, 12)
        tails = []
        for _ in range(2):
            log = r.run(batch, 128, 33)
            last = max(ts[0] for ts in log)
            times = sorted({t for ts in log for t in ts if t > last})
            tails.append(round((times[-1] - times[0]) / (len(times) - 1), 7))
        write(kind="tpot", batch=batch, prompt=128, tail=tails)


def instrumented(r, until):
    write(kind="install", **r.rpc(hostprobe.install))
    try:
        for batch, prompt, gen in ((1, 128, 1), (1, 1024, 1), (1, 8192, 1), (8, 1024, 1), (1, 128, 17)):
            if time.monotonic() > until:
                return
            r.run(batch, prompt, gen)
            r.rpc(hostprobe.reset)
            for _ in range(8 if prompt < 8192 else 4):
                r.run(batch, prompt, gen)
            write(kind="host", batch=batch, prompt=prompt, gen=gen, **r.rpc(hostprobe.dump))
    finally:
        r.rpc(hostprobe.uninstall)


def traces(r, until):
    for batch, prompt, gen in ((1, 1024, 1), (1, 128, 1), (8, 1024, 1), (1, 8192, 1), (1, 128, 4), (32, 128, 4), (128, 128, 4)):
        if time.monotonic() > until:
            return
        r.run(batch, prompt, gen)
        r.rpc(hostprobe.profile)
        r.run(batch, prompt, gen)
        path = os.path.join(out, f"{name}-b{batch}-p{prompt}-g{gen}.json.gz")
        r.rpc(hostprobe.profile, path)
        write(kind="trace", batch=batch, prompt=prompt, gen=gen, bytes=os.path.getsize(path) if os.path.exists(path) else 0)


def main():
    r = Runner(start())
    c = r.engine.vllm_config
    r.run(1, 64, 4)
    write(kind="engine", start_s=round(time.monotonic() - started, 1), args=args, v2=c.use_v2_model_runner, mode=str(c.compilation_config.mode),
          graphs=str(c.compilation_config.cudagraph_mode), custom_ops=c.compilation_config.custom_ops, splitting=c.compilation_config.splitting_ops,
          sizes=c.compilation_config.cudagraph_capture_sizes, asynchronous=c.scheduler_config.async_scheduling)
    mark("ready")
    while not os.path.exists(os.path.join(turns, name + ".go")):
        time.sleep(0.1)
    begun = time.monotonic()
    until = begun + float(seconds)
    for what, share in ((points, 0.45), (instrumented, 0.65), (traces, 1.0)):
        try:
            write(kind="pace", **r.rpc(hostprobe.pace))
            what(r, begun + share * float(seconds))
        except Exception as x:
            write(kind="error", what=what.__name__, error=repr(x)[:800])
    try:
        write(kind="aten", **r.rpc(hostprobe.aten))
    except Exception as x:
        write(kind="error", what="aten", error=repr(x)[:800])
    write(kind="end", measured_s=round(time.monotonic() - begun, 1), over=time.monotonic() > until)


if __name__ == "__main__":
    try:
        main()
    except BaseException as x:
        write(kind="error", what="main", error=repr(x)[:800])
    mark("ready")
    mark("done")
    os._exit(0)
