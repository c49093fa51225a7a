"""Changed traces, against the same changes to warps spelled out instruction by instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reference.traces import Step, evenly, memory_trace, spelled_out
from warplens.traces import StaticInstruction, StaticTable, WarpGroup
from warplens.traces.rewrite import changed, keep_executions, lane_addresses, square_blocks, with_addresses, with_rows

ROWS = (
    StaticInstruction(0, "ld", "load_global", "global", 4, (1,), (2, 3), line=7),
    StaticInstruction(16, "add", "int32", destinations=(2,), sources=(1,)),
    StaticInstruction(32, "st", "store_global", "global", 8, (), (1, 2), line=9),
    StaticInstruction(48, "lds", "load_shared", "shared", 4, (4,), line=9),
)
EVEN = st.builds(evenly, st.integers(1, 1 << 40), st.sampled_from([0, 4, 8, 256]), st.integers(1, 32))
LISTED = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=32).map(tuple)
STEPS = st.one_of(
    st.just(Step(1)),
    st.builds(Step, st.sampled_from([0, 2, 3]), st.one_of(EVEN, LISTED), st.booleans()),
)
BLOCKS = st.lists(st.lists(st.lists(STEPS, max_size=6), min_size=1, max_size=3), min_size=1, max_size=3)
CHOSEN = st.lists(st.booleans(), min_size=4, max_size=4).map(np.array)


def made(blocks: Any) -> tuple[WarpGroup, StaticTable]:
    trace = memory_trace(ROWS, blocks)
    return trace.held[0], trace.static


@given(BLOCKS, CHOSEN)
def test_addresses_are_those_of_the_lanes(blocks: Any, chosen: Any) -> None:
    group, static = made(blocks)
    lanes = lane_addresses(group, static, chosen)
    expected = [step for warp in spelled_out(group, static) for step in warp if step[2] and chosen[step[0]]]
    assert group.static[lanes.instruction].tolist() == [row for row, _, _ in expected]
    assert np.split(lanes.address, lanes.start[1:-1]) if expected else not len(lanes.address)
    assert [each.tolist() for each in np.split(lanes.address, lanes.start[1:-1])][: len(expected)] == [
        list(addresses) for _, _, addresses in expected
    ]


@given(BLOCKS, CHOSEN)
def test_the_same_addresses_give_the_same_trace(blocks: Any, chosen: Any) -> None:
    group, static = made(blocks)
    again = with_addresses(group, static, lane_addresses(group, static, chosen))
    assert spelled_out(again, static) == spelled_out(group, static)


@given(BLOCKS, CHOSEN, st.randoms(use_true_random=False))
def test_other_addresses_go_to_the_chosen_alone(blocks: Any, chosen: Any, rng: Any) -> None:
    group, static = made(blocks)
    lanes = lane_addresses(group, static, chosen)
    other = np.array([rng.choice([0, 4, 8, 12]) for _ in lanes.address], dtype=np.uint64)
    values = iter(other.tolist())
    expected = [
        [(row, mask, tuple(next(values) for _ in at) if chosen[row] else at) for row, mask, at in warp]
        for warp in spelled_out(group, static)
    ]
    assert spelled_out(with_addresses(group, static, lanes.moved(other)), static) == expected


@given(BLOCKS, st.randoms(use_true_random=False))
def test_dropped_executions_leave_the_others_as_they_were(blocks: Any, rng: Any) -> None:
    group, static = made(blocks)
    keep = np.array([rng.random() < 0.5 for _ in group.static], dtype=bool)
    kept = iter(keep.tolist())
    expected = [[step for step in warp if next(kept)] for warp in spelled_out(group, static)]
    assert spelled_out(keep_executions(group, static, keep), static) == expected


@given(BLOCKS, CHOSEN, st.sampled_from([1, 4, 128]))
def test_ranks_count_distinct_units(blocks: Any, chosen: Any, unit: int) -> None:
    group, static = made(blocks)
    lanes = lane_addresses(group, static, chosen)
    expected = []
    for begin, end in zip(lanes.start[:-1].tolist(), lanes.start[1:].tolist(), strict=True):
        units = [address // unit for address in lanes.address[begin:end].tolist()]
        expected.append([sorted(set(units)).index(each) for each in units])
    assert lanes.ranks(unit).tolist() == [rank for ranks in expected for rank in ranks]
    assert lanes.most(lanes.ranks(unit)).tolist() == [max(ranks) for ranks in expected]


@given(st.lists(st.lists(st.lists(STEPS, max_size=4), min_size=2, max_size=2), min_size=1, max_size=5))
def test_warps_of_neighbours_become_a_block(blocks: Any) -> None:
    group, static = made(blocks)
    whole = len(blocks) // 2 * 2
    pairs = zip(blocks[0:whole:2], blocks[1:whole:2], strict=True)
    expected = [warp for first, second in pairs for n in range(2) for warp in (first[n], second[n])]
    expected += [warp for block in blocks[whole:] for warp in block]
    found = square_blocks(group, static)
    assert found.block.tolist() == group.block.tolist() and found.warp.tolist() == group.warp.tolist()
    again, _ = made([expected])
    assert spelled_out(found, static) == spelled_out(again, static)


def test_rows_are_appended_as_copies() -> None:
    _, static = made([[[Step(1)]]])
    longer = with_rows(static, np.array([2, 0]), space=3)
    assert len(longer) == 6
    assert longer.opcode[4:] == ("st", "ld")
    assert longer.space.tolist() == [*static.space.tolist(), 3, 3]
    assert longer.line.tolist() == [7, 0, 9, 9, 9, 7]
    for copy, original in ((4, 2), (5, 0)):
        assert longer.sources_of(copy) == static.sources_of(original)
        assert longer.destinations_of(copy) == static.destinations_of(original)


def test_groups_change_each_time_they_are_read() -> None:
    trace = memory_trace(ROWS, [[[Step(0, (4, 8)), Step(1)]]] * 3, blocks_per_group=2)
    fewer = changed(trace, lambda group, static: keep_executions(group, static, group.static == 1))
    for _ in range(2):
        assert [group.static.tolist() for group in fewer.groups()] == [[1, 1], [1]]
    assert fewer.header == trace.header and fewer.static is trace.static
