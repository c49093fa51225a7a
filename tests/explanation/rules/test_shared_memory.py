"""Bank conflicts: ways of a request over the fewest that its words need."""

from __future__ import annotations

import dataclasses

import pytest

from reference.traces import Step, evenly
from warplens.workload import Workload

from ..small import advice, findings, kernel, row


def reading(addresses: tuple[int, ...], width: int = 4) -> Workload:
    """Warps that do little but read shared memory."""
    shared = row("load_shared", 0, space="shared", access_bytes=width, destinations=(1,))
    return kernel((shared,), lambda warp: [Step(0, addresses)] * 64)


def test_a_column_of_a_tile_lies_in_one_bank() -> None:
    found = advice("bank-conflicts", reading(evenly(1024, 128)))
    assert found.text == (
        "Bank conflicts in shared memory: 32.0-way per request where 1.0 would do; "
        "they take 97 % of the cycles of its banks."
    )
    assert [line.line for line in found.lines] == [1]
    # 64 reads of 8 warps in 16 blocks on each SM: 8192 requests of 32 cycles, or of one, and the launches besides.
    before, after = (seconds * 1.98e9 for seconds in (found.seconds, found.seconds_after))
    assert before - after == pytest.approx(8192 * 31, rel=0.1)


@pytest.mark.parametrize(
    ("addresses", "width"),
    [
        (evenly(1024, 4), 4),
        (evenly(1024, 0), 4),
        (evenly(1024, 8), 8),
        (evenly(1024, 16), 16),
        (evenly(1024, 1), 1),
        (evenly(1024, 132), 4),
    ],
    ids=["words", "broadcast", "8 bytes", "16 bytes", "bytes", "padded columns"],
)
def test_requests_without_conflicts(addresses: tuple[int, ...], width: int) -> None:
    assert not findings("bank-conflicts", reading(addresses, width))


@pytest.mark.parametrize(
    ("addresses", "width", "ways"),
    [
        (evenly(1024, 8), 4, "2.0-way per request where 1.0"),
        (evenly(1024, 16), 8, "4.0-way per request where 2.0"),
        (evenly(1024, 32), 16, "8.0-way per request where 4.0"),
        # Two rows of a tile that all lanes read 16 bytes of: eight words, in four banks.
        (tuple(1024 + lane // 16 * 512 for lane in range(32)), 16, "2.0-way per request where 1.0"),
    ],
)
def test_ways_of_wide_and_shared_words(addresses: tuple[int, ...], width: int, ways: str) -> None:
    (found,) = findings("bank-conflicts", reading(addresses, width))
    assert ways in found.text
    # Padding by one element would leave wide accesses unaligned.
    assert found.remedy.startswith(f"Pad rows of the tile by {width} bytes" if width > 4 else "")


def test_arrivals_at_a_barrier_are_no_counters() -> None:
    arrive = dataclasses.replace(
        row("atomic_shared", 0, space="shared", access_bytes=8), opcode="mbarrier.arrive.shared.b64"
    )
    (found,) = findings("shared-atomics", kernel((arrive,), lambda warp: [Step(0, evenly(1024, 0))] * 64))
    assert found.text.startswith("Arrivals at barriers in shared memory meet: 32.0 lanes")
    assert "one lane of each warp arrive" in found.remedy
    plain = row("atomic_shared", 0, space="shared", access_bytes=4)
    (found,) = findings("shared-atomics", kernel((plain,), lambda warp: [Step(0, evenly(1024, 0))] * 64))
    assert found.text.startswith("Atomics on shared memory meet") and not found.remedy
