#!/usr/bin/env python3
"""Write a model of the program's table as GGUF with random weights: gguf.py FILE MODEL. Types are those of llama-quantize in Q4_K_M.

Blocks have a mean of zero, no two experts have the same, and routers are normal. Embeddings are 50 times as large as other weights, so that
what a layer adds to the residual stream, which neighbours have in common, is little beside the token's own: experts are chosen evenly.
"""
import array
import json
import math
import pathlib
import random
import struct
import sys

F32, Q4_K, Q6_K = 0, 12, 14
BLOCK = {F32: (1, 4), Q4_K: (256, 144), Q6_K: (256, 210)}
ALIGN, PART = 32, 1 << 16
NAMES = {"qwen3": "qwen3", "qwen3_moe": "qwen3moe", "olmoe": "olmoe"}
rng = random.Random(7)


def blocks(kind, count, times=1):
    """Return count blocks with a standard deviation near 0.02 times a factor."""
    size = BLOCK[kind][1]
    raw = bytearray(rng.randbytes(count * size))
    if kind == Q4_K:  # all scales and minima are 32, and a minimum is 7.5 steps
        at, fixed = 0, struct.pack("<ee", times * 1.36e-4, times * 7.5 * 1.36e-4) + bytes([160] * 8 + [0] * 4)
    else:
        at, fixed = 208, struct.pack("<e", times * 1.5e-5)
    for i, byte in enumerate(fixed):
        raw[at + i::size] = bytes([byte]) * count
    return raw


def write(f, name, kind, count):
    """Write a tensor in parts, which differ."""
    if kind == F32:
        f.write(array.array("f", (rng.gauss(0, 1) if "gate_inp" in name else 1 for _ in range(count))).tobytes())
    else:
        left = count // BLOCK[kind][0]
        while left > 0:
            f.write(blocks(kind, min(left, PART), 50 if name == "token_embd.weight" else 1))
            left -= PART
    f.write(b"\0" * (-f.tell() % ALIGN))


def more_bits(layer, layers):
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def tensors(c):
    """Yield name, shape (fastest dimension first) and type of each tensor."""
    layers, hidden, vocab = c["num_hidden_layers"], c["hidden_size"], c["vocab_size"]
    head = c.get("head_dim") or hidden // c["num_attention_heads"]
    q, kv = head * c["num_attention_heads"], head * c["num_key_value_heads"]
    norms = (q, kv) if c["model_type"] == "olmoe" else (head, head)
    yield "token_embd.weight", (hidden, vocab), Q4_K
    for i in range(layers):
        high, p = (Q6_K if more_bits(i, layers) else Q4_K), f"blk.{i}."
        yield from ((p + n + ".weight", shape, kind) for n, shape, kind in (
            ("attn_norm", (hidden,), F32), ("attn_q", (hidden, q), Q4_K), ("attn_k", (hidden, kv), Q4_K), ("attn_v", (hidden, kv), high),
            ("attn_output", (q, hidden), Q4_K), ("attn_q_norm", norms[:1], F32), ("attn_k_norm", norms[1:], F32), ("ffn_norm", (hidden,), F32)))
        if "num_experts" in c:
            n, wide = c["num_experts"], c.get("moe_intermediate_size", c["intermediate_size"])
            yield p + "ffn_gate_inp.weight", (hidden, n), F32
            yield p + "ffn_gate_exps.weight", (hidden, wide, n), Q4_K
            yield p + "ffn_up_exps.weight", (hidden, wide, n), Q4_K
            yield p + "ffn_down_exps.weight", (wide, hidden, n), high
            continue
        yield p + "ffn_gate.weight", (hidden, c["intermediate_size"]), Q4_K
        yield p + "ffn_up.weight", (hidden, c["intermediate_size"]), Q4_K
        yield p + "ffn_down.weight", (c["intermediate_size"], hidden), high
    yield "output_norm.weight", (hidden,), F32
    yield "output.weight", (hidden, vocab), Q6_K


def metadata(c, name):
    arch = NAMES[c["model_type"]]
    yield from (("general.architecture", arch), ("general.name", name), ("general.alignment", ALIGN), ("tokenizer.ggml.model", "no_vocab"))
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    keys = {"vocab_size": c["vocab_size"], "context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"],
            "block_count": c["num_hidden_layers"], "feed_forward_length": c["intermediate_size"],
            "attention.head_count": c["num_attention_heads"], "attention.head_count_kv": c["num_key_value_heads"],
            "attention.key_length": head, "attention.value_length": head, "rope.dimension_count": head,
            "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 500000.0}
    if "num_experts" in c:
        keys |= {"expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"]}
        if "moe_intermediate_size" in c:
            keys["expert_feed_forward_length"] = c["moe_intermediate_size"]
    yield from ((f"{arch}.{k}", v) for k, v in keys.items())


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(v):
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)


def main():
    path, name = sys.argv[1:3]
    table = {m["name"]: m for m in json.load(open(pathlib.Path(__file__).parents[2] / "models.json"))}
    config = table[name]["config"]
    if len(sys.argv) > 3:  # fewer layers, to try the file
        config = config | {"num_hidden_layers": int(sys.argv[3])}
    rows, meta, offset = list(tensors(config)), list(metadata(config, name)), 0
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(meta)))
        for k, v in meta:
            f.write(text(k) + value(v))
        for tensor, shape, kind in rows:
            f.write(text(tensor) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
            size = math.prod(shape) // BLOCK[kind][0] * BLOCK[kind][1]
            offset += -(-size // ALIGN) * ALIGN
        f.write(b"\0" * (-f.tell() % ALIGN))
        for tensor, shape, kind in rows:
            write(f, tensor, kind, math.prod(shape))
    print(f"{path}: {offset / 1e9:.2f} GB in {len(rows)} tensors")


main()
