"""Implements the ranks of one model, which torchrun starts. Only rank 0 talks to the driver."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

# If a collective takes longer than this, a rank has ended. The time is long because ranks
# also wait in a collective for their next command.
PATIENCE = timedelta(days=2)


class Rank:
    """Is this process among those that torchrun started, or the only one without torchrun."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.local = int(os.environ.get("LOCAL_RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.leads = self.rank == 0
        self.group: Any = None

    def join(self) -> None:
        """Connects to the other ranks, by NCCL for the model and by Gloo for commands."""
        if self.world == 1 or self.group is not None:
            return
        import torch
        import torch.distributed as dist

        if torch.cuda.is_available():
            torch.cuda.set_device(self.local)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend)
        self.group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def share(self, make: Callable[[], Any]) -> Any:
        """Returns on every rank what rank 0 makes."""
        if self.world == 1:
            return make()
        import torch.distributed as dist

        self.join()
        box = [make() if self.leads else None]
        dist.broadcast_object_list(box, src=0, group=self.group)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Returns on every rank the values of all."""
        if self.world == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value, group=self.group)
        return values

    def leave(self) -> None:
        if self.group is not None:
            import torch.distributed as dist

            dist.barrier(group=self.group)
