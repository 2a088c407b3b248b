"""The scores that transformers gives, for the engine's to be held against.

logits.py write FOLDER CONFIG...    a checkpoint in bf16 for each config.json, in FOLDER/0, FOLDER/1, ...: random weights as
                                    transformers initializes them, and norms and biases that are not 1 and 0; a config
                                    whose name ends in 8b is too large for one thread, and is made by the GPU
logits.py score REQUEST ANSWER      REQUEST is JSON: a list of {folder, sequences, first}; ANSWER gets the scores of
                                    every position from first on as little-endian float32, one request after the other

Weights are read back as they were written and computed with in float64.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def write(folder: str, configs: list[str]) -> None:
    for index, name in enumerate(configs):
        torch.manual_seed(index)
        large = Path(name).stem.endswith("8b")
        with torch.device(DEVICE if large else "cpu"):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), dtype=torch.float32)
        with torch.no_grad():
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
    folder = ""
    with Path(answer).open("wb") as out, torch.inference_mode():
        for asked in json.loads(Path(request).read_text()):
            if asked["folder"] != folder:
                folder = asked["folder"]
                model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **plain(folder)).to(DEVICE).double()
            for sequence in asked["sequences"]:
                scores = model(torch.tensor([sequence], device=DEVICE)).logits[0, asked["first"] :]
                out.write(scores.float().cpu().contiguous().numpy().tobytes())


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3:])
else:
    score(sys.argv[2], sys.argv[3])
