#!/usr/bin/env python3
"""Writes the configurations that run.sh measures: models.py FOLDER, from models.json and experiments/h200-hybrids/models, at the repository's root."""
import json
import pathlib
import sys

FULL = {"llama3.1-8b": "LlamaForCausalLM", "qwen3.5-9b": None, "deepseek-v2-lite": "DeepseekV2ForCausalLM", "gpt-oss-20b": "GptOssForCausalLM", "gpt-oss-120b": "GptOssForCausalLM",
        "gemma3-12b": "Gemma3ForCausalLM", "qwen3-30b-a3b": "Qwen3MoeForCausalLM"}
MORE = {"deepseek-v2-lite": {"n_group": 1, "topk_group": 1, "topk_method": "greedy", "scoring_func": "softmax", "norm_topk_prob": False,
                               "routed_scaling_factor": 1.0, "rope_theta": 10000, "rms_norm_eps": 1e-6},
        "gpt-oss-20b": {"head_dim": 64, "rope_theta": 150000, "rms_norm_eps": 1e-5, "swiglu_limit": 7.0, "initial_context_length": 4096,
                        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                                         "original_max_position_embeddings": 4096}, "eos_token_id": 200002, "pad_token_id": 199999}}
MORE["gpt-oss-120b"] = MORE["gpt-oss-20b"]
MORE["qwen3-30b-a3b"] = {"norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "rope_theta": 1000000, "rms_norm_eps": 1e-6}
LAYERS = 12
TOWER = {"depth": 1, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 0, "patch_size": 16, "spatial_merge_size": 2,
         "temporal_patch_size": 2, "in_channels": 3, "num_position_embeddings": 64, "deepstack_visual_indexes": []}


def nested(text):
    """The checkpoint's form of a hybrid, which SGLang asks for, with a tower of one small layer."""
    moe = "num_experts" in text
    text = {k: v for k, v in text.items() if k not in ("vision_config", "architectures") and not k.startswith("mtp_")}
    text |= {"model_type": "qwen3_5_moe_text" if moe else "qwen3_5_text", "torch_dtype": "bfloat16", "dtype": "bfloat16"}
    text.setdefault("rope_parameters", {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10], "mrope_interleaved": True})
    return {"architectures": ["Qwen3_5MoeForConditionalGeneration" if moe else "Qwen3_5ForConditionalGeneration"],
            "model_type": "qwen3_5_moe" if moe else "qwen3_5", "text_config": text, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "vision_config": {**TOWER, "out_hidden_size": text["hidden_size"], "model_type": "qwen3_5_moe" if moe else "qwen3_5"},
            "image_token_id": 30001, "video_token_id": 30002, "vision_start_token_id": 30003, "vision_end_token_id": 30004}


def main():
    to = pathlib.Path(sys.argv[1])
    configs = {m["name"]: m["config"] for m in json.load(open("models.json"))}
    out = {}
    for name, architecture in FULL.items():
        c = configs[name]
        out[name] = {**c, **MORE.get(name, {}), "architectures": [architecture], "torch_dtype": "bfloat16"} if architecture else nested(c)
    for name in ("dense", "hybrid", "moe-hybrid", "mla", "moe"):
        c = json.load(open(f"experiments/h200-hybrids/models/{name}/config.json"))
        out[name] = nested(c) if name.endswith("hybrid") else {**c, **(MORE["deepseek-v2-lite"] if name == "mla" else {})}
    short = out["gpt-oss-20b"]
    out["gpt-oss"] = {**short, "num_hidden_layers": LAYERS, "layer_types": short["layer_types"][:LAYERS], "vocab_size": 32768, "eos_token_id": 2, "pad_token_id": 1}
    for name, c in out.items():
        (to / name).mkdir(parents=True, exist_ok=True)
        (to / name / "config.json").write_text(json.dumps(c, indent=1))


main()
