"""Write the configuration of every causal decoder and of every model of images and text that transformers builds at its
defaults, with the parameters that it counts, to a file: python build.py FILE.jsonl.gz. It needs torch and
transformers 5.24 and builds on the meta device, in a minute and without a GPU. Some have the names and shapes of their tensors."""
import gzip, json, sys, warnings
warnings.filterwarnings("ignore")
import torch, transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.logging.set_verbosity_error()

# Families of which the tensors alone are to tell the shape.
TENSORS = """llama mistral qwen2 qwen3 qwen2_moe qwen3_moe qwen3_next qwen3_5_text qwen3_5_moe_text mixtral olmo olmo2 olmo3 olmoe gemma
gemma2 gemma3_text phi3 granite granitemoe glm glm4 glm4_moe deepseek_v2 deepseek_v3 seed_oss ernie4_5 ernie4_5_moe exaone4 starcoder2
stablelm cohere cohere2 smollm3 minimax_m2 mellum lfm2 bamba helium arcee gpt_oss solar_open youtu minicpm3 afmoe hy_v3 axk1 flint kolibri1
lara_mini mamba2 falcon_mamba apertus nanochat bitnet cwm""".split()


def build(model_type, name, **settings):
    cls, config = getattr(transformers, name), CONFIG_MAPPING[model_type](**settings)
    try:
        with torch.device("meta"):
            model = cls(config)
    except Exception:  # a class of the decoder alone, whose config is a part of that of the model_type
        with torch.device("meta"):
            model = cls(config.get_text_config())
    row = {"model_type": model_type, "class": name, "params": sum(p.numel() for p in model.parameters())}
    row["config"] = config.to_dict() | {"architectures": [name]}
    if model_type in TENSORS:
        row["tensors"] = [[n, list(p.shape)] for n, p in model.named_parameters()]
    return row


def set_up():
    """Further settings: tables of n-grams and an indexer, shared caches."""
    grams = dict(ple_layer_ids=[2, 6], eos_token_id=1, ngram_vocab_size_base=200000, indexer_n_heads=8, indexer_kv_heads=1,
                 indexer_head_dim=128, indexer_budget=2048, indexer_compress_ratio=16,
                 rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25})
    shared = dict(kv_source_layers=[i if i < 40 or i % 2 == 0 else i - 1 for i in range(72)], index_topk_freq=2)
    yield "qwen4_exp_text", "Qwen4ExpForCausalLM", grams
    yield "qwen4_exp", "Qwen4ExpForConditionalGeneration", {"text_config": grams}
    yield "mistral_large4", "MistralLarge4ForConditionalGeneration", {"text_config": shared}


with gzip.GzipFile(sys.argv[1], "wb", mtime=0) as out:
    for mapping in ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"):
        for model_type, name in getattr(modeling_auto, mapping).items():
            try:
                row = build(model_type, name if isinstance(name, str) else name[0])
            except Exception as e:
                print(model_type, name, "is not built at its defaults:", str(e)[:120].replace("\n", " "), file=sys.stderr)
                continue
            row["causal"] = mapping.startswith("MODEL_FOR_CAUSAL")
            out.write((json.dumps(row, default=str) + "\n").encode())
    for model_type, name, settings in set_up():
        row = build(model_type, name, **settings) | {"causal": name.endswith("ForCausalLM")}
        out.write((json.dumps(row, default=str) + "\n").encode())
