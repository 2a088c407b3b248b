"""Lists installed packages without importing them."""

import os
import platform
import sys
from importlib import metadata
from typing import Any

from .failures import Failure

PROTOCOL = 1
OLDEST_TRANSFORMERS = (4, 57)
OLDEST_TORCH = (2, 5)
LIBRARIES = ("torch", "transformers", "tokenizers", "accelerate", "bitsandbytes", "flash-attn", "triton", "mamba-ssm")


def version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def hello() -> dict[str, Any]:
    versions = {name: found for name in LIBRARIES if (found := version(name))}
    versions["python"] = platform.python_version()
    return {
        "protocol": PROTOCOL,
        "engine": "transformers",
        "version": versions.get("transformers", ""),
        "pid": os.getpid(),
        "versions": versions,
    }


def require_libraries() -> None:
    for name, oldest in (("torch", OLDEST_TORCH), ("transformers", OLDEST_TRANSFORMERS)):
        found = version(name)
        wanted = ".".join(map(str, oldest))
        if found is None:
            raise Failure(
                "missing",
                f"the Python {sys.executable} ({platform.python_version()}) has no {name}: "
                f"install {name} {wanted} or later there, or name another Python",
                fatal=True,
            )
        if tuple(int(part) for part in found.split(".")[:2]) < oldest:
            raise Failure(
                "unsupported",
                f"the Python {sys.executable} has {name} {found}: {wanted} or later is needed",
                fatal=True,
            )
