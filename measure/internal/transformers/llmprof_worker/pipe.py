"""Implements the pipe to the driver, with one JSON object a line in each direction."""

import json
import os
import queue
import sys
import threading
import time
from typing import Any

now = time.monotonic_ns


class Channel:
    """Reads commands and writes events. On ranks other than 0 it writes nothing."""

    def __init__(self, leads: bool) -> None:
        self.leads = leads
        self.stopped = threading.Event()
        self.commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8") if leads else None
        os.dup2(2, 1)  # The output of libraries goes to the log.
        if not leads:
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)

    def listen(self) -> None:
        """Starts the thread that reads, because "stop" arrives while a phase runs."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "stop":
                self.stopped.set()
            else:
                self.commands.put(command)
        os._exit(0)  # The driver has ended.

    def next_command(self) -> dict[str, Any]:
        command = self.commands.get()
        self.stopped.clear()
        return command

    def send(self, event: str, **fields: Any) -> None:
        self.send_all([(event, fields)])

    def send_all(self, events: list[tuple[str, dict[str, Any]]]) -> None:
        if self.out is None:
            return
        lines = [json.dumps({"event": name, name: fields}, allow_nan=False) for name, fields in events]
        self.out.write("\n".join(lines) + "\n")
        self.out.flush()
