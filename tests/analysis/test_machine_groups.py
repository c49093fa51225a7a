"""A wait reads the register of the group of copies that it waits for."""

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
