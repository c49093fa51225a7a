"""CPU time of `warplens check` on a project of 20 kernels and two GPUs: nothing kept, and nothing changed.

The kernels are cures of examples/pairs. The first run has an empty cache folder, but compiled code of warplens: the
target is 60 s on two cores. The second run finds everything in the result cache: the target is 3 s.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from run import Row

from warplens.result_cache import cache_folder

PAIRS = Path(__file__).parents[1] / "examples" / "pairs"
KERNELS, GPUS = 20, ("h200", "a100")
WARPLENS = [sys.executable, "-c", "from warplens.cli import main; main()"]


def make_project(folder: Path) -> None:
    """Kernels, their sources, and what makes their inputs."""
    chosen = sorted(PAIRS.glob("*-cure.toml"))[:KERNELS]
    for path in (*chosen, *PAIRS.glob("*.cu"), *PAIRS.glob("*.py")):
        shutil.copy(path, folder)
    names = ", ".join(f'"{gpu}"' for gpu in GPUS)
    (folder / "warplens.toml").write_text(f"[check]\ngpus = [{names}]\n")


def cpu_seconds(folder: Path, cache: Path, *arguments: str) -> float:
    """User and system time of a check, with compiled code as after a first run."""
    compiled = os.environ.get("NUMBA_CACHE_DIR", str(cache_folder() / "compiled"))
    environment = {**os.environ, "WARPLENS_CACHE_DIR": str(cache), "NUMBA_CACHE_DIR": compiled}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*WARPLENS, "check", *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name) / "project", Path(name) / "cache"
        folder.mkdir()
        make_project(folder)
        cold = cpu_seconds(folder, cache, "--update")
        same = min(cpu_seconds(folder, cache) for _ in range(3))
    what = f"warplens check, {KERNELS} kernels on {len(GPUS)} GPUs"
    return [
        Row(f"{what}, nothing kept", cold, "s CPU", "nothing changed", cold / same, 120.0, lower_is_better=True),
        Row(f"{what}, nothing changed", same, "s CPU", target=3.0, lower_is_better=True),
    ]
