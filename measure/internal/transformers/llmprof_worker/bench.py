"""Times single operators of torch, as transformers calls them."""

import gc
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from .failures import Failure
from .ranks import Rank
from .session import describe_device

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
MOST_SAMPLES = 200
LONG = 1  # A request of so many seconds asks for a time, not for samples.
MOST_BYTES = 8 << 30  # The buffers of all rotations together have at most so many bytes.
PATIENCE = 5  # After so many seconds, or ten times those requested, three samples are enough.
STEADY = 0.02  # The medians of two runs of calls may differ by this share.

# A graph has as many calls as a model has layers, because the launch of a smaller graph would be part of
# their time. Fewer calls are enough if they take so long that a launch of some microseconds is negligible.
LEAST_CALLS = 32
ENOUGH_FLOPS = 1 << 40
ENOUGH_BYTES = 32 << 30

Body = Callable[[], Any]


class Operator:
    """Describes the timed work: a body of so many calls, and a single call, with which a graph can have more calls."""

    def __init__(
        self, body: Body, calls: int = 1, cold: bool = False, graph: bool = True, flops: int = 0, bytes: int = 0
    ) -> None:
        self.body, self.calls, self.cold, self.graph = body, calls, cold, graph
        self.flops, self.bytes = flops, bytes

    def lengthen(self) -> None:
        """Repeats the whole body as often as a graph needs, so that rotated buffers stay cold in the caches."""
        if not self.flops and not self.bytes:
            return
        calls = LEAST_CALLS
        if self.flops:
            calls = min(calls, math.ceil(ENOUGH_FLOPS / self.flops))
        if self.bytes:
            calls = min(calls, math.ceil(ENOUGH_BYTES / self.bytes))
        once, rounds = self.body, math.ceil(calls / self.calls)

        def body() -> None:
            for _ in range(rounds):
                once()

        self.body, self.calls = body, rounds * self.calls


