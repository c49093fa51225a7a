"""Memory under guard, for `make sanitize`: an access beyond it ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BEYOND = """
import ctypes, sys
import fencing

array = fencing._Numpy.zeros(100, "u1")
ctypes.memset(array.ctypes.data + 99, 1, 1)
sys.stdout.write("inside")
sys.stdout.flush()
ctypes.memset(array.ctypes.data + 100, 1, 1)
"""


@pytest.mark.skipif(os.name == "nt", reason="pages are guarded with mprotect")
def test_the_first_byte_beyond_memory_cannot_be_accessed() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    ran = subprocess.run([sys.executable, "-c", BEYOND], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "inside" and ran.returncode in (-signal.SIGSEGV, -signal.SIGBUS), ran.stderr
