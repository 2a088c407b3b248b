"""Prints how many experts of the last layer a random prompt hits.

Each argument is a load of the worker as JSON; out goes a pair for each: with the
embeddings that the worker gives a mixture, and with those of transformers.
"""

import json
import sys
from typing import Any

import torch

from llmprof_worker import loading
from llmprof_worker.prompts import make_prompts
from llmprof_worker.ranks import Rank


def hit(load: dict[str, Any], spread: bool) -> int:
    model = loading.load_model(load, Rank()).model
    config = model.config.get_text_config()
    if not spread:
        model.get_input_embeddings().weight.normal_(0, config.initializer_range)
    layer = model.model.layers[-1].mlp
    scores: list[torch.Tensor] = []
    layer.gate.register_forward_pre_hook(lambda module, inputs: scores.append(inputs[0] @ module.weight.T))
    with torch.inference_mode():
        model(make_prompts(load, config.vocab_size)[0])
    chosen = scores[0].reshape(-1, config.num_experts).topk(config.num_experts_per_tok).indices
    return chosen.unique().numel()


print(json.dumps([[hit(json.loads(a), spread) for spread in (True, False)] for a in sys.argv[1:]]))
