"""Asynchronous copies and products of machine code: which of their groups each wait is for.

`LDGDEPBAR` ends a group of copies, `WARPGROUP.ARRIVE` begins one of products. A wait says how many of the last groups
may still be under way. Groups take turns at a few registers, so a row stands in the table once per register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..frontends.sass_opcodes import WARPGROUP_PRODUCTS
from ..traces import StaticInstruction


class _Kind(NamedTuple):
    """What starts work, what marks a group of it and whether it comes first, what waits, and the first register."""

    starts: tuple[str, ...]
    mark: str
    marked_first: bool
    wait: str
    register: int


_KINDS = (
    _Kind(("LDGSTS",), "LDGDEPBAR", False, "DEPBAR.LE", 232),
    _Kind(WARPGROUP_PRODUCTS, "WARPGROUP.ARRIVE", True, "WARPGROUP.DEPBAR.LE", 240),
)
_TURNS = 8


class Turns(NamedTuple):
    """Rows to add to a table, for each the row that it is a variant of, and rows in turn of executed ones."""

    rows: list[StaticInstruction]
    origins: list[int]
    executed: NDArray[np.int64]


def in_turns(
    rows: Sequence[StaticInstruction], executed: NDArray[np.int64], start: NDArray[np.int64], first: int
) -> Turns:
    """Rows by turn, the first of which has index `first`, and the executed rows with those in place."""
    found = executed.copy()
    added: list[StaticInstruction] = []
    origins: list[int] = []
    opcodes = [row.opcode for row in rows]
    begins = np.zeros(len(executed) + 1, dtype=np.int64)
    for kind in _KINDS:
        marks = [i for i, opcode in enumerate(opcodes) if opcode == kind.mark]
        if not marks:
            continue
        counted = np.concatenate(([0], np.cumsum(np.isin(executed, marks))))
        begins[: len(executed)] = np.repeat(counted[start[:-1]], np.diff(start))
        groups = counted[:-1] - begins[:-1]  # those that were marked before, in the same warp
        for i, opcode in enumerate(opcodes):
            name, _, left = opcode.rpartition(".")
            starts = opcode.partition(".")[0] in kind.starts
            if not starts and not (name == kind.wait and left.isdigit()):
                continue
            base = first + len(added)
            added += [_in_turn(rows[i], kind.register + turn, starts=starts) for turn in range(_TURNS)]
            origins += [i] * _TURNS
            here = np.flatnonzero(executed == i)
            group = groups[here] - (int(kind.marked_first) if starts else 1 + int(left))
            found[here] = np.where(group >= 0, base + group % _TURNS, i)
    return Turns(added, origins, found)


def _in_turn(row: StaticInstruction, register: int, *, starts: bool) -> StaticInstruction:
    if starts:
        return replace(row, destinations=(*row.destinations, register))
    return replace(row, sources=(*row.sources, register))
