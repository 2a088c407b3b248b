"""Runs the loop that takes commands: rank 0 from the pipe, the other ranks from rank 0."""

import ctypes
import gc
import os
import signal
import sys
from typing import Any

from . import pipe, ranks
from .failures import Failure, classify
from .hello import hello, require_libraries


class Worker:
    """Keeps the loaded model and executes the commands for it."""

    def __init__(self, channel: pipe.Channel, rank: ranks.Rank) -> None:
        self.channel, self.rank = channel, rank
        self.session: Any = None

    def obey(self, command: dict[str, Any]) -> None:
        do = command["do"]
        if do == "load":
            self.load(command["load"])
            return
        if do == "bench":
            self.bench(command["bench"])
            return
        if self.session is None:
            raise Failure("invalid", f"{do} came before load")
        if do == "prepare":
            self.session.prepare(command["run"]["phase"])
            now = pipe.now()
            self.channel.send("done", passes=0, begin_ns=now, end_ns=now)
        elif do == "run":
            self.session.run(command["run"], self.channel)
        elif do == "size":
            self.channel.send("size", **self.session.sizes())
        elif do == "trace":
            self.channel.send("traced", **self.session.trace(command["trace"]))
        elif do == "ops":
            raise Failure(
                "unsupported",
                "transformers runs a step as a whole: its operators cannot be replayed one by one; the native engine's can",
            )
        else:
            raise Failure("invalid", f"no command {do!r}")

    def load(self, load: dict[str, Any]) -> None:
        require_libraries()
        from .session import Session  # imports torch

        self.session = None
        gc.collect()
        self.session = Session(load, self.rank)
        self.channel.send("ready", **self.session.ready())

    def bench(self, bench: dict[str, Any]) -> None:
        require_libraries()
        from . import bench as operators  # imports torch

        if self.session is not None:
            self.session = None
            gc.collect()
        self.channel.send("timed", **operators.run(bench, self.rank))


def main() -> int:
    die_with_parent()
    rank = ranks.Rank()
    channel = pipe.Channel(rank.leads)
    if rank.leads:
        channel.send("hello", **hello())
        channel.listen()
    worker = Worker(channel, rank)
    while True:
        command = rank.share(channel.next_command)
        if command["do"] == "quit":
            rank.leave()
            return 0
        try:
            worker.obey(command)
        except BaseException as error:  # The driver gets every error.
            failure = classify(error)
            if not rank.leads:  # The error of another rank reaches nobody else.
                print(f"rank {rank.rank}: {failure.kind}: {failure.message}", file=sys.stderr)
            fatal = failure.fatal or rank.world > 1  # The other ranks may be inside a collective.
            channel.send("error", kind=failure.kind, message=failure.message, fatal=fatal)
            if fatal:
                return 1


def die_with_parent() -> None:
    """Makes Linux end this process when its parent ends.

    torchrun starts each rank in a new session, which a signal to the driver's
    process group does not reach.
    """
    if sys.platform == "linux":
        set_pdeathsig = 1  # PR_SET_PDEATHSIG of linux/prctl.h
        ctypes.CDLL(None).prctl(set_pdeathsig, signal.SIGKILL)


def serve() -> None:
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # The exit handlers of CUDA and NCCL can hang.
