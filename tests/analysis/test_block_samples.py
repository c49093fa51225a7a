"""Sampled blocks stand for the launch: which ones are chosen, and what stays of warps with too many events."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.analysis.block_samples import MOST_BLOCKS, chosen_blocks, sample_of_blocks
from warplens.analysis.short_samples import shortened
from warplens.traces import StaticInstruction

ROWS = [
    StaticInstruction(0, "ld", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(8, "lds", "load_shared", "shared", 4, (2,), (1,)),
    StaticInstruction(16, "add", "fp32", destinations=(3,), sources=(2, 3)),
    StaticInstruction(24, "st", "store_global", "global", 4, (), (0, 3)),
    StaticInstruction(32, "exit", "control"),
]
LOAD, SHARED, ADD, STORE, EXIT = range(len(ROWS))
LATENCY = {"load_shared": 20.0, "fp32": 4.0}


def warp(rounds: int, address: int = 1 << 20) -> list[Step]:
    """Loads in a loop that becomes longer, and one store after it."""
    steps = []
    for turn in range(rounds):
        steps += [Step(LOAD, evenly(address + 128 * turn, 4)), Step(SHARED, evenly(0, 4)), *[Step(ADD)] * (turn % 4)]
    return [*steps, Step(STORE, evenly(address, 4)), Step(EXIT)]


@pytest.mark.parametrize("blocks_per_group", [3, 1000])
def test_blocks_that_do_about_as_much_are_chosen_at_even_distances(blocks_per_group):
    blocks = [[warp(40), warp(block % 3)] for block in range(5 * MOST_BLOCKS)]
    chosen = chosen_blocks(memory_trace(ROWS, blocks, blocks_per_group=blocks_per_group), len(blocks))
    assert chosen.block[::2].tolist() == list(range(2, 5 * MOST_BLOCKS, 5))
    lengths = [len(blocks[number][1]) for number in chosen.block[::2].tolist()]
    assert np.diff(chosen.start)[1::2].tolist() == lengths


@pytest.mark.parametrize("place", [0, 61])
def test_a_block_that_is_longer_than_all_chosen_ones_is_chosen_too_and_comes_first(place):
    blocks = [[warp(9 if block == place else 1)] for block in range(5 * MOST_BLOCKS)]
    chosen = chosen_blocks(memory_trace(ROWS, blocks, blocks_per_group=50), len(blocks)).block.tolist()
    assert chosen[0] == place and len(chosen) == MOST_BLOCKS + 1
    others = sorted(chosen[1:])
    assert all(4 <= after - before <= 6 for before, after in pairwise(others))
    assert chosen[1:] == [*(each for each in others if each > place), *(each for each in others if each < place)]


def test_blocks_that_do_little_are_as_frequent_as_in_the_launch():
    """Even where they come at the distance of the chosen ones: at the edge of a grid."""
    blocks = [[warp(1 if block % 8 == 4 else 20)] for block in range(8 * MOST_BLOCKS)]
    trace = memory_trace(ROWS, blocks)
    chosen = chosen_blocks(trace, len(blocks))
    few = sum(block % 8 == 4 for block in chosen.block.tolist())
    assert few == MOST_BLOCKS / 8


def test_of_few_blocks_those_that_do_most_come_first():
    """Their longest warps are alike; the SM that has the blocks with most warps at work ends last."""
    blocks = [[warp(400)] * (8 if block % 2 else 1) + [warp(1)] * (0 if block % 2 else 7) for block in range(40)]
    trace = memory_trace(ROWS, blocks)
    chosen = chosen_blocks(trace, len(blocks))
    done = np.add.reduceat(np.diff(chosen.start), np.arange(0, len(chosen), 8))
    assert done[0] == done.max() and done.mean() == pytest.approx(
        np.mean([sum(map(len, block)) for block in blocks]), rel=0.1
    )


@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_loads_issued_ahead_are_those_of_earlier_iterations(ahead):
    """Of one warp that follows a list and one that does not; nothing lets the list's next element come earlier."""
    rows = [
        StaticInstruction(0, "ld", "load_global", "global", 4, (1,), (0,)),
        StaticInstruction(8, "ld", "load_global", "global", 8, (2,), (2,)),
        StaticInstruction(16, "st", "store_global", "global", 4, (), (0, 1)),
        StaticInstruction(24, "st", "store_global", "global", 8, (), (0, 2)),
    ]
    plain, chased = [0, 2], [0, 1, 2, 3]
    warps = [[Step(row, evenly(4096, rows[row].access_bytes)) for row in 5 * turn] for turn in (plain, chased)]
    trace = memory_trace(rows, [warps])
    found = sample_of_blocks(trace.held[0], trace, 128, lambda name: 0.0, ahead=ahead)
    first, second = (found.dependence[start:end].tolist() for start, end in pairwise(found.event_start))
    earlier = [max(turn - ahead, 0) for turn in range(5)]
    assert first[1::2] == [2 * turn for turn in earlier]
    # Each element is needed before the next, and by all that comes after.
    assert second[3::4] == [4 * turn + 1 for turn in range(5)]
    assert second[2::4] == [max(4 * early, 4 * turn - 3) for turn, early in enumerate(earlier)]


def test_what_stays_of_a_long_warp_does_all_of_its_work():
    trace = memory_trace(ROWS, [[warp(50), warp(4), warp(41)]])
    whole = sample_of_blocks(trace.held[0], trace, 128, lambda name: LATENCY.get(name, 0.0))
    kept = shortened(whole, 9)
    assert np.diff(whole.event_start).tolist() == [52, 6, 43]
    assert np.diff(kept.event_start).tolist() == [9, 6, 9]
    for first, last in zip(whole.event_start[:-1], whole.event_start[1:], strict=True):
        place = np.searchsorted(whole.event_start, first)
        mine = slice(kept.event_start[place], kept.event_start[place + 1])
        assert kept.weight[mine].sum() == pytest.approx(last - first)
        for name in ("instructions", "gap", "shared_cycles"):
            done = (getattr(kept, name)[mine] * kept.weight[mine]).sum()
            assert done == pytest.approx(getattr(whole, name)[first:last].sum()), name
    # The loop's loads stand for one another, the store at the end for itself.
    assert kept.weight[(kept.kind != whole.kind[0]) & (kept.static == STORE)].tolist() == [1.0] * 3


def test_what_is_computed_once_stays_once_in_a_long_warp():
    """Events behind one long computation each have it in their tail; one that stands for many has it but once."""
    trace = memory_trace(ROWS, [[warp(50)]])
    found = sample_of_blocks(trace.held[0], trace, 128, lambda name: LATENCY.get(name, 0.0))
    middle = len(found.gap) // 3  # where the second of three parts begins
    gap, tail, dependence = found.gap.copy(), found.tail.copy(), found.dependence.copy()
    gap[middle] += 5000.0
    dependence[middle:] = middle - 1
    tail[middle:] = np.cumsum(gap[middle:])
    kept = shortened(dataclasses.replace(found, gap=gap, tail=tail, dependence=dependence), 9)
    computed = np.cumsum(kept.gap * kept.weight)
    needs = kept.dependence >= 0
    between = computed[needs] - computed[kept.dependence[needs]]
    assert ((kept.tail * kept.weight)[needs] <= between + 1e-9).all()
    assert kept.weight.max() > 2.0
