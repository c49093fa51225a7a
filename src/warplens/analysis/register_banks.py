"""Reads of registers that share a bank of the register file: the port of each bank gives one register per cycle."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_NAMES, LaunchTrace, StaticInstruction
from ..traces.machine_code import TracedCode

#: Even registers lie in one bank, odd ones in the other.
BANKS = 2
#: Where the control bits of machine code name operands that stay in the reuse cache for the next instruction.
REUSE = 0xF << 17
#: Classes whose registers are read when they issue; others collect theirs on the way to a unit of lower rate.
_READ_AT_ISSUE = ("comp", "int32", "int32_mad", "fp32", "fp16")


def further_reads(trace: LaunchTrace) -> NDArray[np.int64]:
    """For each static instruction, how many registers the busiest bank has to give beyond the first.

    Only machine code names registers; elsewhere there are none. What the instruction before has put into the reuse
    cache is not read again.
    """
    control = trace.header.extra.get("sass_control")
    if control is None:
        return np.zeros(len(trace.static), dtype=np.int64)
    classes = np.array(CLASS_NAMES)[trace.static.class_id].tolist()
    return _beyond(classes, control, lambda index: _registers(trace, index))


def further_reads_of(code: TracedCode, rows: Sequence[StaticInstruction]) -> NDArray[np.int64]:
    """The same for machine code of PTX, which has a row for each instruction."""
    return _beyond([row.instruction_class for row in rows], code.control, code.read_by)


def _beyond(
    classes: Sequence[str], control: Sequence[int], registers: Callable[[int], set[int]]
) -> NDArray[np.int64]:
    found = np.zeros(len(classes), dtype=np.int64)
    for index, name in enumerate(classes):
        if name not in _READ_AT_ISSUE:
            continue
        read = registers(index)
        if index > 0 and control[index - 1] & REUSE:
            read -= registers(index - 1)
        odd = sum(each % BANKS for each in read)
        found[index] = max(odd - 1, len(read) - odd - 1, 0)
    return found


def _registers(trace: LaunchTrace, index: int) -> set[int]:
    """Source registers of an instruction; numbers beyond those of a thread are predicates and uniform registers."""
    return {each for each in trace.static.sources_of(index) if each < trace.header.registers_per_thread}
