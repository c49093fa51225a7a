"""The same question has the same answer, byte for byte: whatever the cores, hash seed, caches and order of inputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

#: Predictions of two traced kernels, each as text, in the order given.
SCRIPT = """
import json, os, sys
if sys.argv[1] == "1" and hasattr(os, "sched_setaffinity"):
    os.cpu_count = lambda: 1
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import click.testing
from warplens.cli.main import cli
found = click.testing.CliRunner().invoke(cli, ["predict", *sys.argv[2:], "--gpu", "h200", "--json"])
assert found.exit_code == 0, found.output
print(found.stdout)
"""


def predicted(cores: int, seed: int, cache: Path, *inputs: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "WARPLENS_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", SCRIPT, str(cores), *inputs]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def by_kernel(document: dict[str, Any]) -> dict[str, list[str]]:
    """Each kernel's answers and predictions, as bytes of JSON."""
    found: dict[str, list[str]] = {}
    for part in ("answers", "predictions"):
        for each in document[part]:
            found.setdefault(each["kernel"], []).append(json.dumps(each))
    return found


@pytest.mark.slow
def test_the_same_bytes_for_any_cores_seed_cache_and_order(tmp_path: Path) -> None:
    cold = predicted(1, 1, tmp_path / "a", "saxpy", "transpose")
    warm = predicted(2, 2, tmp_path / "a", "transpose", "saxpy")
    other = predicted(2, 3, tmp_path / "b", "saxpy", "transpose")
    assert json.dumps(cold) == json.dumps(other)
    assert by_kernel(cold) == by_kernel(warm)
    assert len(by_kernel(cold)) == 2
