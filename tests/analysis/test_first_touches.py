"""Lines that parts of a launch share come from DRAM once, not once for each recorded part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.analysis import EventStream, instruction_kinds, simulate_caches
from warplens.analysis.first_touches import first_touches
from warplens.machine import load_gpu
from warplens.traces import MemoryTrace, StaticInstruction
from warplens.workload import workload_of_trace
from warplens.workload.launch import resident
from warplens.workload.traced import cache_misses, runs_of

LINE, LAUNCHED = 128, 1000
#: Far apart in the grid, and side by side.
APART, TOGETHER = (*range(100, 110), *range(600, 610)), tuple(range(100, 120))
ROWS = [
    StaticInstruction(0, "ld", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(8, "st", "store_global", "global", 4, (), (1,)),
]


def recorded(numbers, lines_of) -> MemoryTrace:
    """Blocks of one warp, by number; each loads its lines, and stores to one of its own."""
    blocks = [
        [
            [
                *(Step(0, evenly(LINE * line, 4)) for line in lines_of(number)),
                Step(1, evenly(LINE * (2**20 + number), 4)),
            ]
        ]
        for number in numbers
    ]
    trace = memory_trace(ROWS, blocks)
    (group,) = trace.groups()
    header = replace(trace.header, grid=(LAUNCHED, 1, 1), extra={"recorded_blocks": len(numbers)})
    return MemoryTrace(header, trace.static, (replace(group, block=np.array(numbers)[group.block]),))


def touches(trace):
    events = EventStream(trace, LINE, lambda name: 0.0)
    return first_touches(trace, events, instruction_kinds(trace.static))


def own(number):
    return range(1000 * number, 1000 * number + 8)


def common(number):
    return range(8)


def either(number):
    return [*range(1000 * number, 1000 * number + 4), *range(8)]


@pytest.mark.parametrize("numbers", [APART, TOGETHER])
def test_lines_of_its_own_are_new_in_each_block(numbers):
    found = touches(recorded(numbers, own))
    assert found.lines.tolist() == [8 * len(numbers), 0]
    assert found.share.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("numbers", [APART, TOGETHER])
def test_lines_that_all_blocks_share_are_new_once(numbers):
    found = touches(recorded(numbers, common))
    assert found.lines.tolist() == [8, 0]
    assert found.share[0] * found.lines[0] * found.repeats == pytest.approx(8)


@pytest.mark.parametrize("numbers", [APART, TOGETHER])
def test_other_blocks_touch_as_many_new_lines_as_the_last_part(numbers):
    found = touches(recorded(numbers, either))
    assert found.share[0] * found.lines[0] * found.repeats == pytest.approx(8 + 4 * LAUNCHED, rel=0.02)


def test_a_launch_that_is_recorded_as_a_whole_needs_none():
    trace = recorded(tuple(range(LAUNCHED)), common)
    assert touches(trace) is None
    assert touches(recorded(range(5), common)) is None  # too few to tell


def test_what_other_blocks_have_brought_is_in_the_l2():
    gpu = load_gpu("h200")
    alone, shared = (cache_misses(workload_of_trace(recorded(APART, each)), gpu) for each in (own, common))
    assert alone.column("llc_misses")[0] == 4 * 8 * len(APART)  # sectors
    assert shared.column("llc_misses")[0] <= 1
    assert shared.column("worst_dram")[0] == 0
    for found in (alone, shared):
        assert (found.column("llc_hits") + found.column("llc_misses"))[0] >= 8
        assert found.levels[0].sum() == pytest.approx(1.0)


def test_nobody_waits_for_what_other_blocks_have_brought():
    trace = recorded(APART, either)
    gpu, workload = load_gpu("h200"), workload_of_trace(trace)
    (run,), _ = runs_of(workload, gpu, resident(workload.launch, gpu), (), "the test")
    found = simulate_caches(
        EventStream(trace, LINE, lambda name: 0.0), instruction_kinds(trace.static), run, LAUNCHED
    )
    assert found.arrival("llc")[0] > 0
    after = touches(trace).applied(found, run.config)
    for name in ("llc", "llc_left", "crossed"):
        assert after.arrival(name) == pytest.approx(found.arrival(name) * touches(trace).share)
    assert after.arrival("l1") == pytest.approx(found.arrival("l1"))


def test_an_l2_that_is_too_small_loses_it_before_the_next_part():
    trace = recorded(APART, either)
    found = touches(trace)
    gpu, workload = load_gpu("h200"), workload_of_trace(trace)
    (run,), _ = runs_of(workload, gpu, resident(workload.launch, gpu), (), "the test")
    before = cache_misses(workload, gpu)
    assert found.applied(before, run.config) is not before
    assert replace(found, repeats=1e9).applied(before, run.config) is before
