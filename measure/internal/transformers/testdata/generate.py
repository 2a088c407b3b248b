"""Prints what transformers' own generate chooses for loads of the worker.

Each argument is a load as JSON; the tokens go out as JSON: a list a load, in it a
step a row.
"""

import json
import sys
from typing import Any

import torch

from llmprof_worker.loading import load_model
from llmprof_worker.prompts import make_prompts
from llmprof_worker.ranks import Rank


def generate(load: dict[str, Any]) -> list[list[int]]:
    model = load_model(load, Rank()).model
    prompt = make_prompts(load, model.config.get_text_config().vocab_size)[0]
    model.generation_config.eos_token_id = None
    with torch.inference_mode():
        out = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=load["gen_len"],
            min_new_tokens=load["gen_len"],
            pad_token_id=0,
        )
    return out[:, prompt.shape[1] :].T.tolist()


print(json.dumps([generate(json.loads(argument)) for argument in sys.argv[1:]]))
