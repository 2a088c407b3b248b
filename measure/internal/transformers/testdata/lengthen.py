"""Prints the kernels' inputs of an operator once through, and of what a graph would hold of it.

Each argument is a kind and a shape as JSON; a pair of the buffers that each call reads, by number, goes out for each.
"""

import json
import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from llmprof_worker.bench import Maker, Operator
from llmprof_worker.ranks import Rank


class Reads(TorchDispatchMode):
    """Notes the memory of the second argument of each product, and of the first of all else."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket == torch.ops.aten.mm:
            self.seen.append(args[1].untyped_storage().data_ptr())
        if func.overloadpacket in (torch.ops.aten.sum, torch.ops.aten.mul):
            self.seen.append(args[0].untyped_storage().data_ptr())
        return func(*args, **(kwargs or {}))


def reads(operator: Operator) -> list[int]:
    with Reads() as mode:
        operator.body()
    order = list(dict.fromkeys(mode.seen))
    return [order.index(at) for at in mode.seen]


def both(kind: str, shape: dict[str, int]) -> list[Any]:
    maker = Maker({"dtype": "fp32", "rotate": 1 << 16}, torch.device("cpu"), Rank())
    operator = getattr(maker, kind)(**shape)
    once, before = reads(operator), operator.calls
    operator.lengthen()
    return [once, before, reads(operator), operator.calls]


with torch.inference_mode():
    print(json.dumps([both(argument["kind"], argument["shape"]) for argument in map(json.loads, sys.argv[1:])]))
