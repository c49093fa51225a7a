"""A SASS kernel as compiled code sees it."""

from __future__ import annotations

from typing import Any, NamedTuple

# What an instruction does to the path of a lane.
PLAIN, BRANCH, JUMP, INDIRECT, ENTER_REGION, LEAVE_REGION, BREAK_REGION, CALL, RETURN, EXIT = range(10)
# Whether an execution leaves a record: never, always (by the lanes that take part), or sometimes.
SILENT, SURE, PERHAPS = range(3)


class Program(NamedTuple):
    """A kernel as arrays with one entry per instruction."""

    action: Any
    """PLAIN, BRANCH, …"""
    conditional: Any
    """Whether lanes may skip it or, for a branch, not take it."""
    recorded: Any
    """SILENT, SURE or PERHAPS."""
    target: Any
    """Where a branch, call or region continues; -1 if unknown."""
    region: Any
    """The convergence region that an instruction enters, leaves or breaks; -1 for none."""
    run_end: Any
    """The first instruction from here on that is a branch or may leave a record."""
    indirect_start: Any
    indirect_target: Any
    """Possible targets of indirect branches, one list after the other."""
    reach: Any
    """Bits: `reach[i, p]` says whether record p (by instruction) can be the next one of a lane at i."""
    ahead: Any
    """The same without backward branches: a record of the loop's next iteration is not ahead."""
    reach_bit: Any
    """The bit of an instruction's records, -1 if it has none."""
    has_access: Any
    """Whether the trace has addresses for it."""
    regions: int
    """How many convergence regions there are."""
