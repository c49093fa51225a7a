"""Instructions from beyond the instruction caches, against what the sizes of code and caches say."""

from __future__ import annotations

import numpy as np
import pytest

from reference.traces import Step, memory_trace
from warplens.analysis.block_samples import FAR_FETCHED, FETCHED, fetched_instructions, fits_in
from warplens.traces import StaticInstruction

CACHES = (1024, 4096)  # 64 and 256 instructions


@pytest.mark.parametrize(("instructions", "near", "far"), [(64, 0, 0), (128, 128, 0), (200, 200, 0), (512, 0, 512)])
def test_a_loop_fetches_what_does_not_fit(instructions, near, far):
    """The second pass through a body; of the first pass a cache has the beginning of the code."""
    rows = [StaticInstruction(16 * i, "FFMA", "fp32", destinations=(1,), sources=(1,)) for i in range(instructions)]
    trace = memory_trace(rows, [[[Step(i) for i in range(instructions)] * 2]])
    (group,) = trace.groups()
    found = fetched_instructions(group, trace.static, CACHES)
    assert int(found[FETCHED][instructions:].sum()) == near
    assert int(found[FAR_FETCHED][instructions:].sum()) == far
    assert fits_in(trace.static, CACHES[0]) == (instructions <= 64)


def test_a_line_is_fetched_where_a_warp_enters_it():
    """Of 16 lines a cache of 8 has the first ones; a jump within a line enters none."""
    rows = [StaticInstruction(16 * i, "FFMA", "fp32", destinations=(1,), sources=(1,)) for i in range(128)]
    trace = memory_trace(rows, [[[Step(i) for i in (*range(128), *range(120, 128))]]])
    (group,) = trace.groups()
    found = fetched_instructions(group, trace.static, CACHES)[FETCHED]
    assert np.flatnonzero(found).tolist() == list(range(64, 128, 8))


def test_nothing_is_fetched_without_sizes():
    rows = [StaticInstruction(0, "FFMA", "fp32", destinations=(1,), sources=(1,))]
    trace = memory_trace(rows, [[[Step(0)] * 4]])
    (group,) = trace.groups()
    assert fetched_instructions(group, trace.static, ()) == {}
    assert not np.any(list(fetched_instructions(group, trace.static, CACHES).values()))
