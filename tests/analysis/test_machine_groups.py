"""A wait reads the register of the group of copies or products that it waits for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from warplens.analysis.machine_groups import in_turns
from warplens.traces import StaticInstruction

ROWS = [
    StaticInstruction(0, "LDGSTS.E.128", "async_copy", "global", 16, sources=(250,)),
    StaticInstruction(16, "LDGDEPBAR", "control"),
    StaticInstruction(32, "DEPBAR.LE.1", "control"),
    StaticInstruction(48, "FFMA", "fp32"),
]
COPY, MARK, WAIT, OTHER = range(len(ROWS))


@pytest.mark.parametrize("groups", [1, 2, 5, 20])
def test_waits_leave_the_last_group_under_way(groups: int) -> None:
    warp = [COPY, COPY, MARK, WAIT, OTHER] * groups
    executed = np.array(warp * 2)
    turns = in_turns(ROWS, executed, np.array([0, len(warp), 2 * len(warp)]), len(ROWS))
    table = [*ROWS, *turns.rows]
    for first in (0, len(warp)):
        rows = [table[each] for each in turns.executed[first : first + len(warp)]]
        assert [row.opcode for row in rows] == [ROWS[each].opcode for each in warp]
        copies, waits = rows[::5], rows[3::5]
        assert [row.destinations for row in rows[1::5]] == [row.destinations for row in copies]
        # At the first wait only its own group was copied, and that may be under way.
        assert [row.sources for row in waits] == [(), *(row.destinations for row in copies[:-1])]
        assert all(row.destinations and row.sources == ROWS[COPY].sources for row in copies)
        assert all(one.destinations != other.destinations for one, other in pairwise(copies))


@pytest.mark.parametrize("groups", [1, 3, 12])
def test_products_belong_to_the_group_that_begins_before_them(groups: int) -> None:
    rows = [
        StaticInstruction(0, "WARPGROUP.ARRIVE", "control"),
        StaticInstruction(16, "HGMMA.64x64x16.F32", "tensor"),
        StaticInstruction(32, "WARPGROUP.DEPBAR.LE.0", "control"),
    ]
    executed = np.array([0, 1, 1, 2] * groups)
    turns = in_turns(rows, executed, np.array([0, len(executed)]), len(rows))
    table = [*rows, *turns.rows]
    for begin in range(0, len(executed), 4):
        _, one, other, wait = (table[each] for each in turns.executed[begin : begin + 4])
        assert one.destinations == other.destinations == wait.sources != ()
