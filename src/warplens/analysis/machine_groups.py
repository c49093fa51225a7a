"""Asynchronous copies and products of machine code: which of their groups each wait is for.

`LDGDEPBAR` ends a group of copies, `WARPGROUP.ARRIVE` begins one of products. A wait says how many of the last groups
may still be under way. Groups take turns at a few registers, so a row stands in the table once per register. Machine
code of PTX uses none of these registers; traced machine code has to leave some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..frontends.sass_opcodes import WARPGROUP_PRODUCTS
from ..traces import NO_REGISTER, LaunchTrace, StaticInstruction, WarpGroup, static_table
from ..traces.rewrite import changed
from .machine_rows import joined_tables


class _Kind(NamedTuple):
    """What starts work, what marks a group of it and whether it comes first, what waits, and the registers to use."""

    starts: tuple[str, ...]
    mark: str
    marked_first: bool
    wait: str
    registers: tuple[int, ...] = ()


KINDS = (
    _Kind(("LDGSTS",), "LDGDEPBAR", False, "DEPBAR.LE", tuple(range(232, 240))),
    _Kind(WARPGROUP_PRODUCTS, "WARPGROUP.ARRIVE", True, "WARPGROUP.DEPBAR.LE", tuple(range(240, 248))),
)
#: The same of PTX, which ends both kinds of groups; the immediate of a wait says how many may stay under way.
PTX_KINDS = (
    _Kind(("cp.async.ca", "cp.async.cg"), "cp.async.commit_group", False, "cp.async.wait_group"),
    _Kind(("wgmma.mma_async",), "wgmma.commit_group", False, "wgmma.wait_group"),
)
#: Waits even for copies that belong to no group yet.
PTX_WAIT_FOR_ALL = "cp.async.wait_all"
_TURNS = 8


class Turns(NamedTuple):
    """Rows to add to a table, for each the row that it is a variant of, and rows in turn of executed ones."""

    rows: list[StaticInstruction]
    origins: list[int]
    executed: NDArray[np.int64]


def in_turns(
    rows: Sequence[StaticInstruction],
    executed: NDArray[np.int64],
    start: NDArray[np.int64],
    first: int,
    kinds: Sequence[_Kind] = KINDS,
) -> Turns:
    """Rows by turn, the first of which has index `first`, and the executed rows with those in place."""
    found = executed.copy()
    added: list[StaticInstruction] = []
    origins: list[int] = []
    opcodes = [row.opcode for row in rows]
    begins = np.zeros(len(executed) + 1, dtype=np.int64)
    for kind in kinds:
        turns = len(kind.registers)
        marks = [i for i, opcode in enumerate(opcodes) if opcode == kind.mark]
        if not marks:
            continue
        counted = np.concatenate(([0], np.cumsum(np.isin(executed, marks))))
        begins[: len(executed)] = np.repeat(counted[start[:-1]], np.diff(start))
        groups = counted[:-1] - begins[:-1]  # those that were marked before, in the same warp
        for i, opcode in enumerate(opcodes):
            name, _, left = opcode.rpartition(".")
            starts = opcode.partition(".")[0] in kind.starts
            if not starts and not (name == kind.wait and left.isdigit() and int(left) < turns):
                continue
            base = first + len(added)
            added += [_in_turn(rows[i], register, starts=starts) for register in kind.registers]
            origins += [i] * turns
            here = np.flatnonzero(executed == i)
            group = groups[here] - (int(kind.marked_first) if starts else 1 + int(left))
            found[here] = np.where(group >= 0, base + group % turns, i)
    return Turns(added, origins, found)


def _in_turn(row: StaticInstruction, register: int, *, starts: bool) -> StaticInstruction:
    if starts:
        return replace(row, destinations=(*row.destinations, register))
    return replace(row, sources=(*row.sources, register))


class Waiting(NamedTuple):
    """Traced machine code whose waits name groups, and of each row of its table the one that it is a variant of."""

    group: WarpGroup
    trace: LaunchTrace
    origins: NDArray[np.int64]


def waiting(group: WarpGroup, trace: LaunchTrace) -> Waiting | None:
    """Executed machine code with waits for groups; None if it has none, or no registers to tell groups apart."""
    static = trace.static
    control = trace.header.extra.get("sass_control")
    if control is None or not any(".LE." in opcode for opcode in static.opcode):
        return None
    used = {*static.destinations.tolist(), *static.sources.tolist()}
    free = [register for register in range(NO_REGISTER) if register not in used]
    turns = min(len(free) // len(KINDS), _TURNS)
    kinds = [
        kind._replace(registers=tuple(free[number * turns : (number + 1) * turns]))
        for number, kind in enumerate(KINDS)
    ]
    rows = [static.row(index) for index in range(len(static))]
    found = in_turns(rows, group.static.astype(np.int64), group.start, len(rows), kinds if turns else ())
    if not found.rows:
        return None
    header = trace.header
    extended = (*control[: len(rows)], *(control[each] for each in found.origins))
    return Waiting(
        replace(group, static=found.executed.astype(group.static.dtype)),
        changed(
            trace,
            static=joined_tables([static, static_table(found.rows)]),
            header=replace(header, extra={**header.extra, "sass_control": extended}),
        ),
        np.array([*range(len(rows)), *found.origins]),
    )
