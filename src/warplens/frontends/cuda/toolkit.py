"""Where programs and files of CUDA's toolkit are: an installation, or NVIDIA's Python packages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path


def homes(beside: str | None = None, *variables: str) -> Iterator[Path]:
    """Folders of CUDA toolkits and of NVIDIA's Python packages; those that variables name come first."""
    for variable in (*variables, "CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(variable):
            yield Path(value)
    for found in (beside, shutil.which("compute-sanitizer")):
        if found:
            yield from list(Path(found).resolve().parents)[:3]
    yield Path("/usr/local/cuda")
    yield from packages()


def packages() -> Iterator[Path]:
    """Folders that NVIDIA's Python packages share, the newest version first."""
    spec = find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(place).glob("cu*"), reverse=True)
        yield from sorted(Path(place).glob("cuda_*"), reverse=True)


def find_program(name: str) -> str | None:
    """A program on PATH, or in the `bin` of a toolkit or package."""
    if found := shutil.which(name):
        return found
    for home in homes():
        path = home / "bin" / name
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None
