"""Makes caches, lists their tensors, and restores their contents."""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import DynamicCache, StaticCache
from transformers.cache_utils import StaticLayer, StaticSlidingWindowLayer

from .failures import Failure

# Names that transformers gives to keys and values; the rest of a cache's tensors
# are states of constant size. "indexer_keys" belong to sparse attention, the names
# in "cache" to transformers 4.
KV_NAMES = frozenset({"keys", "values", "indexer_keys", "key_cache", "value_cache"})


def make_cache(model: Any, static_length: int | None) -> Any:
    """Makes a static cache of that length, or a growing one if the length is None."""
    if static_length is None:
        return DynamicCache(config=model.config)
    if getattr(model, "_can_compile_fullgraph", True) is False:
        raise Failure("unsupported", f"{type(model).__name__} cannot run with a static cache: decode without graph")
    cache = StaticCache(config=model.config, max_cache_len=static_length)
    for index, layer in enumerate(cache.layers):
        if type(layer) is StaticSlidingWindowLayer:
            cache.layers[index] = without_host(layer, static_length)
    return cache


def without_host(layer: StaticSlidingWindowLayer, length: int) -> StaticLayer:
    """Makes a sliding-window layer that a CUDA graph can capture.

    While it fills, a sliding layer counts its tokens in Python, which a graph would
    record as a constant. A window that the sequence never leaves needs no window at all.
    """
    if layer.max_cache_len >= length:
        return StaticLayer(max_cache_len=length)
    return RollingLayer(max_cache_len=length, sliding_window=layer.max_cache_len)


class RollingLayer(StaticSlidingWindowLayer):
    """Implements a full sliding window that takes a token without work of the host.

    The layer that it replaces makes an index on the host, which no graph can copy to
    the device.
    """

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.cumulative_length_int < self.max_cache_len or key_states.shape[-2] > 1:
            return super().update(key_states, value_states, *args, **kwargs)
        self.cumulative_length_int += 1
        self.keys.copy_(torch.cat((self.keys[:, :, 1:], key_states), dim=-2))
        self.values.copy_(torch.cat((self.values[:, :, 1:], value_states), dim=-2))
        return self.keys, self.values


def check_windows(cache: Any, prompt_len: int) -> None:
    """Refuses a graph unless the window is full from the start."""
    for layer in cache.layers:
        if slides_in_place(layer) and layer.max_cache_len > prompt_len:
            raise Failure(
                "unsupported",
                f"the prompt of {prompt_len} tokens leaves a sliding window of {layer.max_cache_len} to fill while "
                "decoding, which no CUDA graph can capture: take a longer prompt, or decode without graph",
            )


def tensors(holder: Any, name: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any, Any, torch.Tensor]]:
    """Lists every tensor of a cache once, as its name, its container, its key there, and the tensor."""
    seen = set() if seen is None else seen
    if id(holder) in seen:
        return
    seen.add(id(holder))
    for key, value in _members(holder):
        called = key if isinstance(key, str) else name
        if isinstance(value, torch.Tensor):
            yield called, holder, key, value
        elif isinstance(value, (list, tuple, dict)) or _is_layer(value):
            yield from tensors(value, called, seen)


def _is_layer(value: Any) -> bool:
    return hasattr(value, "reorder_cache") and not isinstance(value, type)


def _members(holder: Any) -> list[tuple[Any, Any]]:
    if isinstance(holder, dict):
        return list(holder.items())
    if isinstance(holder, (list, tuple)):
        return list(enumerate(holder))
    return list(vars(holder).items())


def is_bookkeeping(tensor: torch.Tensor) -> bool:
    """Excludes lengths and window sizes, which are not content."""
    return not tensor.is_floating_point() and tensor.numel() <= 1


def appends(holder: Any, name: str) -> bool:
    """Reports whether a tensor only grows and is never overwritten."""
    return name in KV_NAMES and not slides_in_place(holder)


def slides_in_place(layer: Any) -> bool:
    return bool(getattr(layer, "is_sliding", False)) and hasattr(layer, "max_cache_len")


class Snapshot:
    """Keeps the content of a cache at one moment, to restore it later.

    Keys and values that only grow need no copy: a cache that grows makes new
    tensors, and a static one ignores what lies beyond its length. States and
    windows are overwritten, so they are copied.
    """

    def __init__(self, cache: Any) -> None:
        self.plain = [(layer, _plain(layer)) for layer in _layers(cache)]
        self.places: list[tuple[Any, Any, torch.Tensor]] = []
        self.targets: list[torch.Tensor] = []
        self.copies: list[torch.Tensor] = []
        for name, holder, key, tensor in tensors(cache):
            self.places.append((holder, key, tensor))
            if not appends(holder, name):
                self.targets.append(tensor)
                self.copies.append(tensor.clone())

    @torch.no_grad()
    def restore(self) -> None:
        for layer, values in self.plain:
            for name, value in values.items():
                setattr(layer, name, dict(value) if isinstance(value, dict) else value)
        for holder, key, tensor in self.places:
            if isinstance(holder, (dict, list)):
                holder[key] = tensor
            else:
                setattr(holder, key, tensor)
        if self.targets:
            torch._foreach_copy_(self.targets, self.copies)


def _layers(cache: Any) -> list[Any]:
    return [cache, *getattr(cache, "layers", [])]


def _plain(layer: Any) -> dict[str, Any]:
    """Lists the numbers and flags of a layer, and its dictionaries of them."""

    def kept(value: Any) -> bool:
        if isinstance(value, dict):
            return all(isinstance(v, (bool, int)) for v in value.values())
        return isinstance(value, (bool, int))

    return {
        name: dict(value) if isinstance(value, dict) else value for name, value in vars(layer).items() if kept(value)
    }


def empty_static(cache: Any) -> None:
    """Empties a static cache without overwriting all of its keys and values."""
    for layer in cache.layers:
        append_only = hasattr(layer, "max_cache_len") and not slides_in_place(layer)
        if append_only and not hasattr(layer, "recurrent_states") and hasattr(layer, "cumulative_length"):
            layer.cumulative_length.zero_()
        else:
            layer.reset()
