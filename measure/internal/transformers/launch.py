"""Starts the worker; with "torchrun" and its arguments, torchrun, whose ranks are workers.

Python runs this file by its path, in safe mode where it has one. "python -m" looks in the
working directory first: a file beside a model that is called like a module would be run.
"""

import os
import sys


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    if here not in sys.path:
        sys.path.insert(0, here)
    if sys.argv[1:2] == ["torchrun"]:
        try:
            from torch.distributed.run import main as torchrun
        except ModuleNotFoundError as missing:
            sys.exit(f"the Python {sys.executable} has no {missing.name}: install torch 2.5 or later there, or name another Python")

        torchrun(sys.argv[2:])
        return
    from llmprof_worker.__main__ import serve

    serve()


if __name__ == "__main__":
    main()
