"""Instructions between events, against a plain walk through the warps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.traces import Step, evenly, memory_trace
from warplens.analysis.block_samples import executed_by
from warplens.analysis.gaps import Pairs, gaps_of
from warplens.traces import StaticInstruction

ROWS = [
    StaticInstruction(0, "ld", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(8, "lds", "load_shared", "shared", 4, (2,), (1,)),
    StaticInstruction(16, "add", "fp32", destinations=(3,), sources=(2, 3)),
    StaticInstruction(24, "st", "store_global", "global", 4, (), (0, 3)),
    StaticInstruction(32, "exit", "control"),
]
LATENCY = {"load_shared": 20.0, "fp32": 4.0}


def plain(warps):
    """Counts, stalls and shared cycles by (event, instruction)."""
    executions, stalls, shared = Counter(), Counter(), Counter()
    for warp in warps:
        time, ready, pending = 0.0, {}, []
        for place, step in enumerate(warp):
            row = ROWS[step.row]
            when, by = max(((*ready[r], r)[:2] for r in row.sources if r in ready), default=(0.0, None))
            pending.append((step.row, max(when - time, 0.0), by))
            time = max(time, when) + 1.0
            for register in row.destinations:
                ready[register] = (time + LATENCY.get(row.instruction_class, 0.0), step.row)
            if step.row in (0, 3) or place == len(warp) - 1:
                for instruction, stall, cause in pending:
                    executions[step.row, instruction] += 1
                    if stall:
                        stalls[step.row, cause] += stall
                    if instruction == 1:
                        shared[step.row, instruction] += 1
                pending = []
    return executions, stalls, shared


def as_dict(pairs: Pairs):
    keys = zip(pairs.event.tolist(), pairs.instruction.tolist(), strict=True)
    return {key: amount for key, amount in zip(keys, pairs.amount.tolist(), strict=True) if amount}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), max_size=30), min_size=1, max_size=4))
def test_gaps_are_those_of_a_plain_walk(warps):
    steps = [[*(Step(row, evenly(1 << 20, 4) if row != 2 else ()) for row in warp), Step(4)] for warp in warps]
    trace = memory_trace(ROWS, [steps])
    (group,) = trace.groups()
    executed = executed_by(group, trace, lambda name: LATENCY.get(name, 0.0), reorder=False)
    gaps = gaps_of(executed, trace.static)
    for found, expected in zip((gaps.executions, gaps.stalls, gaps.shared), plain(steps), strict=True):
        assert as_dict(found) == pytest.approx(expected)


def test_what_events_have_is_given_to_their_instructions():
    pairs = Pairs(np.array([0, 0, 2]), np.array([0, 1, 1]), np.array([1.0, 3.0, 5.0]))
    assert pairs.spread(np.array([8.0, 0.0, 1.0])).tolist() == [2.0, 7.0, 0.0]
    assert pairs.spread(np.array([8.0, 0.0, 1.0]), np.array([3.0, 1.0, 1.0])).tolist() == [4.0, 5.0, 0.0]
