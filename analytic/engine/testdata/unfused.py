"""Counts what the element-wise kernels of a layer move in transformers, as JSON on stdout.

    python3 unfused.py ../../../models.json > unfused.json

A model of two layers runs one prefill on the meta device, which computes
nothing; each operation that torch dispatches reads its inputs once and writes
its outputs once. Attention itself is taken out.
"""
import json
import sys

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

TOKENS = 1024
VIEWS = {"view", "t", "transpose", "unsqueeze", "expand", "slice", "_unsafe_view", "alias", "detach"}
PARTS = {"layernorm": "norm", "layer_norm": "norm", "q_norm": "rotary", "k_norm": "rotary", "self_attn": "rotary",
         "act_fn": "activation", "act": "activation", "attn": "attention", "activation_fn": "activation", "mlp": "activation"}


def no_attention(module, query, key, value, mask, **rest):
    b, h, s, _ = query.shape
    return query.new_empty(b, s, h, value.shape[-1]), None


class Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.inside, self.parts = [], {}

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        out = call(*args, **(kwargs or {}))
        name, module = call.overloadpacket.__name__, self.inside[-1] if self.inside else ""
        if not (".layers.1" in module or ".h.1" in module) or name in VIEWS or name in ("mm", "addmm", "new_empty", "empty"):
            return out
        reads = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        writes = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
        last = module.rsplit(".", 1)[-1]
        part = next((p for end, p in PARTS.items() if last.endswith(end)), "norm")  # of the layer itself: the residual sum
        if name == "cat" and any(t.numel() == 0 for t in reads):
            part = "kv_write"
        # What is broadcast, as cos and sin over the heads, and weights and means are of no account.
        whole = max((t.numel() for t in reads + writes), default=0)
        if whole == 0:
            return out
        kernels, moved = self.parts.get(part, (0, 0))
        moved += sum(t.numel() * t.element_size() for t in reads + writes if 2 * t.numel() >= whole)
        self.parts[part] = (kernels + 1, moved)
        return out


def count(config, dtype):
    ALL_ATTENTION_FUNCTIONS.register("none", no_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("none", lambda *args, **kwargs: None)
    config = AutoConfig.for_model(**config | ({"n_layer": 2} if "n_layer" in config else {"num_hidden_layers": 2, "layer_types": None}), attn_implementation="none")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    counter = Counter()
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: counter.inside.append(name))
        module.register_forward_hook(lambda *_: counter.inside.pop() and None)
    with torch.no_grad(), counter:
        model(input_ids=torch.zeros(1, TOKENS, dtype=torch.long, device="meta"), use_cache=True)
    return counter.parts


def main():
    table = {m["name"]: m["config"] for m in json.load(open(sys.argv[1]))}
    rows = []
    for name, dtype in [("llama3.1-8b", "bf16"), ("llama3.1-8b", "fp32"), ("qwen2.5-7b", "bf16"), ("qwen3-8b", "bf16"),
                        ("opt-1.3b", "bf16"), ("opt-1.3b", "fp32"), ("gpt2-large", "fp32")]:
        parts = count(table[name], dict(bf16=torch.bfloat16, fp32=torch.float32)[dtype])
        for part, (kernels, moved) in sorted(parts.items()):
            rows.append(dict(model=name, dtype=dtype, part=part, kernels=kernels, bytes=moved))
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    print(f'{{"transformers": "{transformers.__version__}", "tokens": {TOKENS}, "rows": [\n{lines}\n]}}')


main()
