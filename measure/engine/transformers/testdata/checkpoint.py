"""Writes a checkpoint with a tokenizer into the directory named first.

The second argument is the config; a third, "code", has the model come with
Python of its own.
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

folder = Path(sys.argv[1])
config = AutoConfig.from_pretrained(sys.argv[2])
torch.manual_seed(11)
AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
words = {f"w{i}": i for i in range(config.vocab_size)}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)
if sys.argv[3:] == ["code"]:
    (folder / "own.py").write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n\n\n"
        'class Config(LlamaConfig):\n    model_type = "own"\n\n\n'
        "class Model(LlamaForCausalLM):\n    config_class = Config\n"
    )
    path = folder / "config.json"
    written = json.loads(path.read_text())
    written["model_type"] = "own"
    written["auto_map"] = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    path.write_text(json.dumps(written))
