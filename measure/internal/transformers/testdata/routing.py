"""Prints how many experts a random prompt hits in each layer of a deep random mixture.

Layers of transformers in the shape of Qwen3-30B-A3B, but for the width of an expert,
one after the other in the same memory:

    python3 routing.py LAYERS TOKENS WIDTH DEVIATION...

Of each deviation of the embedding it says how many of the 128 experts are hit, how many
tokens the busiest has, and how long the mean of the tokens' directions is (1: all alike).
"""

import sys

import torch
from transformers import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeDecoderLayer, Qwen3MoeRotaryEmbedding

EXPERTS, TOP, HIDDEN = 128, 8, 2048


def main(layers: int, tokens: int, width: int, deviations: list[float]) -> None:
    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        hidden_size=HIDDEN,
        moe_intermediate_size=width,
        num_experts=EXPERTS,
        num_experts_per_tok=TOP,
        num_hidden_layers=1,
        num_attention_heads=32,
        num_key_value_heads=4,
        head_dim=128,
        norm_topk_prob=True,
        vocab_size=32,
    )
    config._attn_implementation = "sdpa"
    layer = Qwen3MoeDecoderLayer(config, 0).eval()
    positions = torch.arange(tokens)[None]
    streams = [torch.randn(1, tokens, HIDDEN) * d for d in deviations]
    turned = Qwen3MoeRotaryEmbedding(config)(streams[0], positions)
    scores: list[torch.Tensor] = []
    layer.mlp.gate.register_forward_pre_hook(lambda module, inputs: scores.append(inputs[0] @ module.weight.T))
    for i in range(layers):
        for name, weight in layer.named_parameters():
            if "norm" not in name:
                weight.normal_(0, 0.02)
        line = [f"layer {i}"]
        for k, x in enumerate(streams):
            scores.clear()
            out = layer(x, position_embeddings=turned, position_ids=positions, attention_mask=None)
            streams[k] = out[0] if isinstance(out, tuple) else out
            chosen = scores[0].reshape(-1, EXPERTS).topk(TOP).indices.flatten().bincount(minlength=EXPERTS)
            directions = torch.nn.functional.normalize(streams[k].reshape(tokens, HIDDEN), dim=-1)
            common = directions.mean(0).norm().item()
            line.append(f"{deviations[k]}: {int((chosen > 0).sum())} hit, busiest {int(chosen.max())}, common {common:.2f}")
        print(" | ".join(line), flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main(*map(int, sys.argv[1:4]), [float(d) for d in sys.argv[4:]])
