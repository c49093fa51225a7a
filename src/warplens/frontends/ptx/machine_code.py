"""Machine code beside the PTX that it was made from, for the header of a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...traces.machine_code import MACHINE_CODE, TracedCode
from ..cuda.machine_code import MachineCode
from .flat import FlatKernel

if TYPE_CHECKING:
    from .execute import Execution


def with_machine_code(execution: Execution, kernel: FlatKernel, code: MachineCode | None) -> Execution:
    """An execution with the machine code of its kernel in the header of its trace."""
    traced = traced_code(kernel, code) if code else None
    if traced is None:
        return execution
    extra = {**execution.header.extra, MACHINE_CODE: traced.packed()}
    return replace(execution, header=replace(execution.header, extra=extra))


def traced_code(kernel: FlatKernel, code: MachineCode) -> TracedCode | None:
    """Machine code by the instructions of the kernel; None if it calls functions, whose code lies elsewhere."""
    index: dict[int, int] = {}
    for item in kernel.instructions:
        if item.function != kernel.name:
            return None
        index.setdefault(item.instruction.line, item.index)
    return TracedCode(
        opcodes=code.opcodes,
        control=code.control,
        guarded=code.guarded,
        targets=code.targets,
        origins=tuple(index.get(line, -1) for line in code.ptx_lines),
        ptx_blocks=_blocks(kernel),
        ptx_size=sum(1 for _ in kernel.instructions),
        offsets=code.offsets if max(code.offsets, default=-1) >= 0 else (),
        reads=code.reads,
    )


def _blocks(kernel: FlatKernel) -> tuple[tuple[int, ...], ...]:
    """First instruction and successors of each block; one without instructions begins where the next one does."""
    found: list[tuple[int, ...]] = []
    following = sum(1 for _ in kernel.instructions)
    for block in reversed(kernel.blocks):
        following = block.instructions[0].index if block.instructions else following
        found.append((following, *block.successors))
    return tuple(reversed(found))
