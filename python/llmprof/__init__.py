"""What inference of a large language model costs on a GPU.

Each function runs the program that comes with this package and gives what its command of that name writes as JSON.
Settings are the command's flags, with underscores for hyphens: `estimate(model="llama3.1-8b", gpu="h100", tp=2)` is
`llmprof estimate --model llama3.1-8b --gpu h100 --tp 2 --format json`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ._table import Table
from ._types import Estimate, Object, Plan, Setting, Simulate, Validate

if TYPE_CHECKING:  # of Python 3.12, or of the type checker
    from typing_extensions import Unpack

    from ._types import EstimateSettings, PlanSettings, SimulateSettings, SweepSettings, ValidateSettings

__all__ = ["Error", "Estimate", "Object", "Plan", "Simulate", "Table", "Validate"]
__all__ += ["estimate", "plan", "program", "simulate", "sweep", "validate"]

Document = TypeVar("Document", bound=Object)


class Error(Exception):
    """What the program said when it failed. `code` is its exit status: 1 for what failed, 2 for a wrong setting."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


def estimate(model: str, gpu: str, **settings: Unpack[EstimateSettings]) -> Estimate:
    """What one case costs: memory, times, throughput, energy and money, with their intervals."""
    return _document(Estimate, "estimate", [], {"model": model, "gpu": gpu, **settings})


def sweep(model: Setting, gpu: Setting, **settings: Unpack[SweepSettings]) -> Table:
    """A grid of estimates, a row each. Settings are lists, or texts as the command takes them: `batch=[1, 8]`, `tp="1..8x2"`."""
    return Table(json.loads(_run("sweep", [], {"model": model, "gpu": gpu, **settings, "format": "json"})))


def simulate(model: str, gpu: str, **settings: Unpack[SimulateSettings]) -> Simulate:
    """What users of a server see under a load: `rate`, `concurrency` or `trace`."""
    return _document(Simulate, "simulate", [], {"model": model, "gpu": gpu, **settings})


def plan(model: Setting, **settings: Unpack[PlanSettings]) -> Plan:
    """The GPUs and settings that meet targets at least cost. It is an error if none does."""
    return _document(Plan, "plan", [_text(model)], settings)


def validate(*files: str | os.PathLike[str], **settings: Unpack[ValidateSettings]) -> Validate:
    """Predictions beside observations: those of files, or else those that come with the program."""
    return _document(Validate, "validate", [os.fspath(f) for f in files], settings)


def program() -> str:
    """Where the program is: beside the scripts of this Python, or on the path."""
    name = "llmprof" + (sysconfig.get_config_var("EXE") or "")
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else os.name + "_user"
    places = [Path(sysconfig.get_path("scripts"), name), Path(sysconfig.get_path("scripts", user), name)]
    places.append(Path(__file__).parent.parent / "bin" / name)  # of pip install --target
    for place in places:
        if place.is_file():
            return str(place)
    found = shutil.which("llmprof")
    if found is None:
        raise FileNotFoundError(f"the program llmprof is neither in {places[0].parent} nor on the path: install the wheel of this system")
    return found


def _document(kind: type[Document], command: str, words: list[str], settings: Any) -> Document:
    text = _run(command, words, {**settings, "format": "json"})
    return kind(**vars(json.loads(text, object_hook=lambda fields: Object(**fields))))


def _run(command: str, words: list[str], settings: dict[str, Any]) -> bytes:
    flags = [f"--{key.replace('_', '-')}={_text(value)}" for key, value in settings.items() if value is not None]
    done = subprocess.run([program(), command, *flags, "--", *words], stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Error(said.replace("llmprof: ", ""), done.returncode)
    return done.stdout


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, range)):
        return ",".join(map(_text, value))
    return str(value)
