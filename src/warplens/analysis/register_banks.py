"""Reads of registers that share a bank of the register file: the port of each bank gives one register per cycle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_NAMES, LaunchTrace

#: Even registers lie in one bank, odd ones in the other.
BANKS = 2
#: Where the control bits of machine code name operands that stay in the reuse cache for the next instruction.
REUSE = 0xF << 17
#: Classes whose registers are read when they issue; others collect theirs on the way to a unit of lower rate.
_READ_AT_ISSUE = ("comp", "int32", "fp32", "fp16")


def further_reads(trace: LaunchTrace) -> NDArray[np.int64]:
    """For each static instruction, how many registers the busiest bank has to give beyond the first.

    Only machine code names registers; elsewhere there are none. What the instruction before has put into the reuse
    cache is not read again.
    """
    static = trace.static
    found = np.zeros(len(static), dtype=np.int64)
    control = trace.header.extra.get("sass_control")
    if control is None:
        return found
    own = np.flatnonzero(np.isin(np.array(CLASS_NAMES)[static.class_id], _READ_AT_ISSUE))
    for index in own.tolist():
        read = _registers(trace, index)
        if index > 0 and control[index - 1] & REUSE:
            read -= _registers(trace, index - 1)
        odd = sum(each % BANKS for each in read)
        found[index] = max(odd - 1, len(read) - odd - 1, 0)
    return found


def _registers(trace: LaunchTrace, index: int) -> set[int]:
    """Source registers of an instruction; numbers beyond those of a thread are predicates and uniform registers."""
    return {each for each in trace.static.sources_of(index) if each < trace.header.registers_per_thread}
