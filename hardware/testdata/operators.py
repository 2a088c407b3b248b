"""Times operators and power of one GPU with torch, as JSON on stdout.

    python3 operators.py > h200_operators.json

Weights are rotated so that none is in the L2 cache; everything runs in a CUDA
graph; data is random; each time is the median of ten replays.
"""
import json
import statistics
import subprocess
import sys
import threading
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import rms_norm, scaled_dot_product_attention

BF16 = dict(device="cuda", dtype=torch.bfloat16)


def graphed(body):
    """Captures body in a CUDA graph, after running it twice."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        body()
        body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph


def seconds(body, calls):
    """The median time of one of the calls that body makes."""
    graph = graphed(body)
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(10):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / calls)
    return statistics.median(times)


def gemms():
    for n, k in [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096)]:
        copies = max(2, 400_000_000 // (2 * n * k) + 1)
        weights = [torch.randn(n, k, **BF16) for _ in range(copies)]
        for m in [1, 8, 32, 128, 512, 1024, 2048, 8192]:
            x, y = torch.randn(m, k, **BF16), torch.empty(m, n, **BF16)

            def body():
                for w in weights:
                    torch.mm(x, w.t(), out=y)

            yield dict(op="gemm", m=m, n=n, k=k, time_s=seconds(body, copies))


def attentions():
    for s in [512, 1024, 2048, 4096, 8192, 16384]:
        q = torch.randn(1, 32, s, 128, **BF16)
        k, v = torch.randn(1, 8, s, 128, **BF16), torch.randn(1, 8, s, 128, **BF16)

        def body():
            for _ in range(5):
                scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            yield dict(op="prefill_attention", tokens=s, heads=32, kv_heads=8, head_dim=128, time_s=seconds(body, 5))


def elements():
    tiny = torch.zeros(1024, device="cuda")

    def empty():
        for _ in range(500):
            tiny.add_(1)

    yield dict(op="empty_kernel", time_s=seconds(empty, 500))
    for t in [1, 32, 1024, 8192]:
        x, w = torch.randn(t, 4096, **BF16), torch.randn(4096, **BF16)

        def body():
            for _ in range(50):
                rms_norm(x, (4096,), w)

        yield dict(op="rms_norm", tokens=t, width=4096, time_s=seconds(body, 50))


def watts():
    line = subprocess.run(["nvidia-smi", "--query-gpu=power.draw.instant", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return float(line.split("\n")[0])


def loaded(body, per_run):
    """Mean power while body runs for six seconds, the first 1.5 left out, and the rate of per_run."""
    drawn, stop = [], threading.Event()

    def poll():
        time.sleep(1.5)
        while not stop.is_set():
            drawn.append(watts())
            time.sleep(0.1)

    poller = threading.Thread(target=poll)
    poller.start()
    begin, runs = time.time(), 0
    while time.time() - begin < 6:
        body()
        torch.cuda.synchronize()
        runs += 1
    took = time.time() - begin
    stop.set()
    poller.join()
    return statistics.mean(drawn), per_run * runs / took


def powers():
    idle = watts_of_nothing()
    yield dict(op="idle_with_context", power_w=idle)
    a, b = torch.randn(8192, 8192, **BF16), torch.randn(8192, 8192, **BF16)
    power, rate = loaded(lambda: [torch.mm(a, b) for _ in range(50)], 50 * 2 * 8192**3)
    yield dict(op="gemm_power", m=8192, n=8192, k=8192, power_w=power, flops_per_s=rate)
    weights = [torch.randn(28672, 4096, **BF16) for _ in range(16)]
    for m in [1, 8, 32]:
        x = torch.randn(m, 4096, **BF16)
        graph = graphed(lambda: [torch.mm(x, w.t()) for w in weights for _ in range(10)])
        power, rate = loaded(graph.replay, 160 * 28672 * 4096 * 2)
        yield dict(op="gemm_power", m=m, n=28672, k=4096, power_w=power, bytes_per_s=rate, flops_per_s=rate * m)


def watts_of_nothing():
    torch.cuda.synchronize()
    time.sleep(5)
    return statistics.mean(watts() for _ in range(5))


def main():
    torch.manual_seed(0)
    rows = [row for part in (gemms, attentions, elements, powers) for row in part()]
    for row in rows:
        for key, value in row.items():
            row[key] = float(f"{value:.4g}") if isinstance(value, float) else value
    gpu = torch.cuda.get_device_name()
    json.dump(dict(gpu=gpu, torch=torch.__version__, measured=time.strftime("%Y-%m-%d"), rows=rows), sys.stdout, indent=1)
    print()


main()
