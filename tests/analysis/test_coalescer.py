"""Lanes to lines, against a byte-by-byte oracle; what an event waits for; divergence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import coalescer
from reference.traces import Block, Step, evenly, memory_trace
from warplens.analysis import Events, collect_events, events, instruction_kinds
from warplens.analysis import _cache_kernels as kernels
from warplens.analysis.events import BRANCH, GUARD, TAKEN
from warplens.errors import MachineError
from warplens.traces import StaticInstruction, static_table

from .strategies import LATENCIES, ROWS, chunked, latency, launches

LOAD = StaticInstruction(0, "LDG.E", "load_global", "global", 4, (1,), ())
WIDE = StaticInstruction(0, "LDG.E.128", "load_global", "global", 16, (1,), ())


def lines_of(addresses: tuple[int, ...], row: StaticInstruction = LOAD, line_bytes: int = 128) -> dict[int, int]:
    """Line -> granules as bits, for one instruction."""
    (found,) = collect_events(memory_trace([row], [[[Step(0, addresses)]]]), line_bytes, latency)
    return dict(zip(found.line_id.tolist(), found.line_words.tolist(), strict=True))


def assert_same(found: Events, blocks: list[Block], line_bytes: int, **timing: Any) -> None:
    warps = [warp for block in blocks for warp in block]
    per_warp = [coalescer.events_of(warp, ROWS, line_bytes, latency, **timing) for warp in warps]
    expected = [event for each in per_warp for event in each]
    assert found.block_start.tolist() == np.cumsum([0, *map(len, blocks)]).tolist()
    assert found.event_start.tolist() == np.cumsum([0, *map(len, per_warp)]).tolist()
    assert found.line_start.tolist() == np.cumsum([0, *(len(event.lines) for event in expected)]).tolist()
    assert found.event_static.tolist() == [event.row for event in expected]
    assert found.event_instructions.tolist() == [event.instructions for event in expected]
    assert found.event_gap.tolist() == [event.gap for event in expected]
    assert found.event_dependence.tolist() == [event.dependence for event in expected]
    assert found.event_tail.tolist() == [event.tail for event in expected]
    assert found.event_runs.tolist() == [event.runs for event in expected]
    assert found.line_id.tolist() == [line for event in expected for line in event.lines]
    words = [sum(1 << granule for granule in granules) for event in expected for granules in event.lines.values()]
    assert found.line_words.tolist() == words


@given(launches(), st.integers(1, 3), st.booleans(), st.sampled_from((32, 64, 128, 256)))
def test_events_and_lines_equal_the_oracle(blocks, blocks_per_group, together, line_bytes):
    trace = memory_trace(ROWS, blocks, blocks_per_group=blocks_per_group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "CHUNK_BYTES", 2**30 if together else 0)
        found = list(collect_events(trace, line_bytes, latency))
    expected = chunked(blocks, together)
    assert len(found) == len(expected)
    for chunk, part in zip(found, expected, strict=True):
        assert_same(chunk, list(part), line_bytes)


@given(launches(), st.lists(st.integers(0, 15), min_size=len(ROWS), max_size=len(ROWS)))
def test_machine_code_issues_by_its_stall_counts(blocks, stalls):
    trace = memory_trace(ROWS, blocks)
    # Other control bits say nothing about the time.
    header = replace(trace.header, extra={"sass_control": [stall | 0x7E0 for stall in stalls]})
    times = {**LATENCIES, TAKEN: 4.5}
    (found,) = collect_events(replace(trace, header=header), 128, lambda name: times.get(name, 0.0))
    counts = {row: max(stall, 1) for row, stall in enumerate(stalls)}
    assert_same(found, blocks, 128, stalls=counts, taken=4.5)


def test_ptx_waits_after_branches_and_for_guards():
    rows = [
        StaticInstruction(0, "setp.lt.s32", "int32", destinations=(1,)),
        StaticInstruction(8, "bra", "control", sources=(1,)),
        StaticInstruction(16, "ld.global.f32", "load_global", "global", 4, (2,)),
    ]
    times = {"int32": 4.0, BRANCH: 5.0, GUARD: 13.0}
    steps = [Step(0), Step(1), Step(2, evenly(0, 4)), Step(0), Step(1), Step(2, evenly(0, 4))]
    (found,) = collect_events(memory_trace(rows, [[steps]]), 128, lambda name: times.get(name, 0.0))
    assert found.event_gap.tolist() == [18.0, 19.0]


@given(st.integers(1, 12), st.integers(0, 4000))
def test_chunks_are_the_same_whatever_groups_a_trace_is_stored_in(blocks_per_group, limit):
    blocks = [[[Step(0, evenly(4096 * at, 4))] * (3 * at % 7)] * (1 + at % 2) for at in range(12)]
    (whole,) = collect_events(memory_trace(ROWS, blocks), 128, latency)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "CHUNK_BYTES", limit)
        stored, alone = (
            list(collect_events(memory_trace(ROWS, blocks, blocks_per_group=count), 128, latency))
            for count in (blocks_per_group, 1)
        )
    assert [vars_of(chunk) for chunk in stored] == [vars_of(chunk) for chunk in alone]
    assert np.concatenate([part.line_id for part in stored]).tolist() == whole.line_id.tolist()
    # A chunk is full with the block that reaches the limit.
    sizes = [32 * len(part.event_static) + 12 * len(part.line_id) for part in stored]
    assert all(size >= limit for size in sizes[:-1])


def vars_of(chunk):
    return {name: column.tolist() for name, column in vars(chunk).items()}


def test_a_trace_without_blocks_has_no_chunks():
    assert list(collect_events(memory_trace(ROWS, []), 128, latency)) == []


# -- lanes to lines, by hand -----------------------------------------------------------------


def test_consecutive_words_of_a_warp_are_one_line():
    assert lines_of(evenly(1280, 4)) == {10: 0xFFFFFFFF}


def test_consecutive_words_that_start_within_a_line_are_two():
    assert lines_of(evenly(1280 + 64, 4)) == {10: 0xFFFF0000, 11: 0x0000FFFF}


def test_large_strides_touch_one_line_per_lane():
    assert lines_of(evenly(1280, 128)) == {10 + lane: 1 for lane in range(32)}


def test_the_same_word_for_all_lanes_is_one_line():
    assert lines_of(evenly(1284, 0)) == {10: 0b10}


def test_an_access_that_straddles_lines_touches_both():
    assert lines_of((1280 + 126,)) == {10: 1 << 31, 11: 1}


def test_wide_accesses_cover_several_granules():
    assert lines_of((1280 + 16,), WIDE) == {10: 0b11110000}


def test_an_access_wider_than_a_line_touches_all_of_its_lines():
    bulk = StaticInstruction(0, "LDG.BULK", "load_global", "global", 300, (1,), ())
    lanes = tuple(4096 * (lane + 1) + 31 for lane in range(32))
    found = lines_of(lanes, bulk, line_bytes=32)
    assert found.keys() == coalescer.lines_touched(lanes, 300, 32).keys()
    assert len(found) == 32 * 11  # 1 byte, nine lines, 11 bytes


def test_lanes_at_address_0_make_no_access():
    assert lines_of((0, 1280, 0)) == {10: 1}
    assert lines_of((0,) * 32) == {}
    assert lines_of(()) == {}


def test_a_barrier_in_shared_memory_touches_no_lines():
    """Its address is not one of the memory behind the caches."""
    rows = [LOAD, StaticInstruction(16, "SYNCS.ARRIVE", "barrier", "shared", 8)]
    steps = [Step(0, evenly(4096, 4)), Step(1, evenly(64, 8)), Step(0, evenly(8192, 4))]
    (found,) = collect_events(memory_trace(rows, [[steps]]), 128, latency)
    assert found.event_static.tolist() == [0, 1, 0] and found.line_start.tolist() == [0, 1, 1, 2]
    assert found.line_id.tolist() == [4096 // 128, 8192 // 128]


def test_lines_come_in_the_order_of_their_first_touch():
    assert list(lines_of((1280, 128, 1284, 64))) == [10, 1, 0]


def test_addresses_at_the_top_of_the_space_are_lines_like_others():
    top = 2**64 - 256
    assert len(lines_of(evenly(top, 4))) == 1
    assert len(lines_of((top, 128, top))) == 2


@pytest.mark.parametrize("line_bytes", (0, 16, 48, 96, 100))
def test_line_sizes_that_cannot_be_coalesced_are_refused(line_bytes):
    with pytest.raises(MachineError, match=f"line_bytes: {line_bytes}.*power of two"):
        list(collect_events(memory_trace([LOAD], [[[Step(0, (4,))]]]), line_bytes, latency))


# -- kinds -------------------------------------------------------------------------------------


def test_kinds_of_instructions():
    names = ("nothing", "load", "store", "atomic", "barrier")
    assert [names[kind] for kind in instruction_kinds(static_table(ROWS))] == [coalescer.kind_of(row) for row in ROWS]


@given(st.integers(0, 2**32 - 1))
def test_bits_are_counted(bits):
    assert kernels.bit_count(bits) == bin(bits).count("1")


@given(st.integers(-(2**57), 2**57), st.integers(1, 2**20))
def test_division_by_multiplication_is_exact(number, divisor):
    assert kernels.divide(number, divisor, 1.0 / divisor) == divmod(number, divisor)


@pytest.mark.parametrize("divisor", (1, 3, 24, 49, 64, 98, 2**20 - 1))
def test_division_is_exact_around_multiples(divisor):
    """Where the quotient jumps, up to the end of the range where multiplication serves and beyond."""
    ends = (2**52 // divisor, 2**57 // divisor)
    quotients = [1, 2, 3, 10**6, *(end + near for end in ends for near in range(-200, 4))]
    for quotient in quotients:
        for number in range(quotient * divisor - 2, quotient * divisor + 3):
            assert kernels.divide(number, divisor, 1.0 / divisor) == divmod(number, divisor)


def test_some_quotients_need_their_correction():
    assert int(49 * (1.0 / 49)) == 0
    assert kernels.divide(49, 49, 1.0 / 49) == (1, 0)
