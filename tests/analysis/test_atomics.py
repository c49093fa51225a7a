"""Passes of the LLC over sectors, against a count lane by lane."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.traces import Step, memory_trace
from warplens.analysis.atomics import atomic_passes, swaps_of
from warplens.analysis.block_samples import executed_by, sample_of_blocks
from warplens.traces import StaticInstruction

ADD = StaticInstruction(0, "atom.global.add.f32", "atomic_global", "global", 4)
COUNT = StaticInstruction(16, "atom.global.add.u32", "atomic_global", "global", 4)
OTHER = StaticInstruction(32, "ld.global.f32", "load_global", "global", 4)
WORDS = st.integers(256, 400).map(lambda word: 4 * word)
STEPS = st.builds(Step, st.integers(0, 2), st.lists(WORDS, min_size=1, max_size=32).map(tuple))


BLOCKS = st.lists(st.lists(st.lists(STEPS, max_size=4), min_size=1, max_size=2), min_size=1, max_size=5)


def slice_of(sector: int, slices: int) -> int:
    """Pairs of lines go to two slices in turn, each KiB of 4 to two others."""
    address = sector * 32
    group = ((address // 4096 * 0x9E3779B97F4A7C15) % 2**64 >> 32) % max(slices // 8, 1)
    return (group * 8 + 2 * (address // 1024 % 4) + address // 256 % 2) % slices


@given(BLOCKS, st.integers(1, 3), st.sampled_from([1, 8, 96]))
def test_words_take_one_lane_at_a_time(blocks: list[list[list[Step]]], window: int, slices: int) -> None:
    cycles = (3.0, 1.0)  # of floats, which come first in the table, and of integers
    by_sector: list[Counter[int]] = [Counter() for _ in blocks[::window]]
    by_slice: list[Counter[int]] = [Counter() for _ in blocks[::window]]
    requests = further = 0
    for number, block in enumerate(blocks):
        for step in (step for warp in block for step in warp if step.row < 2):
            lanes = Counter(step.addresses)
            for sector in {address // 32 for address in lanes}:
                passes = max(count for address, count in lanes.items() if address // 32 == sector)
                by_sector[number // window][sector] += passes * int(cycles[step.row])
                by_slice[number // window][slice_of(sector, slices)] += passes
                requests, further = requests + 1, further + passes - 1
    found = atomic_passes(memory_trace((ADD, COUNT, OTHER), blocks, blocks_per_group=2), assembled=True)
    assert (found.requests.sum(), found.further) == (requests, further)
    assert found.busiest(window, slices, (cycles[1], cycles[0])) == sum(
        max(max(one.values(), default=0), max(other.values(), default=0))
        for one, other in zip(by_sector, by_slice, strict=True)
    )


def test_atomics_without_active_lanes_ask_nothing_of_any_sector() -> None:
    found = atomic_passes(memory_trace((ADD, COUNT), [[[Step(0, ()), Step(1, ())]]]), assembled=True)
    assert len(found.sector) == found.further == found.busiest(1, 96, (1.0, 1.0)) == 0


@pytest.mark.parametrize(
    ("row", "words", "spacing", "cycles"),
    [
        *((1, 1, 1, 46.3), (1, 2, 8, 46.3), (1, 16, 8, 23.5), (1, 16, 32, 12.0), (1, 32, 32, 6.0)),
        *((0, 1, 1, 111.2), (0, 8, 1, 13.9), (0, 2, 8, 55.6), (0, 4, 8, 46.3), (0, 32, 8, 21.8)),
    ],
)
def test_additions_take_as_long_as_measured(row: int, words: int, spacing: int, cycles: float) -> None:
    """`benchmarks/h200/additions.csv`: lanes add to some words in order, with the cycles of a pass from there."""
    step = Step(row, tuple((1 << 22) + 4 * spacing * (lane % words) for lane in range(32)))
    found = atomic_passes(memory_trace((ADD, COUNT), [[[step]]]), assembled=True)
    assert found.busiest(1, 96, (1.448, 3.468)) == pytest.approx(cycles, rel=0.07)


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


#: Of an H200.
TIMES = {"swap_lane": 95.0, "swap_word": 43.6, "swap_port": 3.5}


def adding(lanes_per_word: int, warps: int):
    """Warps of a block whose lanes add floats to shared words, all warps to the same."""
    row = StaticInstruction(0, "atom.shared.add.f32", "atomic_shared", "shared", 4, (1,), (0,))
    lanes = tuple(1 << 10 | 4 * (lane // lanes_per_word) for lane in range(32))
    return memory_trace([row], [[[Step(0, lanes)]] * warps])


@pytest.mark.parametrize(("warps", "turns"), [(1, 32), (2, 32), (8, 32 * 8 * 43.6 / 95), (32, 32 * 43.6 / 3.5)])
def test_lanes_that_lose_to_other_warps_try_again(warps, turns):
    """Each turn takes 95 cycles, or 3.5 at the port for each warp."""
    trace = adding(32, warps)
    found = swaps_of(trace.held[0], trace.static)
    assert found.turns(95.0, 43.6, 3.5) == pytest.approx(turns)
    done = executed_by(trace.held[0], trace, lambda name: TIMES.get(name, 0.0), reorder=False)
    assert done.repeated == pytest.approx(6 * turns - 1) and done.shared_cycles == pytest.approx(3.5 * turns)


def test_time_at_a_port_that_warps_keep_busy_counts_once():
    trace = adding(32, 32)
    found = swaps_of(trace.held[0], trace.static)
    assert found.waits(95.0, 43.6, 3.5) == pytest.approx(found.cycles(95.0, 43.6))
    alone = swaps_of((one := adding(32, 1)).held[0], one.static)
    assert alone.waits(95.0, 43.6, 3.5) == pytest.approx(32 * 3.5 * 3.5 / 95)


def test_a_sample_has_the_instructions_of_all_turns():
    trace = adding(8, 4)
    sample = sample_of_blocks(trace.held[0], trace, 128, lambda name: TIMES.get(name, 0.0))
    turns = 8 * 4 * 43.6 / 95
    assert sample.instructions.sum() == pytest.approx(4 * 6 * turns)
    assert sample.expansion == pytest.approx(6 * turns)
