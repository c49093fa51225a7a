"""Machine code spelled out by hand, beside the PTX that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from reference.traces import Step, memory_trace
from warplens.traces import MemoryTrace, StaticInstruction
from warplens.traces.machine_code import MACHINE_CODE, TracedCode

#: Control bits of an instruction that sets no scoreboard.
NO_SCOREBOARD = 7 << 5


class Line(NamedTuple):
    """A machine instruction, the PTX instruction that it comes from, and where it branches to."""

    opcode: str
    origin: int = -1
    target: int = -1
    guarded: bool = False
    control: int = NO_SCOREBOARD


def assembled(lines: Sequence[Line], ptx_size: int, *ptx_blocks: tuple[int, ...]) -> TracedCode:
    """`ptx_blocks` has the first instruction and the successors of each block."""
    return TracedCode(
        opcodes=tuple(line.opcode for line in lines),
        control=tuple(line.control for line in lines),
        guarded=tuple(line.guarded for line in lines),
        targets=tuple(line.target for line in lines),
        origins=tuple(line.origin for line in lines),
        ptx_blocks=ptx_blocks,
        ptx_size=ptx_size,
    )


def ptx(*opcodes: str) -> list[StaticInstruction]:
    """Rows of the PTX; loads and stores are of words."""
    classes = {
        "ld.global": ("load_global", "global", 4),
        "ld.shared": ("load_shared", "shared", 4),
        "st.shared": ("store_shared", "shared", 4),
        "bar": ("barrier", "none", 0),
        "add": ("int32", "none", 0),
        "fma": ("fp32", "none", 0),
        "bra": ("control", "none", 0),
        "exit": ("control", "none", 0),
    }
    return [StaticInstruction(8 * at, name, *classes[name], line=at + 1) for at, name in enumerate(opcodes)]


def traced(rows: Sequence[StaticInstruction], steps: Sequence[Step], code: TracedCode) -> MemoryTrace:
    """One warp of PTX, with the machine code in the header."""
    trace = memory_trace(rows, [[steps]])
    return replace(trace, header=replace(trace.header, extra={MACHINE_CODE: code.packed()}))
