"""Runs passes of a loaded model with its workload."""

import gc
import os
from collections.abc import Callable
from typing import Any

import torch

from . import sizes
from .caches import Snapshot
from .failures import Failure
from .finite import explain, is_finite
from .loading import SPREAD, chooses, load_model
from .pipe import Channel, now
from .prompts import make_prompts
from .ranks import Rank
from .steps import TIMER, Stepper

PHASES = ("prefill", "decode", "request")
ANCHOR = "llmprof clock"


class Session:
    """Is one model, loaded for one workload."""

    def __init__(self, load: dict[str, Any], rank: Rank) -> None:
        begin = now()
        self.load, self.rank = load, rank
        self.check()
        self.rank.join()
        self.loaded = load_model(load, self.rank)
        self.device = self.loaded.device
        if load["graph"] and self.device.type != "cuda":
            raise Failure("unsupported", "a CUDA graph needs a GPU: ask for eager decoding on the CPU")
        vocab = self.loaded.model.config.get_text_config().vocab_size
        self.prompts = make_prompts(load, vocab)
        self.prompt_len = self.prompts[0].shape[1]
        if self.device.type == "cuda":
            self.prompts = [prompt.pin_memory() for prompt in self.prompts]
        self.stepper = Stepper(self.loaded.model, load, self.device, self.prompt_len)
        self.base: Any = None  # This Snapshot is of the cache with the prompt in it.
        self.first: Any = None  # This is the token after the prompt.
        self.synchronize()
        self.load_s = (now() - begin) / 1e9
        self.try_out()

    def check(self) -> None:
        asked = self.load.get("tp") or 1
        if asked != self.rank.world:
            raise Failure("invalid", f"TP {asked} was asked for, torchrun started {self.rank.world} ranks")

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @torch.inference_mode()
    def try_out(self) -> None:
        """Runs one prefill and a step, so that a model that cannot run fails now and the notes are complete."""
        self.first_step("the prefill", self.try_prefill)
        if not self.load["compile"]:
            with self.stepper.decoding():
                self.first_step("the first decode step", self.stepper.step)
        self.stepper.release()
        self.synchronize()

    def try_prefill(self) -> None:
        self.stepper.clear()
        self.stepper.prefill(self.prompts[0])

    def first_step(self, name: str, step: Callable[[], Any]) -> None:
        """Runs a step, and checks that its logits are finite."""
        sound: list[bool] = []
        forward = self.stepper.prefill_forward
        forward.watch = lambda logits: sound.append(is_finite(logits))
        try:
            step()
        finally:
            forward.watch = None
        if all(self.rank.gather(all(sound))):
            return
        reasons = self.rank.gather(explain(self.loaded.model, self.load["dtype"], self.try_prefill))
        raise Failure("invalid", f"the logits of {name} are NaN or infinite: {reasons[0]}")

    def ready(self) -> dict[str, Any]:
        model, stepper = self.loaded.model, self.stepper
        notes = list(self.loaded.notes)
        if not stepper.prefill_forward.keeps_last and not self.load.get("all_logits"):
            notes.append("this model has no way to leave out logits: the LM head runs on every position of the prompt")
        if self.load["random_weights"] and chooses(model.config):
            notes.append(
                f"random embeddings have a deviation of {SPREAD:.0f}, so that the tokens of a random mixture "
                "choose experts evenly, as trained ones are made to"
            )
        if stepper.static:
            notes.append("a static cache: attention in prefill and decode reads its whole length under a mask")
        threads = {"threads": str(torch.get_num_threads())} if self.device.type == "cpu" else {}
        return {
            "devices": self.rank.gather(describe_device(self.device)),
            "load_s": self.load_s,
            "timer": TIMER,
            "options": {
                "attention": str(getattr(model.config, "_attn_implementation", "")),
                "cache": "static" if stepper.static else "dynamic",
                "compile": str(bool(self.load["compile"])).lower(),
                "dtype": self.load["dtype"],
                "graph": str(bool(self.load["graph"])).lower(),
                "model_class": type(model).__name__,
                "sampling": "greedy",
                **threads,
            },
            "notes": notes,
            "params": self.loaded.params,
            "prompt_len": self.prompt_len,
        }

    @torch.inference_mode()
    def prepare(self, phase: str) -> None:
        """Prepares a phase once: puts the prompt into the cache and captures the graph."""
        if phase not in PHASES:
            raise Failure("invalid", f"no phase {phase!r}: there are {', '.join(PHASES)}")
        if phase == "decode" and self.load["gen_len"] < 2:
            raise Failure("invalid", "one generated token needs no decode step: ask for 2 or more")
        if phase == "decode" and self.base is None:
            self.fill()
            self.base, self.first = Snapshot(self.stepper.cache), self.stepper.ids.clone()
        elif phase == "request" and self.stepper.wants_graph and self.stepper.graph is None:
            self.fill()
        if phase in ("prefill", "request"):
            self.base = None
        self.synchronize()

    def fill(self) -> None:
        """Puts the first prompt into the cache, and captures the step after it."""
        self.stepper.clear()
        self.stepper.prefill(self.prompts[0])
        self.stepper.capture()

    @torch.inference_mode()
    def run(self, run: dict[str, Any], channel: Channel) -> None:
        self.prepare(run["phase"])
        gc.collect()
        begin = now()
        done = 0
        gc.disable()
        try:
            while self.goes_on(run, done, begin, channel):
                channel.send_all(self.one_pass(run["phase"], done))
                done += 1
        finally:
            gc.enable()
        channel.send("done", passes=done, begin_ns=begin, end_ns=now())

    def goes_on(self, run: dict[str, Any], done: int, begin: int, channel: Channel) -> bool:
        """Reports whether there is another pass, which rank 0 decides for all."""

        def decide() -> bool:
            enough = done >= run["passes"] and now() - begin >= run["seconds"] * 1e9
            return not enough and not channel.stopped.is_set()

        return self.rank.share(decide)

    def one_pass(self, phase: str, index: int) -> list[tuple[str, dict[str, Any]]]:
        """Runs a pass and returns its events."""
        events: list[tuple[str, dict[str, Any]]] = []
        stepper = self.stepper
        if phase == "decode":
            self.base.restore()
            stepper.feed(self.first)
        else:
            stepper.clear()
        self.synchronize()
        begin = now()
        with stepper.annotate(f"{phase} pass {index}"):
            if phase != "decode":
                times = stepper.prefill(self.prompts[index % len(self.prompts)])
                self.record(events, phase, index, 0, 0, times)
            if phase != "prefill":
                with stepper.decoding():
                    self.decode(events, phase, index)
        events.append(("pass", {"pass": index, "begin_ns": begin, "end_ns": now()}))
        return events

    def decode(self, events: list[tuple[str, dict[str, Any]]], phase: str, index: int) -> None:
        frozen = phase == "decode" and bool(self.load.get("frozen_context"))
        for step in range(1, self.load["gen_len"]):
            context = self.prompt_len + (0 if frozen else step - 1)
            times = self.stepper.decode(step)
            self.record(events, phase, index, step, context, times)
            if frozen:
                self.base.restore()
                self.stepper.position.fill_(self.prompt_len)

    def record(
        self,
        events: list[tuple[str, dict[str, Any]]],
        phase: str,
        index: int,
        step: int,
        context: int,
        times: tuple[int, int, float | None],
    ) -> None:
        start, end, device_s = times
        at = {"phase": phase, "pass": index, "index": step, "context": context}
        events.append(("step", {**at, "start_ns": start, "end_ns": end, "device_s": device_s}))
        token: dict[str, Any] = {"pass": index, "index": step, "ns": end}
        if self.load.get("save_outputs"):
            token["ids"] = self.stepper.tokens()
        events.append(("token", token))

    @torch.inference_mode()
    def sizes(self) -> dict[str, Any]:
        """Counts bytes after a real prefill into a new cache."""
        stepper, device = self.stepper, self.device
        self.base = self.first = None
        stepper.release()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        stepper.clear()
        stepper.prefill(self.prompts[0])
        params, buffers = sizes.model_bytes(self.loaded.model)
        kv, state = sizes.cache_bytes(stepper.cache)
        mine = {
            "params_bytes": params,
            "buffers_bytes": buffers,
            "kv_bytes": kv,
            "kv_tokens": stepper.static_length if stepper.static else self.prompt_len,
            "state_bytes": state,
            **sizes.memory(device, params + buffers + kv + state),
        }
        return sizes.total(self.rank.gather(mine))

    @torch.inference_mode()
    def trace(self, trace: dict[str, Any]) -> dict[str, Any]:
        """Runs passes under torch's profiler and writes its trace."""
        from torch.profiler import ProfilerActivity, profile, record_function

        self.prepare(trace["phase"])
        activities = [ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        self.stepper.annotating = True
        try:
            with profile(activities=activities) as profiler:
                with record_function("llmprof warm-up"):  # The first annotation is slow.
                    pass
                before = now()
                with record_function(ANCHOR):
                    after = now()
                begin = now()
                for index in range(trace["passes"]):
                    self.one_pass(trace["phase"], index)
                end = now()
        finally:
            self.stepper.annotating = False
        if self.rank.leads:
            profiler.export_chrome_trace(trace["file"])
        anchor = (before + after) // 2
        return {"file": trace["file"], "anchor": ANCHOR, "anchor_ns": anchor, "begin_ns": begin, "end_ns": end}


def describe_device(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {"name": "cpu", "pid": os.getpid()}
    properties = torch.cuda.get_device_properties(device)
    described = {"name": properties.name, "pid": os.getpid()}
    uuid = str(getattr(properties, "uuid", ""))
    if uuid:
        described["uuid"] = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    return described
