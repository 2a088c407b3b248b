#!/usr/bin/env python3
"""Measure one engine with dummy weights: bench.py ENGINE NAME FOLDER OUT SECONDS 'POINTS' [JSON of arguments]

POINTS are batch x prompt pairs ("1x128 8x1024"). OUT/NAME.jsonl gets one line a point, OUT/NAME.log the engine's log. With "turns": FOLDER among the
arguments the engine says by FOLDER/NAME.ready that it has started, and measures once there is FOLDER/NAME.go; SECONDS count from there.
"""
import json
import os
import random
import sys
import time

engine, name, folder, out, seconds, points = sys.argv[1:7]
args = json.loads(sys.argv[7]) if len(sys.argv) > 7 else {}
gen, temperature, turns = args.pop("gen", 129), args.pop("temperature", 0.0), args.pop("turns", None)
begun = time.monotonic()
points = [tuple(map(int, p.split("x"))) for p in points.split()]
file = None


def write(**row):
    global file
    file = file or open(os.path.join(out, name + ".jsonl"), "a")
    file.write(json.dumps({"job": name, "engine": engine, "t": round(time.monotonic() - begun, 2), **row}) + "\n")
    file.flush()


def left(s):
    return time.monotonic() - begun < float(seconds) - s


def meter():
    """Total energy in J, clock in MHz, power in W of each GPU in use, or nothing."""
    try:
        import pynvml
        pynvml.nvmlInit()
        ids = [int(i) for i in os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")]
        hs = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in ids]
        return lambda: [(pynvml.nvmlDeviceGetTotalEnergyConsumption(h) / 1000, pynvml.nvmlDeviceGetClockInfo(h, 1)) for h in hs]
    except Exception:
        return lambda: []


class VLLM:
    def __init__(self):
        from vllm import LLM
        kw = {"load_format": "dummy", "skip_tokenizer_init": True, "seed": 0, "max_num_batched_tokens": 8192, "enable_prefix_caching": False,
              "additional_config": {"gdn_prefill_backend": "triton"}, "disable_log_stats": True, **args}
        self.llm = LLM(model=folder, **kw)
        self.engine = self.llm.llm_engine
        self.n = 0
        c = self.engine.vllm_config
        write(kind="engine", start_s=round(time.monotonic() - begun, 1), args=args, blocks=c.cache_config.num_gpu_blocks, block_size=c.cache_config.block_size,
              graphs=str(c.compilation_config.cudagraph_mode), sizes=c.compilation_config.cudagraph_capture_sizes, asynchronous=c.scheduler_config.async_scheduling,
              max_num_seqs=c.scheduler_config.max_num_seqs, max_model_len=c.model_config.max_model_len)
        self.vocab = min(c.model_config.get_vocab_size(), 30000)

    def run(self, batch, prompt, gen):
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        prompts = [random.choices(range(10, self.vocab), k=prompt) for _ in range(batch)]
        p = SamplingParams(temperature=temperature, max_tokens=gen, ignore_eos=True, detokenize=False, output_kind=RequestOutputKind.DELTA)
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


class SGLang:
    def __init__(self):
        import sglang as sgl
        kw = {"load_format": "dummy", "skip_tokenizer_init": True, "disable_radix_cache": True, "sampling_backend": "pytorch", "log_level": "info", "random_seed": 0, **args}
        self.engine = sgl.Engine(model_path=folder, **kw)
        write(kind="engine", start_s=round(time.monotonic() - begun, 1), args=args)
        self.vocab = 30000

    def run(self, batch, prompt, gen):
        import asyncio
        prompts = [random.choices(range(10, self.vocab), k=prompt) for _ in range(batch)]
        log = {}

        async def go():
            sent = time.monotonic()
            gens = await self.engine.async_generate(input_ids=prompts, sampling_params=[{"temperature": temperature, "max_new_tokens": gen, "ignore_eos": True}] * batch, stream=True)
            async for c in gens:
                i, t = c.get("index", 0), time.monotonic() - sent
                n = c["meta_info"]["completion_tokens"]
                have = log.setdefault(i, [])
                have.extend([t] * (n - len(have)))

        loop = getattr(self.engine, "loop", None) or asyncio.get_event_loop()
        loop.run_until_complete(go())
        return list(log.values())


def main():
    e = {"vllm": VLLM, "sglang": SGLang}[engine]()
    read = meter()
    e.run(1, 64, 8)
    if turns:
        wait()
    for batch, prompt in points:
        try:
            if not left(4):
                write(kind="skipped", batch=batch, prompt=prompt)
                continue
            e.run(batch, prompt, 12)  # compiles what this shape needs
            e.run(batch, prompt, 2)
            rows = []
            tokens = batch * prompt
            for _ in range(5 if tokens <= 20000 else 3 if tokens <= 140000 else 2):
                if rows and not left(2):
                    break
                before, t0 = read(), time.monotonic()
                log = e.run(batch, prompt, gen)
                wall, after = time.monotonic() - t0, read()
                first = sorted(ts[0] for ts in log)
                rows.append({"ttft": sum(first) / len(first), "ttft_first": first[0], "ttft_last": first[-1], "wall": wall,
                             "tpot": sum((ts[-1] - ts[0]) / (len(ts) - 1) for ts in log) / len(log) if gen > 1 else None,
                             "tail": decoding(log, first[-1]), "joules": [round(b[0] - a[0], 2) for a, b in zip(before, after)], "mhz": [b[1] for b in after]})
            write(kind="point", batch=batch, prompt=prompt, gen=gen, repeats=rows)
        except Exception as x:
            write(kind="error", batch=batch, prompt=prompt, error=repr(x)[:600])
    write(kind="end")


def wait():
    """Waits until it is this engine's turn."""
    global begun
    open(os.path.join(turns, name + ".ready"), "w").close()
    while not os.path.exists(os.path.join(turns, name + ".go")):
        time.sleep(0.1)
    begun = time.monotonic()


def decoding(log, after):
    """Seconds a step while all sequences decode."""
    times = sorted({t for ts in log for t in ts if t > after})
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 2 else None


if __name__ == "__main__":
    main()
    os._exit(0)
