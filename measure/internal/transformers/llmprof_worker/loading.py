"""Loads a model from the hub, a directory, or its config alone with random weights."""

import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from .failures import Failure
from .ranks import Rank

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
ATTENTIONS = ("sdpa", "eager", "flash_attention_2")


@dataclass
class Loaded:
    """Has a model that is ready to run, and the notes on it."""

    model: Any
    device: torch.device
    params: int
    notes: list[str] = field(default_factory=list)


def load_model(load: dict[str, Any], rank: Rank) -> Loaded:
    notes = Notes()
    logging.getLogger("transformers").addHandler(notes)
    device = pick_device(load.get("device") or "", rank)
    check_attention(load.get("attention") or "", device)
    config = read_config(load)
    torch.manual_seed(load["seed"] % 2**63)
    with_files = rank.world > 1 or load.get("quantization")
    if load["random_weights"] and not with_files:
        model = build_random(load, config, device)
        params = count_params(model)
    else:
        model = load_files(load, config, device, rank)
        params = count_params(build_meta(load, config)) if with_files else count_params(model)
    model.eval().requires_grad_(False)
    return Loaded(model, device, params, notes.kept)


class Notes(logging.Handler):
    """Collects the warnings of transformers while a model is built and run, mainly those of
    slow replacements of missing kernels."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "falling back" in text and text not in self.kept:
            self.kept.append(text)


def pick_device(asked: str, rank: Rank) -> torch.device:
    if asked not in ("", "cpu", "cuda"):
        raise Failure("invalid", f"no device {asked!r}: there are cuda and cpu")
    if asked == "cuda" and not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        limits = f", CUDA_VISIBLE_DEVICES is {seen!r}" if seen is not None else ""
        raise Failure("missing", f"cuda was asked for, and torch {torch.__version__} ({built}) finds no GPU{limits}")
    if asked == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if rank.local >= torch.cuda.device_count():
        raise Failure("missing", f"rank {rank.rank} needs a GPU that no other rank uses, and there are {torch.cuda.device_count()}")
    torch.cuda.set_device(rank.local)
    return torch.device("cuda", rank.local)


def check_attention(asked: str, device: torch.device) -> None:
    if asked and asked not in ATTENTIONS:
        raise Failure("invalid", f"no attention {asked!r}: there are {', '.join(ATTENTIONS)}")
    if asked != "flash_attention_2":
        return
    if device.type != "cuda":
        raise Failure("unsupported", "flash_attention_2 runs on CUDA alone: use sdpa or eager")
    if find_spec("flash_attn") is None:
        raise Failure("missing", "flash_attention_2 needs the package flash-attn, which is not installed: use sdpa")


def read_config(load: dict[str, Any]) -> Any:
    """Reads the configuration from the command, a file, a directory or the hub."""
    if load.get("config"):
        with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
            Path(folder, "config.json").write_text(json.dumps(load["config"]))
            return pretrained_config(folder, load)
    model = load["model"]
    path = Path(model)
    if path.is_file() and path.suffix == ".json":
        if not load["random_weights"] and not load.get("weights"):
            raise Failure("invalid", f"{model} is a config alone: ask for random weights, or name its directory")
        with tempfile.TemporaryDirectory(prefix="llmprof-") as folder:
            shutil.copy(path, Path(folder, "config.json"))
            return pretrained_config(folder, load)
    if path.is_dir() and not (path / "config.json").is_file():
        raise Failure("not-found", f"the directory {model} has no config.json")
    return pretrained_config(model, load)


def pretrained_config(source: str, load: dict[str, Any]) -> Any:
    try:
        return AutoConfig.from_pretrained(source, trust_remote_code=load["trust_remote_code"])
    except Exception as error:
        raise explain(error, load) from error


def explain(error: Exception, load: dict[str, Any]) -> Exception:
    """Translates the errors of transformers into the terms of llmprof."""
    name, text, model = type(error).__name__, str(error), load["model"]
    if "trust_remote_code" in text:
        return Failure(
            "unsupported", f"{model} has Python code in its repository, which runs only with --trust-remote-code"
        )
    if "GatedRepo" in name or "gated repo" in text:
        return Failure("denied", f"{model} is gated: accept its licence on the hub and set HF_TOKEN")
    if isinstance(error, OSError) and "config.json" not in str(getattr(error, "filename", "") or ""):
        offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE")
        why = " (the hub is switched off by the environment)" if offline else ""
        return Failure("not-found", f"{model} is no directory, not in the hub's cache, not on the hub{why}: {text}")
    if isinstance(error, (ValueError, KeyError)):
        return Failure("unsupported", f"transformers does not know the model of {model}: {text}")
    return error


def common_arguments(load: dict[str, Any]) -> dict[str, Any]:
    if load["dtype"] not in DTYPES:
        raise Failure("invalid", f"no dtype {load['dtype']!r}: there are {', '.join(DTYPES)}")
    arguments = {"dtype": DTYPES[load["dtype"]], "trust_remote_code": load["trust_remote_code"]}
    if load.get("attention"):
        arguments["attn_implementation"] = load["attention"]
    return arguments


def build(load: dict[str, Any], config: Any, device: torch.device | str) -> Any:
    try:
        with torch.device(device):
            return AutoModelForCausalLM.from_config(config, **common_arguments(load))
    except (ValueError, ImportError) as error:
        raise unsupported(error) from error


def unsupported(error: Exception) -> Failure:
    kind = "missing" if isinstance(error, ImportError) else "unsupported"
    return Failure(kind, f"transformers cannot build this: {error}")


def build_meta(load: dict[str, Any], config: Any) -> Any:
    return build(load, config, "meta")


def build_random(load: dict[str, Any], config: Any, device: torch.device) -> Any:
    """Builds the model on the device where it will run, with the initialization of its authors.

    On a GPU the generator of the device fills 8 billion parameters in well under
    a second; on the host it takes minutes.
    """
    if device.type == "cuda":
        check_room(build_meta(load, config), device)
    return spread(build(load, config, device))


# The random embeddings of a MoE model have this standard deviation, as in the native engine.
SPREAD = 20.0

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def chooses(config: Any) -> bool:
    """Reports whether a model has experts and a router."""
    return any(getattr(config.get_text_config(), name, 0) for name in EXPERTS)


def spread(model: Any) -> Any:
    """Makes the embeddings of a random MoE model so large that layers change them little.

    With the usual initialization attention outweighs the embedding from the first layer on,
    so all tokens become similar and the routers send them to few experts. Trained routers
    are balanced, and estimates assume a uniform choice.
    """
    if chooses(model.config):
        with torch.no_grad():
            model.get_input_embeddings().weight.normal_(0, SPREAD)
    return model


def check_room(model: Any, device: torch.device) -> None:
    needed = sum(p.numel() * p.element_size() for p in model.parameters())
    free, total = torch.cuda.mem_get_info(device)
    if needed > free:
        raise Failure(
            "out-of-memory",
            f"the weights need {needed / 1e9:.1f} GB, {torch.cuda.get_device_name(device)} has "
            f"{free / 1e9:.1f} GB free of {total / 1e9:.1f} GB",
        )


def load_files(load: dict[str, Any], config: Any, device: torch.device, rank: Rank) -> Any:
    """Loads the model from its files, or from random ones that are written first."""
    source = load.get("weights") or load["model"]
    if not load["random_weights"]:
        return from_pretrained(source, load, config, device, rank)
    # One rank of each node writes the files and all ranks of the node read them. No other user can have made their folder.
    mine = tempfile.mkdtemp(prefix="llmprof-random-") if rank.local == 0 else None
    folder = Path(rank.gather(mine)[rank.rank - rank.local])
    try:
        if rank.local == 0:
            model = spread(build(load, config, device))
            # By default transformers lets only the first rank of all nodes write.
            model.should_save_on_this_rank = lambda is_main_process: is_main_process
            model.save_pretrained(folder)
            del model
            if device.type == "cuda":
                torch.cuda.empty_cache()
        rank.gather(None)
        return from_pretrained(str(folder), load, config, device, rank)
    finally:
        rank.gather(None)
        if rank.local == 0:
            shutil.rmtree(folder, ignore_errors=True)


def from_pretrained(source: str, load: dict[str, Any], config: Any, device: torch.device, rank: Rank) -> Any:
    arguments = common_arguments(load)
    quantization = quantization_config(load)
    if quantization is not None:
        arguments["quantization_config"] = quantization
    if rank.world > 1:
        check_tp(config)
        arguments["tp_plan"] = "auto"
    elif device.type == "cuda" and find_spec("accelerate"):
        arguments["device_map"] = {"": device}
    try:
        model = AutoModelForCausalLM.from_pretrained(source, config=config, **arguments)
        moves = "device_map" not in arguments and rank.world == 1 and quantization is None
        return model.to(device) if moves else model
    except OSError as error:
        raise explain(error, load) from error
    except (ValueError, ImportError) as error:
        raise unsupported(error) from error


def check_tp(config: Any) -> None:
    if find_spec("accelerate") is None:
        raise Failure("missing", "TP in transformers needs the package accelerate, which is not installed")
    if not getattr(config.get_text_config(), "base_model_tp_plan", None):
        raise Failure("unsupported", f"transformers has no plan to split a {config.model_type} over several GPUs")


def quantization_config(load: dict[str, Any]) -> Any:
    asked = load.get("quantization") or ""
    if not asked:
        return None
    if asked == "fp8":
        from transformers import FineGrainedFP8Config

        return FineGrainedFP8Config()
    if asked not in ("int8", "int4"):
        raise Failure("invalid", f"no quantization {asked!r}: there are int8, int4, fp8")
    if find_spec("bitsandbytes") is None:
        raise Failure("missing", f"{asked} needs the package bitsandbytes, which is not installed")
    from transformers import BitsAndBytesConfig

    if asked == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=DTYPES[load["dtype"]])


def count_params(model: Any) -> int:
    """Counts each parameter once, because parameters() omits tied ones."""
    return sum(p.numel() for p in model.parameters())
