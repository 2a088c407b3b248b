"""What a worker measures of itself: power and time of kernels of its model."""
import json
import threading
import time


def watts(worker, rows, seconds, what):
    """Power and time of the experts ("experts") or of the GEMMs in 16 bits ("gemms") of all layers for so many tokens, in a CUDA graph."""
    import torch
    from vllm.forward_context import set_forward_context
    from vllm.v1.worker.workspace import unlock_workspace
    model = worker.get_model()
    layers = model.model.layers
    hidden = model.config.hidden_size
    x = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16)

    def once():
        with set_forward_context(None, worker.vllm_config, num_tokens=rows):
            for layer in layers:
                if what == "experts":
                    layer.mlp(x)
                else:
                    y = layer.attn.qkv_proj(x)[0]
                    layer.attn.o_proj(y[:, : layer.attn.o_proj.input_size_per_partition].contiguous())

    unlock_workspace()
    with torch.inference_mode():
        for _ in range(3):
            once()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            once()
    begun = time.monotonic()
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    ticks, done = [], threading.Event()
    watch = threading.Thread(target=follow, args=(ticks, done))
    watch.start()
    runs = int(seconds / (time.monotonic() - begun) * 20) + 1
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun = time.monotonic()
    start.record()
    for _ in range(runs):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    ended = time.monotonic()
    done.set()
    watch.join()
    inside = [x for x in ticks if begun + 0.25 < x[0] < ended]
    (t, j, _), (u, k, clock) = inside[0], inside[-1]
    return json.dumps({"watts": round((k - j) / (u - t), 1), "us": round(start.elapsed_time(end) / runs * 1e3, 2), "layers": len(layers), "clock": clock,
                       "ticks": len(inside)})


def follow(ticks, done):
    """Notes when the energy counter of the GPU takes another value, and the clock then."""
    from vllm.third_party import pynvml as nv
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    last = None
    while not done.is_set():
        j = nv.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3
        if last is not None and j != last:
            ticks.append((time.monotonic(), j, nv.nvmlDeviceGetClockInfo(device, nv.NVML_CLOCK_SM)))
        last = j


def energy(worker):
    from vllm.third_party import pynvml as nv
    nv.nvmlInit()
    return json.dumps([time.monotonic(), nv.nvmlDeviceGetTotalEnergyConsumption(nv.nvmlDeviceGetHandleByIndex(0)) / 1e3])
