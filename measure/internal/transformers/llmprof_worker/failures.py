"""Classifies errors by the kinds of the protocol."""

import re
import sys
import traceback


class Failure(Exception):
    """Is an error that has a kind and needs no traceback."""

    def __init__(self, kind: str, message: str, fatal: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.fatal = fatal


def classify(error: BaseException) -> Failure:
    """Makes a Failure of any exception. The log keeps the traceback."""
    if isinstance(error, Failure):
        return error
    traceback.print_exception(error, file=sys.stderr)
    name = type(error).__name__
    text = f"{name}: {error}" if str(error) else name
    if is_out_of_memory(error):
        return Failure("out-of-memory", shorten(text.split("If reserved but unallocated")[0]))
    if is_broken_device(text):
        return Failure("gpu-failed", shorten(text), fatal=True)
    for kind, matches in RULES:
        if matches(error, name, str(error)):
            return Failure(kind, shorten(text), fatal=name == "AcceleratorError")
    return Failure("internal", shorten(text), fatal=not isinstance(error, Exception) or "CUDA error" in text)


# CUDA, torch and NCCL report these errors when no call to the device works any more.
BROKEN = re.compile(
    r"unspecified launch failure|uncorrectable|illegal memory access|illegal instruction|misaligned address|"
    r"launch timed out|hardware stack error|device-side assert|CUDA error: unknown error|context is destroyed|"
    r"NVLink|[Uu]nhandled cuda error|GPU is lost|fallen off the bus|invalid program counter"
)


def is_broken_device(text: str) -> bool:
    return BROKEN.search(text) is not None


def is_out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in text
        or "CUDA out of memory" in text
        or "CUDA error: out of memory" in text
    )


def _denied(error: BaseException, name: str, text: str) -> bool:
    return name == "GatedRepoError" or "gated repo" in text


def _not_found(error: BaseException, name: str, text: str) -> bool:
    hub = re.search(r"couldn't connect|not a valid model identifier|does not appear to have a file|Can't load", text)
    return name in ("RepositoryNotFoundError", "LocalEntryNotFoundError", "FileNotFoundError") or (
        isinstance(error, OSError) and hub is not None
    )


def _missing(error: BaseException, name: str, text: str) -> bool:
    return isinstance(error, ImportError) or "is not installed" in text


def _unsupported(error: BaseException, name: str, text: str) -> bool:
    return isinstance(error, NotImplementedError) or re.search(r"(does|is) not (yet )?support", text) is not None


RULES = (
    ("denied", _denied),
    ("not-found", _not_found),
    ("missing", _missing),
    ("unsupported", _unsupported),
)


def shorten(text: str, most: int = 1500) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= most else text[:most] + "..."
