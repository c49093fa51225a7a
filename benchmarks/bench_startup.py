"""CPU time of `warplens --help`, against an interpreter that does nothing; and the first prediction on a machine.

The first prediction runs all models, from CUDA source and an empty cache folder. It is elapsed time, because
two cores compile, so other load on the machine counts. Its peer is the same command run again.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import Row

EXAMPLE = Path(__file__).parents[1] / "examples" / "cuda" / "saxpy.toml"
PREDICT = ["predict", str(EXAMPLE), "--gpu", "h200", "--gpu", "accelsim-mdm", "--models", "all"]
WARPLENS = [sys.executable, "-c", "from warplens.cli import main; main()"]


def cpu_seconds(command: list[str]) -> float:
    """Least user + system time of five runs, with byte code cached as in an installed package."""
    times = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env=_environment())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times[1:])


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def cold_and_warm_seconds() -> tuple[float, float]:
    """Elapsed seconds of a prediction with nothing compiled, and of the same again; the lesser of two runs each."""
    cold, warm = [], []
    for _ in range(2):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            environment = _environment() | {"NUMBA_CACHE_DIR": f"{folder}/numba", "WARPLENS_CACHE_DIR": folder}
            for times in (cold, warm):
                start = time.perf_counter()
                subprocess.run([*WARPLENS, *PREDICT], check=True, capture_output=True, env=environment)
                times.append(time.perf_counter() - start)
    return min(cold), min(warm)


def measure() -> list[Row]:
    cold, warm = cold_and_warm_seconds()
    idle = cpu_seconds([sys.executable, "-c", "pass"])
    help_text = cpu_seconds([*WARPLENS, "--help"])
    return [
        Row(
            "warplens --help",
            help_text,
            "s CPU",
            "python -c pass",
            help_text / idle,
            target=0.4,
            lower_is_better=True,
        ),
        Row(
            "all models on two GPUs from CUDA source, nothing compiled",
            cold,
            "s",
            "the same again",
            cold / warm,
            target=20.0,
            lower_is_better=True,
        ),
    ]
