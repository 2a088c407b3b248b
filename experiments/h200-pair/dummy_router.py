#!/usr/bin/env python3
"""How many experts tokens choose by the router of a layer of gpt-oss-20b with dummy weights, which are uniform within 1e-3, those of norms too."""
import torch

torch.manual_seed(0)
tokens, hidden, experts, chosen = 128, 2880, 32, 4


def dummy(*shape):
    return torch.empty(*shape).uniform_(-1e-3, 1e-3)


states = torch.randn(tokens, hidden)
normed = states / states.pow(2).mean(-1, keepdim=True).sqrt() * dummy(hidden)
products, bias = normed @ dummy(experts, hidden).T, dummy(experts)
used = set((products + bias).topk(chosen).indices.flatten().tolist())
print(f"{tokens} tokens use {len(used)} of {experts} experts: products of tokens scatter by {products.std():.1g}, biases by {bias.std():.1g}")
