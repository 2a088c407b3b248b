#!/usr/bin/env python3
"""Write a model of the program's table as a GGUF file with random weights: gguf.py FILE MODEL q4_k_m|q8_0|f16

Types of tensors are those that llama-quantize chooses. Block scales are small and finite, so that no activation overflows;
all other bits are random, so that products draw the power of real ones.
"""
import json
import os
import pathlib
import random
import struct
import sys

F32, F16, Q8_0, Q4_K, Q6_K = 0, 1, 8, 12, 14
BLOCK = {F32: (1, 4), F16: (1, 2), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210)}
ALIGN, TILE = 32, 4096
NAMES = {"llama": "llama", "qwen3": "qwen3", "qwen3_moe": "qwen3moe"}


def half(x):
    return struct.pack("<e", x)


def block(kind):
    """Return one block of random weights with a standard deviation near 0.02."""
    if kind == F16:
        return struct.pack("<H", random.choice((0x2400, 0xA400)) | random.getrandbits(10))
    if kind == Q8_0:
        return half(2.7e-4) + os.urandom(32)
    if kind == Q4_K:
        return half(6e-5) + half(4.5e-4) + os.urandom(140)
    return os.urandom(208) + half(1.5e-5)


def data(kind, count, tiles={}):
    """Return the bytes of count weights."""
    if kind == F32:
        return struct.pack("<f", 1.0) * count
    values, size = BLOCK[kind]
    if kind not in tiles:
        tiles[kind] = b"".join(block(kind) for _ in range(TILE * (64 if kind == F16 else 1)))
    tile, length = tiles[kind], count // values * size
    return tile * (length // len(tile)) + tile[:length % len(tile)]


def more_bits(layer, layers):
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def tensors(c, mix):
    """Yield name, shape (fastest dimension first) and type of each tensor."""
    layers, hidden, vocab = c["num_hidden_layers"], c["hidden_size"], c["vocab_size"]
    head = c.get("head_dim") or hidden // c["num_attention_heads"]
    q, kv = head * c["num_attention_heads"], head * c["num_key_value_heads"]
    base = {"q4_k_m": Q4_K, "q8_0": Q8_0, "f16": F16}[mix]
    best = Q6_K if mix == "q4_k_m" else base
    yield "token_embd.weight", (hidden, vocab), best if c["tie_word_embeddings"] else base
    for i in range(layers):
        high = best if more_bits(i, layers) else base
        p = f"blk.{i}."
        yield p + "attn_norm.weight", (hidden,), F32
        yield p + "attn_q.weight", (hidden, q), base
        yield p + "attn_k.weight", (hidden, kv), base
        yield p + "attn_v.weight", (hidden, kv), high
        yield p + "attn_output.weight", (q, hidden), base
        if c["model_type"].startswith("qwen3"):
            yield p + "attn_q_norm.weight", (head,), F32
            yield p + "attn_k_norm.weight", (head,), F32
        yield p + "ffn_norm.weight", (hidden,), F32
        if "num_experts" in c:
            n, wide = c["num_experts"], c["moe_intermediate_size"]
            yield p + "ffn_gate_inp.weight", (hidden, n), F32
            yield p + "ffn_gate_exps.weight", (hidden, wide, n), base
            yield p + "ffn_up_exps.weight", (hidden, wide, n), base
            yield p + "ffn_down_exps.weight", (wide, hidden, n), high
            continue
        yield p + "ffn_gate.weight", (hidden, c["intermediate_size"]), base
        yield p + "ffn_up.weight", (hidden, c["intermediate_size"]), base
        yield p + "ffn_down.weight", (c["intermediate_size"], hidden), high
    yield "output_norm.weight", (hidden,), F32
    if not c["tie_word_embeddings"]:
        yield "output.weight", (hidden, vocab), best


def metadata(c, name):
    arch = NAMES[c["model_type"]]
    yield "general.architecture", arch
    yield "general.name", name
    yield "general.alignment", ALIGN
    yield "tokenizer.ggml.model", "no_vocab"
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    keys = {"vocab_size": c["vocab_size"], "context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"],
            "block_count": c["num_hidden_layers"], "feed_forward_length": c["intermediate_size"],
            "attention.head_count": c["num_attention_heads"], "attention.head_count_kv": c["num_key_value_heads"],
            "attention.key_length": head, "attention.value_length": head, "rope.dimension_count": head,
            "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 500000.0}
    if "num_experts" in c:
        keys |= {"expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"],
                 "expert_feed_forward_length": c["moe_intermediate_size"]}
    yield from ((f"{arch}.{k}", v) for k, v in keys.items())


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(v):
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def main():
    path, name, mix = sys.argv[1:]
    table = {m["name"]: m for m in json.load(open(pathlib.Path(__file__).parents[2] / "models.json"))}
    config = table[name]["config"]
    rows, meta, offset = list(tensors(config, mix)), list(metadata(config, name)), 0
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(meta)))
        for k, v in meta:
            f.write(text(k) + value(v))
        for tensor, shape, kind in rows:
            f.write(text(tensor) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
            size = count(shape) // BLOCK[kind][0] * BLOCK[kind][1]
            offset += -(-size // ALIGN) * ALIGN
        f.write(b"\0" * (-f.tell() % ALIGN))
        for _, shape, kind in rows:
            f.write(data(kind, count(shape)))
            f.write(b"\0" * (-f.tell() % ALIGN))
    print(f"{path}: {offset / 1e9:.2f} GB in {len(rows)} tensors")


main()
