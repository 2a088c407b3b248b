"""The scores that transformers gives, for the engine's to be held against.

logits.py write FOLDER CONFIG...    a checkpoint in bf16 for each config.json, in FOLDER/0, FOLDER/1, ...: random weights as
                                    transformers initializes them, and norms and biases that are not 1 and 0; a config
                                    whose name ends in 8b is too large for one thread, and is made by the GPU, one that
                                    begins with "scaled" has the weights that scaled() says
logits.py score REQUEST ANSWER      REQUEST is JSON: a list of {folder, sequences, first, how}; ANSWER gets the scores of
                                    every position from first on as little-endian float32, one request after the other

Weights are read back as they were written. How is "exact", or nothing: all else is in float64; "rounded": as rounded()
says; "bfloat16": as transformers computes in that.
"""

import contextlib
import copy
import json
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def scaled(model: torch.nn.Module) -> None:
    """A token's own vector of deviation 1, and what a block adds to it divided by the square root of the number of blocks
    (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", 2.3): what a block adds is then a small
    part of the stream, as in a trained model."""
    model.get_input_embeddings().weight.normal_(0.0, 1.0)
    for key, parameter in model.named_parameters():
        if key.endswith(("o_proj.weight", "down_proj.weight")):
            parameter.mul_((2 * model.config.num_hidden_layers) ** -0.5)


@contextlib.contextmanager
def rounded(model: torch.nn.Module):
    """What enters a product, and keys and values, are rounded to bf16, and nothing else: what an engine cannot do without
    whose products and cache are in bf16."""
    hooks = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            hooks.append(module.register_forward_pre_hook(lambda _, x: tuple(v.bfloat16().to(v.dtype) for v in x)))
            if name.endswith(("k_proj", "v_proj")):
                hooks.append(module.register_forward_hook(lambda _, __, y: y.bfloat16().to(y.dtype)))
    yield
    for hook in hooks:
        hook.remove()


def write(folder: str, configs: list[str]) -> None:
    for index, name in enumerate(configs):
        torch.manual_seed(index)
        large = Path(name).stem.endswith("8b")
        with torch.device(DEVICE if large else "cpu"):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), dtype=torch.float32)
        with torch.no_grad():
            if Path(name).stem.startswith("scaled"):
                scaled(model)
            for key, parameter in model.named_parameters():
                if "norm" in key:  # it would multiply by 1, and a bias be 0
                    parameter.add_(torch.randn_like(parameter), alpha=0.05)
                elif key.endswith("bias"):
                    parameter.normal_(0.0, 0.02)
        model.to(torch.bfloat16).save_pretrained(Path(folder) / str(index), max_shard_size="4GB" if large else "1MB")


def plain(folder: str) -> dict[str, str]:
    """Torch's own attention keeps no soft cap, and its product of experts knows no float64."""
    config = AutoConfig.from_pretrained(folder)
    out = {"attn_implementation": "eager"} if getattr(config, "attn_logit_softcapping", None) else {}
    if getattr(config, "num_experts_per_tok", None):
        out["experts_implementation"] = "eager"
    return out


def score(request: str, answer: str) -> None:
    folder, models = "", {}
    with Path(answer).open("wb") as out, torch.inference_mode():
        for asked in json.loads(Path(request).read_text()):
            if asked["folder"] != folder:
                folder = asked["folder"]
                models.clear()
                models["bfloat16"] = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **plain(folder)).to(DEVICE)
                models["exact"] = models["rounded"] = copy.deepcopy(models["bfloat16"]).double()
            how = asked.get("how") or "exact"
            model = models[how]
            with rounded(model) if how == "rounded" else contextlib.nullcontext():
                for sequence in asked["sequences"]:
                    scores = model(torch.tensor([sequence], device=DEVICE)).logits[0, asked["first"] :]
                    out.write(scores.float().cpu().contiguous().numpy().tobytes())


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3:])
else:
    score(sys.argv[2], sys.argv[3])
