"""Counts the bytes of parameters, buffers and caches, each storage once."""

from collections.abc import Iterable
from typing import Any

import torch

from .caches import KV_NAMES, is_bookkeeping, tensors


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the local part of a tensor that is sharded over ranks."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def storage_bytes(found: Iterable[torch.Tensor], seen: set[int]) -> int:
    total = 0
    for tensor in found:
        storage = local(tensor).untyped_storage()
        if storage.data_ptr() not in seen and storage.nbytes() > 0:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
    return total


def model_bytes(model: Any) -> tuple[int, int]:
    """Counts parameters and buffers separately."""
    seen: set[int] = set()
    return storage_bytes(model.parameters(), seen), storage_bytes(model.buffers(), seen)


def cache_bytes(cache: Any) -> tuple[int, int]:
    """Counts keys and values, and states of constant size, separately."""
    kv: list[torch.Tensor] = []
    state: list[torch.Tensor] = []
    for name, _, _, tensor in tensors(cache):
        if not is_bookkeeping(tensor):
            (kv if name in KV_NAMES else state).append(tensor)
    seen: set[int] = set()
    return storage_bytes(kv, seen), storage_bytes(state, seen)


def memory(device: torch.device, resident: int) -> dict[str, int | None]:
    """Returns the peak since the last reset, and the part of it that was not resident."""
    if device.type != "cuda":
        return {"peak_bytes": None, "activations_bytes": None, "reserved_bytes": None}
    peak = torch.cuda.max_memory_allocated(device)
    return {
        "peak_bytes": peak,
        "activations_bytes": max(peak - resident, 0),
        "reserved_bytes": max(torch.cuda.memory_reserved(device) - peak, 0),
    }


def total(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the sum over the ranks, and the size of each rank if there are several."""
    if len(ranks) == 1:
        return ranks[0]

    def add(key: str) -> Any:
        values = [rank[key] for rank in ranks]
        return None if None in values else sum(values)

    whole = {key: add(key) for key in ranks[0]}
    return {**whole, "kv_tokens": ranks[0]["kv_tokens"], "ranks": ranks}
