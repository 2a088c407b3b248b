"""Writes a checkpoint with a tokenizer of the config named first into the directory named second, and
into the third the same with Python of its own.
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

config = AutoConfig.from_pretrained(sys.argv[1])
plain, custom = map(Path, sys.argv[2:])
torch.manual_seed(11)
model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
words = {f"w{i}": i for i in range(config.vocab_size)}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
for folder in plain, custom:
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)
(custom / "own.py").write_text(
    "from transformers import LlamaConfig, LlamaForCausalLM\n\n\n"
    'class Config(LlamaConfig):\n    model_type = "own"\n\n\n'
    "class Model(LlamaForCausalLM):\n    config_class = Config\n"
)
path = custom / "config.json"
written = json.loads(path.read_text())
written["model_type"] = "own"
written["auto_map"] = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
path.write_text(json.dumps(written))
