"""Writes a tiny Llama with random weights and a tokenizer of words into the directory named.

It has no end-of-sequence token, so an answer has all the tokens asked for. Words that
follow the directory are tokens too.
"""

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

config = LlamaConfig(
    hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=1000, max_position_embeddings=2048, bos_token_id=None, eos_token_id=None,
)
torch.manual_seed(11)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
words = {f"w{i}": i for i in range(config.vocab_size - len(sys.argv[2:]))}
words |= {word: len(words) + i for i, word in enumerate(sys.argv[2:])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, unk_token="w0",
    chat_template="{% for m in messages %}{{ m['content'] }} {% endfor %}",
).save_pretrained(sys.argv[1])
