"""What the replay of a warp reads and changes, as records with named fields."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._program import Program

# What a group of lanes does: it can run, or it waits at the end of a region or at a record for other lanes.
RUNNING, AT_REGION_END, AT_RECORD = range(3)
# How many lanes took a branch.
NONE_TAKEN, ALL_TAKEN, SOME_TAKEN = range(3)

#: The next record of a lane that has none.
NEVER = np.int64(1) << 62
#: A warp has at most one group per lane; splitting one needs a few more for a moment.
MOST_GROUPS = 64
#: Return addresses that a lane remembers.
STACK_DEPTH = 16

_I64 = np.int64
GROUP = np.dtype([("place", _I64), ("mask", _I64), ("state", _I64), ("wait", _I64)], align=True)
WARP = np.dtype([("alive", _I64), ("groups", _I64), ("idle", _I64), ("records_end", _I64)], align=True)
CURSOR = np.dtype([("instruction", _I64), ("access", _I64)], align=True)
TALLIES = np.dtype([("guessed", _I64), ("jumped", _I64), ("lost", _I64), ("forced", _I64)], align=True)


class Records(NamedTuple):
    """The records of some blocks, sorted by warp."""

    start: Any
    """Where each warp's records begin."""
    place: Any
    """The instruction of each record."""
    mask: Any
    """Its active lanes."""


class Shares(NamedTuple):
    """How often a branch goes each way, as shares of its executions."""

    cases: Any
    """Shares of NONE_TAKEN, ALL_TAKEN and SOME_TAKEN."""
    lanes: Any
    """Share of the lanes that take it."""


class Outcomes(NamedTuple):
    """How branches went in the replay so far."""

    executions: Any
    cases: Any
    """Executions with NONE_TAKEN, ALL_TAKEN and SOME_TAKEN."""


class Lanes(NamedTuple):
    """The lanes of the warp that is being replayed."""

    upcoming: Any
    """The next record of each lane, or NEVER."""
    depth: Any
    stack: Any
    """Return addresses."""
    members: Any
    """Per convergence region and lane: the lanes that entered the region together."""


class Output(NamedTuple):
    """Where executed instructions and their accesses go."""

    static: Any
    mask: Any
    access: Any
    """The record of each access; -1 if no lane took part."""
    instruction_end: Any
    access_end: Any
    """`…_end[w + 1]` is where the instructions and accesses of warp w end."""
    cursor: Any
    """A CURSOR: how much is written."""


class Replay(NamedTuple):
    """Everything that the replay of a launch needs."""

    program: Program
    records: Records
    shares: Shares
    outcomes: Outcomes
    saved_outcomes: Outcomes
    tallies: Any
    saved_tallies: Any
    first_mask: Any
    """The lanes that each warp starts with."""
    warps_per_block: int
    idle_limit: int
    """Instructions without a record after which a warp is taken to its next record."""
    warp: Any
    groups: Any
    lanes: Lanes
    output: Output


def new_outcomes(instructions: int) -> Outcomes:
    return Outcomes(np.zeros(instructions, dtype=np.int64), np.zeros((instructions, 3), dtype=np.int64))


def new_lanes(regions: int) -> Lanes:
    return Lanes(
        upcoming=np.full(32, NEVER, dtype=np.int64),
        depth=np.zeros(32, dtype=np.int64),
        stack=np.zeros((32, STACK_DEPTH), dtype=np.int64),
        members=np.zeros((regions + 1, 32), dtype=np.int64),
    )


def new_output(instructions: int, warps: int) -> Output:
    return Output(
        static=np.empty(instructions, dtype=np.uint32),
        mask=np.empty(instructions, dtype=np.uint32),
        access=np.empty(instructions, dtype=np.int64),
        instruction_end=np.zeros(warps + 1, dtype=np.int64),
        access_end=np.zeros(warps + 1, dtype=np.int64),
        cursor=np.zeros(1, dtype=CURSOR)[0],
    )
