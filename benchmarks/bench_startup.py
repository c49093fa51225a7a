"""CPU time of `warplens --help`, against an interpreter that does nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from run import Row


def cpu_seconds(command: list[str]) -> float:
    """Least user + system time of five runs, with byte code cached as an installed package has it."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times[1:])


def measure() -> list[Row]:
    idle = cpu_seconds([sys.executable, "-c", "pass"])
    help_text = cpu_seconds([sys.executable, "-c", "from warplens.cli import main; main()", "--help"])
    return [
        Row(
            "warplens --help",
            help_text,
            "s CPU",
            "python -c pass",
            help_text / idle,
            target=0.4,
            lower_is_better=True,
        )
    ]
