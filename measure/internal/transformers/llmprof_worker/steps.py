"""Runs forward passes of a model, timed until the host knows their token."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from .caches import Snapshot, check_windows, empty_static, make_cache
from .failures import Failure, is_out_of_memory
from .pipe import now

TIMER = (
    "host clock (CLOCK_MONOTONIC) from before the step is given to the device until its tokens are in host memory: "
    "forward, argmax, the tokens' copy to the host, for a prefill also the prompt's copy to the device; "
    "device events around forward and argmax"
)


class Forward:
    """Calls a model with the arguments that its kind of cache and the version need."""

    def __init__(self, model: Any, call: Any, all_logits: bool) -> None:
        self.call = call
        names = set(inspect.signature(model.forward).parameters)
        self.cache_name = "past_key_values" if "past_key_values" in names else "cache_params"
        self.positions = [name for name in ("position_ids", "cache_position") if name in names]
        last = next((name for name in ("logits_to_keep", "num_logits_to_keep") if name in names), None)
        self.keeps_last = last is not None and not all_logits
        self.fixed: dict[str, int] = {last: 1} if last and not all_logits else {}
        self.watch: Callable[[torch.Tensor], None] | None = None  # It is called with the logits of each step.

    def __call__(self, ids: torch.Tensor, cache: Any, positions: torch.Tensor) -> torch.Tensor:
        """Returns the next tokens, batch x 1."""
        arguments = {self.cache_name: cache, "use_cache": True, **self.fixed}
        for name in self.positions:
            arguments[name] = positions if name == "cache_position" else positions.unsqueeze(0)
        logits = self.call(input_ids=ids, **arguments).logits
        if self.watch is not None:
            self.watch(logits[:, -1:])
        return logits[:, -1:].argmax(dim=-1)


class Stopwatch:
    """Times one step by the host's clock and by the device's events."""

    def __init__(self, device: torch.device, batch: int) -> None:
        self.on_gpu = device.type == "cuda"
        self.host = torch.empty((batch, 1), dtype=torch.long, pin_memory=self.on_gpu)
        if self.on_gpu:
            self.begin = torch.cuda.Event(enable_timing=True)
            self.end = torch.cuda.Event(enable_timing=True)

    def time(self, work: Any) -> tuple[int, int, float | None]:
        """Runs work and returns its begin and end in ns and the device's seconds."""
        start = now()
        if not self.on_gpu:
            self.host.copy_(work())
            return start, now(), None
        self.begin.record()
        tokens = work()
        self.end.record()
        self.host.copy_(tokens, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        stop = now()
        return start, stop, self.begin.elapsed_time(self.end) / 1e3


class Stepper:
    """Runs one prefill and then decode steps of a model with a cache.

    The buffers of a decode step do not move, so that it can be replayed as a CUDA
    graph; the token that it chooses is its next input.
    """

    def __init__(self, model: Any, load: dict[str, Any], device: torch.device, prompt_len: int) -> None:
        self.device, self.model = device, model
        self.batch, self.prompt_len, self.gen_len = load["batch"], prompt_len, load["gen_len"]
        self.static = bool(load["graph"] or load["compile"] or load.get("static_cache"))
        self.wants_graph = bool(load["graph"])
        self.graph: Any = None
        self.prefill_forward = Forward(model, model, bool(load.get("all_logits")))
        self.decode_forward = self.prefill_forward
        if load["compile"]:
            self.decode_forward = Forward(model, torch.compile(model), bool(load.get("all_logits")))
        self.cache: Any = None
        self.annotating = False
        self.stopwatch = Stopwatch(device, self.batch)
        with torch.device(device):
            self.ids = torch.zeros((self.batch, 1), dtype=torch.long)
            self.position = torch.zeros(1, dtype=torch.long)
            self.prompt_positions = torch.arange(prompt_len)

    @property
    def static_length(self) -> int:
        """Returns the tokens that a static cache needs, without the last generated one, which is never put in."""
        return self.prompt_len + max(self.gen_len - 1, 1)

    def annotate(self, label: str) -> AbstractContextManager[Any]:
        return torch.profiler.record_function(label) if self.annotating else nullcontext()

    def clear(self) -> None:
        """Empties the cache; a static one keeps its memory."""
        if self.static and self.cache is not None:
            empty_static(self.cache)
        else:
            self.cache = make_cache(self.model, self.static_length if self.static else None)

    def release(self) -> None:
        self.cache = self.graph = None

    def prefill(self, prompt: torch.Tensor) -> tuple[int, int, float | None]:
        """Reads the prompt into an empty cache and chooses the first token."""

        def work() -> torch.Tensor:
            ids = prompt.to(self.device, non_blocking=True)
            tokens = self.prefill_forward(ids, self.cache, self.prompt_positions)
            self.feed(tokens)
            return self.ids

        with self.annotate("prefill"):
            return self.stopwatch.time(work)

    def feed(self, tokens: torch.Tensor) -> None:
        """Makes tokens the next step's input, after the prompt."""
        self.ids.copy_(tokens)
        self.position.fill_(self.prompt_len)

    def decode(self, index: int) -> tuple[int, int, float | None]:
        with self.annotate(f"decode step {index}"):
            return self.stopwatch.time(self.replay if self.graph is not None else self.step)

    def decoding(self) -> AbstractContextManager[Any]:
        """Changes a model between prefill and decoding, as generate does.

        Experts are then computed by batched GEMMs, for which the host need not know how
        many tokens each expert has.
        """
        prepare = getattr(self.model, "_optimize_model_for_decode", None)
        return nullcontext() if prepare is None else prepare()

    def step(self) -> torch.Tensor:
        self.ids.copy_(self.decode_forward(self.ids, self.cache, self.position))
        self.position.add_(1)
        return self.ids

    def replay(self) -> torch.Tensor:
        self.graph.replay()
        return self.ids

    def tokens(self) -> list[int]:
        """Returns the tokens of the last step, one a sequence."""
        return self.stopwatch.host.flatten().tolist()

    def capture(self) -> None:
        """Captures a decode step on the current cache, and restores the cache."""
        if not self.wants_graph or self.graph is not None:
            return
        check_windows(self.cache, self.prompt_len)
        before, first = Snapshot(self.cache), self.ids.clone()

        def rewind() -> None:
            before.restore()
            self.feed(first)

        try:
            with self.decoding():
                graph = capture_step(self.step, rewind)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            name = type(self.model).__name__
            raise Failure("unsupported", f"a step of {name} cannot be captured as a CUDA graph: {error}") from error
        rewind()
        self.graph = graph


def capture_step(step: Callable[[], Any], rewind: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Captures step after a few calls, during which libraries choose kernels and allocate memory."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
            rewind()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph
