"""Compiles the models in a second process during a first run, while this one runs and reads the input.

Numba compiles on one core of a process and keeps compiled code on disk for
all processes. Without this, the first prediction takes twice as long.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys

from .. import jit

#: Between them they call every kernel that a model has, with the types that traces have; the first one those that
#: take longest to compile.
EXAMPLES = ("lemeire-example", "mdm-baseline")
#: Held, as a process that is forgotten while it runs is a warning.
_started: list[subprocess.Popen[bytes]] = []


def compile_models_aside(*models: str) -> subprocess.Popen[bytes] | None:
    """Start that process for some models, or all.

    None where one was started before, nothing can be kept, or there is one core only.
    """
    if (os.cpu_count() or 1) < 2:
        return None
    folder = jit.folder()
    if folder is None:
        return None
    try:
        (folder / "-".join(("started", *models))).touch(exist_ok=False)  # whoever makes it starts the process
        command, quiet = [sys.executable, "-m", __name__, *models], subprocess.DEVNULL
        _started.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))
        return _started[-1]
    except OSError:  # started before
        return None


def main(*models: str) -> None:
    """Predict the examples with some models, or all, for the compiled kernels that this leaves behind."""
    from ..api import compare

    gc.disable()  # a tenth of the time, for 80 MB
    for name in EXAMPLES:
        compare(name, models=models)


if __name__ == "__main__":
    main(*sys.argv[1:])
