"""Makes prompts from random tokens, from token ids, or from text by the model's tokenizer."""

from typing import Any

import torch

from .failures import Failure


def make_prompts(load: dict[str, Any], vocab: int) -> list[torch.Tensor]:
    """Keeps batches of equal length on the host, which passes use in turn."""
    batch, length = load["batch"], load["prompt_len"]
    if batch < 1 or length < 0 or load["gen_len"] < 1:
        raise Failure("invalid", f"batch {batch}, prompt {length}, {load['gen_len']} generated: no such workload")
    sequences = load.get("prompts") or []
    if load.get("texts"):
        sequences = tokenize(load)
    if not sequences:
        if length < 1:
            raise Failure("invalid", "a random prompt needs a length of 1 or more")
        generator = torch.Generator().manual_seed(load["seed"] % 2**63)
        return [torch.randint(vocab, (batch, length), generator=generator)]
    return into_batches([equal(s, i, sequences, length, vocab) for i, s in enumerate(sequences)], batch)


def equal(sequence: list[int], index: int, sequences: list[list[int]], length: int, vocab: int) -> list[int]:
    """Cuts a sequence to the common length."""
    if length == 0 and len(sequence) != len(sequences[0]):
        raise Failure(
            "invalid",
            f"prompt {index} has {len(sequence)} tokens, prompt 0 has {len(sequences[0])}: "
            "a batch needs equal ones, so set a prompt length that all of them reach",
        )
    if not sequence or len(sequence) < length:
        raise Failure("invalid", f"prompt {index} has {len(sequence)} tokens, {length or 1} are needed")
    strange = next((token for token in sequence if not 0 <= token < vocab), None)
    if strange is not None:
        raise Failure("invalid", f"prompt {index} has the token {strange}: the vocabulary has {vocab}")
    return sequence[: length or None]


def into_batches(sequences: list[list[int]], batch: int) -> list[torch.Tensor]:
    """Fills whole batches, and begins again after the last sequence."""
    count = -(-len(sequences) // batch)
    return [torch.tensor([sequences[(i * batch + k) % len(sequences)] for k in range(batch)]) for i in range(count)]


def tokenize(load: dict[str, Any]) -> list[list[int]]:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(load["model"], trust_remote_code=load["trust_remote_code"])
    except Exception as error:
        raise Failure("not-found", f"prompts as text need the tokenizer of {load['model']}: {error}") from error
    return [tokenizer(text)["input_ids"] for text in load["texts"]]
