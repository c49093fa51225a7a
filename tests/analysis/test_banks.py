"""Bank conflicts against a plain count, for accesses of any width."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.traces import Step, evenly, memory_trace
from warplens.analysis.banks import conflict_degrees, shared_accesses
from warplens.traces import StaticInstruction, static_table

#: Up to 32 bytes are valid today (sm_100); the widest is what a trace file may claim.
WIDTHS = (1, 2, 4, 8, 12, 16, 32, 64, 128)
ROWS = [
    StaticInstruction(16 * index, "LDS", "load_shared", "shared", width, (1,), (0,))
    for index, width in enumerate(WIDTHS)
]


def words_of_busiest_bank(addresses: tuple[int, ...], width: int) -> int:
    words = {address // 4 + part for address in addresses for part in range(max(width // 4, 1))}
    banks = defaultdict(set)
    for word in words:
        banks[word % 32].add(word)
    return max((len(found) for found in banks.values()), default=1)


def degrees_of(accesses: list[tuple[int, tuple[int, ...]]]) -> list[int]:
    trace = memory_trace(ROWS, [[[Step(row, addresses) for row, addresses in accesses]]])
    offsets, degrees = conflict_degrees(trace.held[0], trace.static)
    assert offsets.tolist() == [0, len(accesses)]
    return degrees.tolist()


@pytest.mark.parametrize("row", range(len(WIDTHS)), ids=WIDTHS.__getitem__)
def test_lanes_side_by_side_take_a_cycle_per_128_bytes(row: int) -> None:
    width = WIDTHS[row]
    assert degrees_of([(row, evenly(4096, width))]) == [max(32 * width // 128, 1)]


def test_widest_accesses_at_far_apart_addresses() -> None:
    """A trace that is not from a file may claim any width."""
    addresses = tuple(int(each) for each in np.random.default_rng(1).integers(0, 2**40, 32) * 4)
    wide = StaticInstruction(0, "LDS", "load_shared", "shared", 2**16 - 4, (1,), (0,))
    trace = memory_trace([wide], [[[Step(0, addresses)]]])
    _, degrees = conflict_degrees(trace.held[0], trace.static)
    assert degrees.tolist() == [words_of_busiest_bank(addresses, wide.access_bytes)]


@given(
    st.lists(
        st.tuples(st.integers(0, len(WIDTHS) - 1), st.lists(st.integers(1, 2**12), min_size=1, max_size=32)),
        max_size=8,
    )
)
def test_against_a_plain_count(drawn: list[tuple[int, list[int]]]) -> None:
    accesses = [(row, tuple(WIDTHS[row] * each for each in places)) for row, places in drawn]
    expected = [words_of_busiest_bank(addresses, WIDTHS[row]) for row, addresses in accesses]
    assert degrees_of(accesses) == expected


@pytest.mark.parametrize(
    ("element", "cycles"),
    [
        *((of_lane, (1, 1, 2)) for of_lane in (lambda i: 0, lambda i: i // 16, lambda i: i // 2, lambda i: i & 1)),
        *((of_lane, (1, 2, 4)) for of_lane in (lambda i: i & 7, lambda i: i & 15, lambda i: i)),
    ],
)
def test_wide_accesses_take_parts_of_a_warp_one_by_one(
    element: Callable[[int], int], cycles: tuple[int, ...]
) -> None:
    """As an H200 does (benchmarks/h200/wide.csv)."""
    for width, expected in zip((4, 8, 16), cycles, strict=True):
        step = Step(WIDTHS.index(width), tuple(4096 + width * element(lane) for lane in range(32)))
        trace = memory_trace(ROWS, [[[step]]])
        assert conflict_degrees(trace.held[0], trace.static, in_passes=True)[1].tolist() == [expected]


def test_an_instruction_without_bytes_is_no_access() -> None:
    """A matrix load whose addresses are not traced, say."""
    rows = [StaticInstruction(0, "LDSM", "load_shared", "shared", 0), ROWS[2]]
    assert shared_accesses(static_table(rows)).tolist() == [False, True]


def test_a_compare_and_swap_that_spins_takes_all_lanes_at_once() -> None:
    rows = [
        StaticInstruction(0, "ATOMS.ADD", "atomic_shared", "shared", 4, (1,), (0,)),
        StaticInstruction(16, "ATOMS.CAST.SPIN", "atomic_shared", "shared", 4, (1,), (0,)),
    ]
    trace = memory_trace(rows, [[[Step(row, (64,) * 32) for row in (0, 1)]]])
    assert conflict_degrees(trace.held[0], trace.static)[1].tolist() == [32, 1]
