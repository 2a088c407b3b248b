#!/usr/bin/env python3
"""Time what Python takes to launch the kernels of a gated delta net over a prompt: triton_launch.py SOURCE

SOURCE is the folder of vLLM's package. Triton compiles for a GPU that is not there, and the launcher does nothing: what is timed is the host's work
in Python, from a call to where a kernel would be handed to the driver. A line has the least time of a thread's processor, which others on
the machine disturb least.
"""
import contextlib
import importlib
import importlib.machinery
import pathlib
import statistics
import sys
import time
import types
import unittest.mock

import torch
import triton
import triton.language as tl
import triton.language.extra.libdevice
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import driver as nvidia
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner


class Launcher:
    def __init__(self, src, metadata):
        pass

    def __call__(self, *args, **kwargs):
        pass


class Utils:
    def load_binary(self, name, kernel, shared, device):
        return 1, 1, 32, 0, 1024

    def get_device_properties(self, device):
        return {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32}


class Driver:
    utils, launcher_cls = Utils(), Launcher
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device: 0)
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_device_capability = staticmethod(lambda device=0: (9, 0))
    map_python_to_cpp_type = staticmethod(lambda ty: "void*")
    get_benchmarker = staticmethod(lambda: lambda *a, **k: [1.0, 1.0, 1.0])
    get_active_torch_device = staticmethod(lambda: torch.device("cpu"))
    get_device_interface = staticmethod(lambda: torch.cpu)
    get_empty_cache_for_benchmark = staticmethod(lambda: torch.empty(1))
    clear_cache = staticmethod(lambda cache: None)
    is_active = staticmethod(lambda: True)


class Stand(types.ModuleType):
    """A module of vLLM that the kernels import and the timed calls do not use."""
    triton, tl, HAS_TRITON, tldevice = triton, tl, True, triton.language.extra.libdevice
    current_platform = unittest.mock.MagicMock(**{f"is_{x}.return_value": False for x in ("rocm", "xpu", "cpu")})
    cdiv, next_power_of_2 = staticmethod(triton.cdiv), staticmethod(triton.next_power_of_2)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return unittest.mock.MagicMock()


class Finder:
    """Finds the kernels in SOURCE, and stands in for all else of vLLM."""

    def __init__(self, source):
        self.source = pathlib.Path(source)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != "vllm" or name.startswith("vllm.third_party.flash_linear_attention"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        m = Stand(spec.name)
        m.__path__ = [str(self.source / "third_party")] if spec.name == "vllm.third_party" else []
        return m

    def exec_module(self, module):
        pass


def least(call, repeats=400):
    """Microseconds of the thread's processor that a call takes at least, and in the median."""
    call(), call()
    times = []
    for _ in range(repeats):
        t = time.thread_time_ns()
        call()
        times.append((time.thread_time_ns() - t) / 1e3)
    return min(times), statistics.median(times)


def main():
    driver.set_active(Driver())
    Autotuner._bench = lambda self, *args, config, **meta: [1.0, 1.0, 1.0]  # the first configuration is taken
    torch.accelerator.device_index = lambda i: contextlib.nullcontext()
    torch.cuda.get_device_name = lambda device=0: "NVIDIA H200"
    torch.cuda.get_device_capability = lambda device=0: (9, 0)
    sys.meta_path.insert(0, Finder(sys.argv[1]))
    ops = importlib.import_module("vllm.third_party.flash_linear_attention.ops")
    tokens, heads, dim = 64, 4, 128
    of = lambda *shape, t=torch.bfloat16: torch.zeros(shape, dtype=t)
    q = k = of(1, tokens, heads, dim)
    v = of(1, tokens, heads, dim)
    g = beta = of(1, tokens, heads, t=torch.float32)
    state = of(1, heads, dim, dim, t=torch.float32)
    starts = torch.tensor([0, tokens], dtype=torch.int32)
    index, offsets = torch.zeros(1, 2, dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    rule = lambda: ops.chunk_gated_delta_rule(q=q, k=k, v=v, g=g, beta=beta, initial_state=state, output_final_state=True, cu_seqlens=starts,
                                              chunk_indices=index, chunk_offsets=offsets, use_qk_l2norm_in_kernel=False)
    launches, nothing = [0], Launcher.__call__
    Launcher.__call__ = lambda self, *a, **kw: launches.__setitem__(0, launches[0] + 1)
    rule(), rule()
    launches[0] = 0
    rule()
    kernels = launches[0]
    Launcher.__call__ = nothing
    post = importlib.import_module("vllm.third_party.flash_linear_attention.ops.fused_gdn_prefill_post_conv")
    conv, a, b = of(tokens, 3 * heads * dim), of(tokens, heads), of(tokens, heads)
    log, bias = of(heads, t=torch.float32), of(heads, t=torch.float32)
    prepare = lambda: post.fused_post_conv_prep(conv_output=conv, a=a, b=b, A_log=log, dt_bias=bias, num_k_heads=heads, head_k_dim=dim,
                                                head_v_dim=dim, apply_l2norm=True, output_g_exp=False)
    x = of(64)
    copy = lambda: x.copy_(x.add(1))
    for name, call, n in (("chunk_gated_delta_rule", rule, kernels), ("fused_post_conv_prep", prepare, 1), ("two ATen operators", copy, 2)):
        low, middle = least(call)
        print(f"{name}: {n} kernels, {low:.0f} us at least, {middle:.0f} in the median, {low / n:.1f} a kernel")


main()
