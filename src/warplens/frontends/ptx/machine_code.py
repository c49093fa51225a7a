"""Machine code beside the PTX that it was made from, for the header of a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...traces.machine_code import MACHINE_CODE, TracedCode
from ..cuda.machine_code import MachineCode
from .called_functions import with_calls
from .flat import FlatKernel

if TYPE_CHECKING:
    from .execute import Execution


def with_machine_code(
    execution: Execution,
    kernel: FlatKernel,
    code: MachineCode | None,
    rare_paths: NDArray[np.int64] | None = None,
) -> Execution:
    """An execution with the machine code of its kernel in the header of its trace.

    `rare_paths` has executions and rare ones of each instruction (see `codegen/rare_paths.py`).
    """
    traced = traced_code(kernel, code, rare_paths) if code else None
    if traced is None:
        return execution
    extra = {**execution.header.extra, MACHINE_CODE: traced.packed()}
    return replace(execution, header=replace(execution.header, extra=extra))


def traced_code(
    kernel: FlatKernel, code: MachineCode, rare_paths: NDArray[np.int64] | None = None
) -> TracedCode | None:
    """Machine code by the instructions of the kernel; None if it calls functions through pointers, or recursively."""
    found = with_calls(code, kernel)
    if found is None:
        return None
    code, origins = found
    return TracedCode(
        opcodes=code.opcodes,
        control=code.control,
        guarded=code.guarded,
        targets=code.targets,
        origins=origins,
        ptx_blocks=_blocks(kernel),
        ptx_size=sum(1 for _ in kernel.instructions),
        offsets=code.offsets if max(code.offsets, default=-1) >= 0 else (),
        reads=code.reads,
        rare_paths={} if rare_paths is None else _taken(rare_paths),
    )


def _taken(rare_paths: NDArray[np.int64]) -> dict[int, tuple[int, int]]:
    """Instructions that took the rare path at least once."""
    return {
        int(each): (int(rare_paths[each, 0]), int(rare_paths[each, 1])) for each in np.flatnonzero(rare_paths[:, 1])
    }


def _blocks(kernel: FlatKernel) -> tuple[tuple[int, ...], ...]:
    """First instruction and successors of each block; one without instructions begins where the next one does."""
    found: list[tuple[int, ...]] = []
    following = sum(1 for _ in kernel.instructions)
    for block in reversed(kernel.blocks):
        following = block.instructions[0].index if block.instructions else following
        found.append((following, *block.successors))
    return tuple(reversed(found))
