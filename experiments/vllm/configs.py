#!/usr/bin/env python3
"""Write the folder of a model for vLLM from the program's table: configs.py FOLDER MODEL...

Each gets config.json, and a tokenizer that has one word for each token, for the HTTP server decodes what it sends.
"""
import json
import pathlib
import sys

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
                 "qwen3_moe": "Qwen3MoeForCausalLM", "mistral": "MistralForCausalLM", "mixtral": "MixtralForCausalLM",
                 "gpt_oss": "GptOssForCausalLM", "olmoe": "OlmoeForCausalLM"}


def write(folder, model, tokenizer):
    config = dict(model["config"])
    config["architectures"] = [ARCHITECTURES[config["model_type"]]]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    if not tokenizer:
        return
    vocab = {f"w{i}": i for i in range(config["vocab_size"])}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}))


def main():
    table = {m["name"]: m for m in json.load(open(pathlib.Path(__file__).resolve().parents[2] / "models.json"))}
    for name in sys.argv[2:]:
        write(pathlib.Path(sys.argv[1]) / name.removesuffix("+tokenizer"), table[name.removesuffix("+tokenizer")], name.endswith("+tokenizer"))


main()
