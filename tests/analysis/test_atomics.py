"""Passes of the LLC over sectors, against a count lane by lane."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.traces import Step, memory_trace
from warplens.analysis.atomics import atomic_passes, swaps_of
from warplens.traces import StaticInstruction

ADD = StaticInstruction(0, "atom.global.add.f32", "atomic_global", "global", 4)
COUNT = StaticInstruction(16, "atom.global.add.u32", "atomic_global", "global", 4)
OTHER = StaticInstruction(32, "ld.global.f32", "load_global", "global", 4)
WORDS = st.integers(256, 400).map(lambda word: 4 * word)
STEPS = st.builds(Step, st.integers(0, 2), st.lists(WORDS, min_size=1, max_size=32).map(tuple))


BLOCKS = st.lists(st.lists(st.lists(STEPS, max_size=4), min_size=1, max_size=2), min_size=1, max_size=5)


@given(BLOCKS, st.integers(1, 3))
def test_words_take_one_lane_at_a_time(blocks: list[list[list[Step]]], window: int) -> None:
    cycles = (3.0, 1.0)  # of floats, which come first in the table, and of integers
    by_line: list[Counter[int]] = [Counter() for _ in blocks[::window]]
    sectors = further = 0
    for number, block in enumerate(blocks):
        for step in (step for warp in block for step in warp if step.row < 2):
            lanes = Counter(step.addresses)
            for sector in {address // 32 for address in lanes}:
                passes = max(count for address, count in lanes.items() if address // 32 == sector)
                by_line[number // window][sector // 4] += passes * int(cycles[step.row])
                sectors, further = sectors + 1, further + passes - 1
    found = atomic_passes(memory_trace((ADD, COUNT, OTHER), blocks, blocks_per_group=2), assembled=True)
    assert (found.sectors.sum(), found.further) == (sectors, further)
    assert found.one_line(window, (cycles[1], cycles[0])) == sum(max(each.values(), default=0) for each in by_line)


def test_atomics_without_active_lanes_ask_nothing_of_any_line() -> None:
    found = atomic_passes(memory_trace((ADD, COUNT), [[[Step(0, ()), Step(1, ())]]]), assembled=True)
    assert len(found.line) == found.further == found.one_line(1, (1.0, 1.0)) == 0


@pytest.mark.parametrize(("row", "assembled", "passes"), [(0, False, 32), (1, False, 1), (1, True, 32)])
def test_an_assembler_combines_integers_at_one_address(row: int, assembled: bool, passes: int) -> None:
    trace = memory_trace((ADD, COUNT), [[[Step(row, (1024,) * 32)]]])
    assert atomic_passes(trace, assembled=assembled).passes.sum() == passes


@pytest.mark.parametrize(
    ("lanes_per_word", "warps", "apart", "cycles"),
    [(1, 1, 0, 37133), (32, 1, 0, 791055), (32, 32, 32, 791055), (1, 32, 0, 352088), (32, 32, 0, 11420747)],
)
def test_loops_of_swaps_take_as_long_as_measured(lanes_per_word, warps, apart, cycles):
    """`benchmarks/h200/serial.csv`: 256 additions of floats, after 50 cycles of the last one's latency each."""
    add = StaticInstruction(0, "atom.shared.add.f32", "atomic_shared", "shared", 4)
    block = [
        [Step(0, tuple(4 * (warp * apart + lane // lanes_per_word) for lane in range(32)))] * 8
        for warp in range(warps)
    ]
    trace = memory_trace((add,), [block])
    (group,) = trace.groups()
    swaps = swaps_of(group, trace.static)
    assert (swaps.lanes == lanes_per_word).all()
    assert swaps.cycles(95.0, 43.6) * 256 + 256 * 50 == pytest.approx(cycles, rel=0.06)
