"""Limits of a sandboxed process say which of them was passed."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from warplens.web.errors import FieldError
from warplens.web.sandbox import _answer_of

BUSY = """
import resource
from warplens.web.process_limits import limit_resources
limit_resources(memory_bytes=4 << 30, cpu_seconds=1, file_bytes=1 << 20)
while True: pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_time_that_runs_out_is_called_so() -> None:
    ended = subprocess.run([sys.executable, "-c", BUSY], check=False, timeout=60)
    assert ended.returncode == -signal.SIGXCPU
    with pytest.raises(FieldError, match="CPU time"):
        _answer_of((ended.returncode, b""))
