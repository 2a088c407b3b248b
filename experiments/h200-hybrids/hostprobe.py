"""Times what the host does for a step of vLLM, function by function, within the engine's process.

Functions of this module are sent to the engine by LLM.collective_rpc. Each wrapped function gets its calls, its time and the time that is not
within another wrapped function, in ns.
"""
import functools
import importlib
import json
import time

now, cpu = time.perf_counter_ns, time.thread_time_ns
STATS, STEPS, STACK, SAVED, FAILED, HELD = {}, [], [], [], [], {}

GDN = "vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn"
MAMBA = "vllm.model_executor.layers.mamba.mamba_mixer2"
MOE = "vllm.model_executor.layers.fused_moe"
TARGETS = [
    ("vllm.v1.worker.gpu.model_runner", "GPUModelRunner", "execute_model"),
    ("vllm.v1.worker.gpu.model_runner", "GPUModelRunner", "sample_tokens"),
    ("vllm.v1.worker.gpu.model_runner", "GPUModelRunner", "prepare_inputs"),
    ("vllm.v1.worker.gpu.model_runner", "GPUModelRunner", "prepare_attn"),
    ("vllm.v1.worker.gpu_model_runner", "GPUModelRunner", "execute_model"),
    ("vllm.v1.worker.gpu_model_runner", "GPUModelRunner", "sample_tokens"),
    (GDN, "QwenGatedDeltaNetAttention", "_forward_core"),
    (GDN, None, "causal_conv1d_fn"),
    (GDN, None, "fused_post_conv_prep"),
    (GDN, None, "fla_chunk_gated_delta_rule"),
    (MAMBA, "MambaMixer2", "conv_ssm_forward"),
    (MAMBA, None, "causal_conv1d_fn"),
    (MAMBA, None, "mamba_chunk_scan_combined_varlen"),
    (MOE + ".runner.moe_runner", "MoERunner", "_forward_impl"),
    (MOE + ".runner.shared_experts", "SharedExperts", "forward"),
    (MOE + ".runner.shared_experts", "SharedExperts", "maybe_forward_async"),
    (MOE + ".router.base_router", "BaseRouter", "select_experts"),
    (MOE + ".routed_experts", "RoutedExperts", "forward_modular"),
    (MOE + ".experts.triton_moe", "TritonExperts", "apply"),
    ("vllm.v1.attention.backends.flash_attn", "FlashAttentionImpl", "forward"),
    ("vllm.v1.attention.backends.flash_attn", "FlashAttentionImpl", "do_kv_cache_update"),
    ("vllm.model_executor.layers.layernorm", "GemmaRMSNorm", "forward_native"),
    ("vllm.model_executor.custom_op", "CustomOp", "forward"),
    ("vllm.compilation.piecewise_backend", "PiecewiseBackend", "__call__"),
    ("vllm.compilation.cuda_graph", "CUDAGraphWrapper", "__call__"),
    ("torch.cuda.graphs", "CUDAGraph", "replay"),
    ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", "run"),
    ("triton.runtime.jit", "JITFunction", "run"),
    ("triton.runtime.autotuner", "Autotuner", "run"),
    ("vllm.model_executor.layers.linear", "UnquantizedLinearMethod", "apply"),
]


def timed(fn, name):
    step = name.endswith(("GPUModelRunner.execute_model", "GPUModelRunner.sample_tokens"))

    @functools.wraps(fn)
    def call(*args, **kw):
        STACK.append(0)
        used, begun = cpu() if step else 0, now()
        try:
            return fn(*args, **kw)
        finally:
            took = now() - begun
            inner = STACK.pop()
            row = STATS.setdefault(name, [0, 0, 0])
            row[0] += 1
            row[1] += took
            row[2] += took - inner
            if STACK:
                STACK[-1] += took
            if step:
                n = getattr(args[1], "num_scheduled_tokens", None) if len(args) > 1 else None
                STEPS.append([name.rsplit(".", 1)[1], len(n) if n is not None else 0, sum(n.values()) if n else 0, took, cpu() - used])

    return call


def install(worker):
    FAILED.clear()
    for module, cls, attr in TARGETS:
        try:
            owner = importlib.import_module(module)
            if cls:
                owner = getattr(owner, cls)
            old = owner.__dict__[attr]
            if isinstance(old, (staticmethod, classmethod)):
                raise TypeError("static")
            SAVED.append((owner, attr, old))
            setattr(owner, attr, timed(old, f"{cls or module.rsplit('.', 1)[1]}.{attr}" if cls else f"{module.rsplit('.', 1)[1]}:{attr}"))
        except Exception as x:
            FAILED.append(f"{module} {cls} {attr}: {x!r}"[:160])
    return json.dumps({"failed": FAILED, "wrapped": len(SAVED), "runner": f"{type(getattr(worker, 'model_runner', getattr(getattr(worker, 'worker', None), 'model_runner', None)))}"})


def uninstall(worker):
    while SAVED:
        owner, attr, old = SAVED.pop()
        setattr(owner, attr, old)
    return "{}"


def reset(worker):
    STATS.clear()
    STEPS.clear()
    return "{}"


def dump(worker):
    return json.dumps({"stats": STATS, "steps": STEPS[-400:]})


def pace(worker, seconds=0.25):
    """Processor and wall time of a fixed piece of Python, in us, least and median, in the engine's process."""
    rows = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        a, b = now(), cpu()
        total = 0
        for i in range(20000):
            total += i & 7
        rows.append(((now() - a) / 1e3, (cpu() - b) / 1e3))
    wall, used = sorted(r[0] for r in rows), sorted(r[1] for r in rows)
    return json.dumps({"wall_us": [wall[0], wall[len(wall) // 2]], "cpu_us": [used[0], used[len(used) // 2]], "n": len(rows)})


def aten(worker, repeats=300):
    """Host time of PyTorch operators on the GPU and of a kernel of Triton, in us a call, least of ten rounds."""
    import torch
    import triton
    import triton.language as tl
    if "copy" not in HELD:
        HELD["copy"] = triton.jit(_copy(tl))
    x, y, w = torch.ones(1024, device="cuda"), torch.empty(1024, device="cuda"), torch.ones(1024, 1024, device="cuda", dtype=torch.bfloat16)
    z, kernel, stream = torch.ones(8, 1024, device="cuda", dtype=torch.bfloat16), HELD["copy"], torch.cuda.current_stream()
    calls = {"add": lambda: torch.add(x, 1, out=y), "mm": lambda: torch.nn.functional.linear(z, w), "triton": lambda: kernel[(1,)](x, y, 1024, BLOCK=1024),
             "empty": lambda: torch.empty(1024, device="cuda"), "record": lambda: torch.cuda.Event().record(stream)}
    out = {}
    for name, f in calls.items():
        times = []
        for _ in range(10):
            torch.cuda.synchronize()
            t = now()
            for _ in range(repeats // 10):
                f()
            times.append((now() - t) / 1e3 / (repeats // 10))
        out[name] = [round(min(times), 2), round(sorted(times)[5], 2)]
    torch.cuda.synchronize()
    return json.dumps(out)


def _copy(tl):
    from hostkernel import copy
    return copy


def profile(worker, path=None):
    """Starts a profile of CPU and GPU, or with a path ends it and writes the trace."""
    import torch
    if path is None:
        HELD["profile"] = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA])
        HELD["profile"].start()
        return "{}"
    torch.cuda.synchronize()
    p = HELD.pop("profile")
    p.stop()
    p.export_chrome_trace(path)
    return "{}"
