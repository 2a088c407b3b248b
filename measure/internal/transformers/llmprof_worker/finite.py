"""Finds models whose computations give NaN or infinity."""

from collections.abc import Callable
from typing import Any

import torch


def is_finite(value: torch.Tensor) -> bool:
    if not (value.is_floating_point() or value.is_complex()):
        return True
    if value.element_size() == 1:  # Torch has no isfinite for fp8.
        value = value.float()
    return bool(torch.isfinite(value).all())


def explain(model: Any, dtype: str, prefill: Callable[[], Any]) -> str:
    """Names the tensor or the module that makes the logits NaN or infinite."""
    for name, weight in model.named_parameters():
        if not is_finite(weight):
            bad = int((~torch.isfinite(weight.float())).sum())
            return f"the tensor {name} has {bad} such values of {weight.numel()}"
    module = first_module(model, prefill)
    where = f"; {module} is the first module with such an output" if module else ""
    return f"all weights are numbers, so what is computed of them outgrows {dtype}{where}"


def first_module(model: Any, prefill: Callable[[], Any]) -> str:
    """Runs a prefill and names the first module whose output has NaN or infinity."""
    found: list[str] = []

    def watch(name: str) -> Callable[..., None]:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            outputs = output if isinstance(output, tuple) else (output,)
            tensors = [value for value in outputs if isinstance(value, torch.Tensor)]
            if not found and not all(is_finite(value) for value in tensors):
                found.append(name)

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    try:
        prefill()
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else ""
