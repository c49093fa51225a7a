"""Machine code of a program's kernels: what its fat binary holds, else what ptxas makes of its PTX."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...result_cache import content_hash, open_results
from ..cuda.machine_code import MachineCode, read_machine_code
from ..cuda.toolkit import find_program
from .fatbin import FatEntry

#: Longest time that ptxas may take for a kernel.
MOST_SECONDS = 60.0


def held_machine_code(images: Sequence[FatEntry], architecture: int) -> dict[str, MachineCode]:
    """Kernels of a fat binary for an architecture; nvcc keeps what they need with `-lineinfo` only."""
    found: dict[str, MachineCode] = {}
    for each in images:
        if not each.is_ptx and each.architecture == architecture:
            found |= _read(each.data)
    return found


def assembled_machine_code(ptx: str, kernel: str, target: str) -> MachineCode | None:
    """What ptxas makes of a kernel, kept for the next run; None without ptxas, or where it refuses the text."""
    program = find_program("ptxas")
    if program is None:
        return None
    made_by = Path(program).stat()
    results = open_results("machine-code")
    key = content_hash([ptx, kernel, target, program, str(made_by.st_mtime_ns), str(made_by.st_size)])
    entry = results.get(key)
    if entry is None:
        entry = {"cubin": np.frombuffer(_assembled(program, ptx, kernel, target), dtype=np.uint8)}
        results.put(key, entry)
    return _read(entry["cubin"].tobytes()).get(kernel)


def _assembled(program: str, ptx: str, kernel: str, target: str) -> bytes:
    """A cubin with one kernel; nothing where ptxas fails."""
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        text, made = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        text.write_text(ptx, encoding="utf-8")
        command = [program, "-lineinfo", f"-arch={target}", "--entry", kernel, str(text), "-o", str(made)]
        try:
            subprocess.run(command, capture_output=True, timeout=MOST_SECONDS, check=True)
            return made.read_bytes()
        except (OSError, subprocess.SubprocessError):
            return b""


def _read(cubin: bytes) -> dict[str, MachineCode]:
    try:
        return read_machine_code(cubin)
    except ValueError:
        return {}
