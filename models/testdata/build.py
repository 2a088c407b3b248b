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


def build(model_type, name):
    cls, config = getattr(transformers, name), CONFIG_MAPPING[model_type]()
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
