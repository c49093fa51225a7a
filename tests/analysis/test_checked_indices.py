"""Compiled kernels with every index checked: a short piece of `make bounds`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
#: The kernels that take sizes and addresses from traces.
PIECE = ("analysis/test_coalescer.py", "analysis/test_banks.py")
OVERRUN = """
import numpy as np
from warplens.jit import kernel

@kernel
def read(values, place):
    return values[place]

read(np.zeros(4), 4)
"""


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=TESTS, capture_output=True, text=True, check=False)


def test_an_overrun_is_found(tmp_path: Path) -> None:
    script = tmp_path / "overrun.py"
    script.write_text(OVERRUN)
    found = checked(str(script))
    assert found.returncode == 1 and "IndexError" in found.stderr


def test_kernels_that_read_traces_stay_within_their_arrays() -> None:
    found = checked("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *PIECE)
    assert found.returncode == 0, found.stdout[-2000:]