class Maker:
    """Makes operators of random data, on one device."""

    def __init__(self, bench: dict[str, Any], device: torch.device, rank: Rank) -> None:
        self.bench, self.device, self.rank = bench, device, rank
        if bench["dtype"] not in DTYPES:
            raise Failure("unsupported", f"no dtype {bench['dtype']!r}: there are {', '.join(DTYPES)}")
        self.dtype = DTYPES[bench["dtype"]]

    def random(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, dtype=torch.float32).to(self.dtype)

    def rotated(self, *shapes: tuple[int, ...]) -> list[list[torch.Tensor]]:
        """Makes so many sets of tensors that together they exceed every cache."""
        size = sum(math.prod(shape) for shape in shapes) * self.dtype.itemsize
        sets = 1 + math.ceil(self.bench["rotate"] / size)
        sets = max(1, min(sets, MOST_BYTES // size))
        return [[self.random(*shape) for shape in shapes] for _ in range(sets)]

    def is_cold(self, sets: list[list[torch.Tensor]]) -> bool:
        size = sum(tensor.numel() * tensor.element_size() for tensor in sets[0])
        return len(sets) * size > self.bench["rotate"]

    def gemm(self, m: int, n: int, k: int) -> Operator:
        sets, x = self.rotated((n, k)), self.random(m, k)
        y = torch.empty(m, n, device=self.device, dtype=self.dtype)

        def body() -> None:
            for (w,) in sets:
                torch.mm(x, w.t(), out=y)

        return Operator(body, len(sets), self.is_cold(sets), flops=2 * m * n * k, bytes=2 * n * k)

    gemm_sustained = gemm

    def attention_prefill(self, tokens: int, heads: int, kv_heads: int, head_dim: int) -> Operator:
        q = self.random(1, heads, tokens, head_dim)
        k, v = self.random(1, kv_heads, tokens, head_dim), self.random(1, kv_heads, tokens, head_dim)
        half = 2 * tokens * tokens * heads * head_dim  # Two GEMMs, of which causal attention does half.
        return Operator(
            lambda: scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads), flops=half
        )

    def attention_decode(self, batch: int, context: int, heads: int, kv_heads: int, head_dim: int) -> Operator:
        q, cache = self.random(batch, heads, 1, head_dim), (batch, kv_heads, context, head_dim)
        sets = self.rotated(cache, cache)

        def body() -> None:
            for k, v in sets:
                scaled_dot_product_attention(q, k, v, enable_gqa=heads != kv_heads)

        return Operator(body, len(sets), self.is_cold(sets), bytes=4 * math.prod(cache))

    def rms_norm(self, tokens: int, width: int) -> Operator:
        sets, w = self.rotated((tokens, width)), self.random(width)

        def body() -> None:
            for (x,) in sets:
                rms_norm(x, (width,), w)

        return Operator(body, len(sets), self.is_cold(sets), bytes=4 * tokens * width)

    def activation(self, tokens: int, width: int) -> Operator:
        """Times one kernel that reads two tensors and writes a third, as a fused activation does."""
        sets = self.rotated((tokens, width), (tokens, width), (tokens, width))

        def body() -> None:
            for gate, up, out in sets:
                torch.mul(gate, up, out=out)

        return Operator(body, len(sets), self.is_cold(sets), bytes=6 * tokens * width)

    def read(self, bytes: int) -> Operator:
        sets = self.rotated((bytes // self.dtype.itemsize,))

        def body() -> None:
            for (x,) in sets:
                torch.sum(x)

        return Operator(body, len(sets), self.is_cold(sets), bytes=bytes)

    def copy(self, bytes: int) -> Operator:
        sets = self.rotated((bytes // self.dtype.itemsize,), (bytes // self.dtype.itemsize,))

        def body() -> None:
            for source, target in sets:
                target.copy_(source)

        return Operator(body, len(sets), self.is_cold(sets), bytes=2 * bytes)

    def empty(self, launches: int) -> Body:
        tiny = torch.zeros(1024, device=self.device)

        def body() -> None:
            for _ in range(launches):
                tiny.add_(1)

        return body

    def graph_node(self, launches: int) -> Operator:
        self.needs_gpu("a CUDA graph")
        return Operator(self.empty(launches))

    def eager_launch(self, launches: int) -> Operator:
        return Operator(self.empty(launches), graph=False)

    def small_kernel(self, launches: int) -> Operator:
        """Times the kernels of RMSNorm as transformers writes it, eight for each norm."""
        self.needs_gpu("a CUDA graph")
        if launches % 8:
            raise Failure("invalid", f"{launches} launches: small kernels come in eights")
        x, w = self.random(8, 4096), self.random(4096)

        def body() -> None:
            for _ in range(launches // 8):
                x32 = x.to(torch.float32)
                scale = torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-5)
                w * (x32 * scale).to(self.dtype)

        return Operator(body)

    def all_reduce(self, bytes: int) -> Operator:
        import torch.distributed as dist

        if self.rank.world < 2:
            raise Failure("invalid", "an all-reduce needs two ranks or more")
        self.rank.join()
        x = self.random(max(bytes // self.dtype.itemsize, 1))

        def body() -> None:
            dist.all_reduce(x)

        return Operator(body)

    def needs_gpu(self, what: str) -> None:
        if self.device.type != "cuda":
            raise Failure("unsupported", f"{what} needs a GPU")


def pick_device(bench: dict[str, Any], rank: Rank) -> torch.device:
    asked = bench.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
    if asked == "cuda" and not torch.cuda.is_available():
        raise Failure("missing", "torch sees no GPU here: give the device cpu, or install a torch with CUDA")
    if asked == "cuda":
        device = torch.device("cuda", rank.local)
        torch.cuda.set_device(device)
        return device
    return torch.device(asked)


def run(bench: dict[str, Any], rank: Rank) -> dict[str, Any]:
    """Times one operator; every rank takes part."""
    torch.manual_seed(0)
    device = pick_device(bench, rank)
    try:
        return measure(bench, rank, device)
    finally:
        if device.type == "cuda":  # The next point may need all memory.
            gc.collect()
            torch.cuda.empty_cache()


@torch.inference_mode()
def measure(bench: dict[str, Any], rank: Rank, device: torch.device) -> dict[str, Any]:
    maker = Maker(bench, device, rank)
    make = getattr(maker, bench["kind"], None) if bench["kind"] in KINDS else None
    if make is None:
        raise Failure("unsupported", f"transformers has no operator {bench['kind']!r}: there are {', '.join(KINDS)}")
    try:
        operator = make(**bench["shape"])
    except TypeError as error:
        raise Failure("invalid", f"{bench['kind']} of {bench['shape']}: {error}") from error
    notes: list[str] = []
    call, graph = prepare(operator, device, notes)
    clock = GPUClock(device) if device.type == "cuda" else HostClock()
    time.sleep(bench.get("rest") or 0)
    seconds = repeat(call, clock, bench, rank.world)
    return {
        "seconds": [s / operator.calls for s in seconds],
        "graph": graph,
        "cold": operator.cold,
        "device": describe_device(device),
        "notes": notes,
    }


HELPERS = ("random", "rotated", "is_cold", "empty", "needs_gpu")
KINDS = tuple(name for name in vars(Maker) if name not in HELPERS and name[0] != "_")


def prepare(operator: Operator, device: torch.device, notes: list[str]) -> tuple[Body, bool]:
    """Runs the body twice, so that libraries choose their kernels, and captures it if possible."""
    if device.type != "cuda" or not operator.graph:
        for _ in range(2):
            operator.body()
        return operator.body, False
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            operator.body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    operator.lengthen()
    graph = torch.cuda.CUDAGraph()
    try:
        # NCCL's watchdog queries events in another thread, which is not part of the capture.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            operator.body()
    except RuntimeError as error:
        notes.append(f"not in a graph: {error}")
        return operator.body, False
    return graph.replay, True


class GPUClock:
    """Times work by the device's events."""

    def __init__(self, device: torch.device) -> None:
        self.begin = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)

    def __call__(self, call: Body) -> float:
        self.begin.record()
        call()
        self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) / 1e3


class HostClock:
    def __call__(self, call: Body) -> float:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin


def repeat(call: Body, clock: Any, bench: dict[str, Any], world: int) -> list[float]:
    """Repeats calls until their times are steady, and then for the requested samples.

    With several ranks the number of calls is fixed, because a rank that made one more
    would wait for the others forever.
    """
    if world > 1:
        for _ in range(5):
            clock(call)
        return [clock(call) for _ in range(bench["samples"])]
    begin = time.perf_counter()
    warm_up(call, clock, bench["seconds"])
    seconds: list[float] = []
    while len(seconds) < bench["samples"] or time.perf_counter() - begin < bench["seconds"]:
        if len(seconds) == MOST_SAMPLES and bench["seconds"] < LONG:
            break
        if len(seconds) >= 3 and time.perf_counter() - begin > max(PATIENCE, 10 * bench["seconds"]):
            break
        seconds.append(clock(call))
    return seconds[-MOST_SAMPLES:]  # A run of seconds keeps the samples at its end.


def warm_up(call: Body, clock: Any, patience: float) -> None:
    begin, before = time.perf_counter(), math.inf
    while True:
        now = statistics.median(clock(call) for _ in range(3))
        if abs(now / before - 1) <= STEADY or time.perf_counter() - begin > patience / 2:
            return
        before = now
