"""A SASS kernel as compiled code sees it."""

from __future__ import annotations

from typing import Any, NamedTuple

# What an instruction does to the path.
PLAIN, BRANCH, JUMP, INDIRECT, ENTER_REGION, LEAVE_REGION, BREAK_REGION, CALL, RETURN, EXIT = range(10)
# Whether it is recorded: never, always by the lanes that take part, or perhaps.
SILENT, SURE, PERHAPS = range(3)


class Program(NamedTuple):
    """A kernel as arrays with one entry per instruction, for compiled code."""

    action: Any
    """PLAIN, BRANCH, …"""
    conditional: Any
    """Whether lanes may not take part, or a branch may not be taken."""
    recorded: Any
    """SILENT, SURE or PERHAPS."""
    target: Any
    """Where a branch, call or region goes on; -1 if unknown."""
    region: Any
    """The convergence region that an instruction enters, leaves or breaks; -1 for none."""
    run_end: Any
    """The next instruction, at or after this one, that is not merely executed."""
    indirect_start: Any
    indirect_target: Any
    """Possible targets of indirect branches, one list after the other."""
    reach: Any
    """Bits: `reach[i, p]` says whether record p (by instruction) can be the next one of a lane that is at i."""
    ahead: Any
    """The same without going back: a record of a loop's next round is not ahead."""
    reach_bit: Any
    """The bit of an instruction's records, -1 if it has none."""
    has_access: Any
    """Whether the trace has addresses for it."""
    regions: Any
    """How many regions there are, as an array of one."""
