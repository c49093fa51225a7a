"""The instructions that tests of traced warps run on."""

from __future__ import annotations

from hypothesis import strategies as st

from reference.traces import Step, memory_trace
from warplens.traces import StaticInstruction, static_table

#: Instructions that wait for each other through a few registers.
ROWS = (
    StaticInstruction(0x00, "LDG", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(0x10, "LDG.64", "load_global", "global", 8, (2, 3), (1,)),
    StaticInstruction(0x20, "FADD", "fp32", "none", 0, (4,), (1, 2)),
    StaticInstruction(0x30, "FMUL", "fp32", "none", 0, (2,), (4, 255)),
    StaticInstruction(0x40, "IMAD", "int32", "none", 0, (0,), (0, 3)),
    StaticInstruction(0x50, "MUFU", "sfu", "none", 0, (3,), (2,)),
    StaticInstruction(0x60, "STG", "store_global", "global", 4, (), (0, 4)),
    StaticInstruction(0x70, "ATOM", "atomic_global", "global", 4, (4,), (0, 1)),
    StaticInstruction(0x80, "BAR", "barrier"),
    StaticInstruction(0x90, "MOV", "move", "none", 0, (255,), (3, 3)),
)
LDG, LDG64, FADD, FMUL, IMAD, MUFU, STG, ATOM, BAR, MOV = range(len(ROWS))
TABLE = static_table(ROWS)
programs = st.lists(st.integers(0, len(ROWS) - 1), max_size=40)
whole_latencies = st.lists(st.integers(0, 30), min_size=len(ROWS), max_size=len(ROWS))
any_latencies = st.lists(st.floats(0, 500), min_size=len(ROWS), max_size=len(ROWS))


def trace_of(*warps: list[int]):
    """A block per two warps; addresses do not matter here."""
    steps = [[Step(row, (4,) if ROWS[row].access_bytes else ()) for row in warp] for warp in warps]
    return memory_trace(ROWS, [steps[first : first + 2] for first in range(0, len(steps), 2)], blocks_per_group=2)
