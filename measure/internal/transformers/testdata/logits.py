"""Prints how many positions of a prompt the LM head runs on, in a prefill and a step.

Each argument is a load of the worker as JSON; a pair goes out for each.
"""

import json
import sys
from typing import Any

import torch

from llmprof_worker.ranks import Rank
from llmprof_worker.session import Session


def positions(load: dict[str, Any]) -> list[int]:
    session = Session(load, Rank())
    found: list[int] = []

    def note(module: Any, inputs: Any, output: torch.Tensor) -> None:
        found.append(output.shape[1])

    session.loaded.model.lm_head.register_forward_hook(note)
    with torch.inference_mode():
        session.stepper.clear()
        session.stepper.prefill(session.prompts[0])
        session.stepper.step()
    return found


print(json.dumps([positions(json.loads(argument)) for argument in sys.argv[1:]]))
