"""Data that a cache loses before they are used again."""

from __future__ import annotations

from making import gpu
from reference.traces import Step, evenly
from warplens.machine import with_overrides
from warplens.workload import Workload

from ..small import advice, findings, kernel, load, row

IN = 1 << 20


def passes(kibibytes: int, times: int) -> Workload:
    """Each of 16 blocks reads its own data several times; eight of them are on an SM together."""
    rows = (load(0), row("fp32", 1, destinations=(2,), sources=(1, 2)))
    pieces = kibibytes * 1024 // 8 // 128

    def steps(warp: int) -> list[Step]:
        begin = IN + warp * pieces * 128
        turn = [each for piece in range(pieces) for each in (Step(0, evenly(begin + piece * 128, 4)), Step(1))]
        return turn * times

    return kernel(rows, steps, blocks=16)


def test_three_passes_over_more_than_the_l1_holds() -> None:
    """Eight blocks with 48 KiB each are on an SM of 216 KiB: two of three passes could hit."""
    found = advice("cache-thrashing", passes(48, 3))
    assert found.text.startswith("Data are used again, but the L1 does not have them then: ")
    assert found.text.endswith(" of the sectors loaded hit it, 67 % would in 8 times its 216 KiB.")
    assert [line.line for line in found.lines] == [1]
    assert found.speedup > 1.2


def test_passes_over_what_the_l1_holds() -> None:
    assert not findings("cache-thrashing", passes(16, 3))


def test_data_that_are_read_once_have_nothing_to_lose() -> None:
    assert not findings("cache-thrashing", passes(96, 1))


def test_rows_that_blocks_of_other_sms_read() -> None:
    """Each warp reads 16 lines of a column, from the row of its block on; no two blocks of an SM are neighbours.

    SMs that share their reads of the L2 would hide most of what that costs.
    """
    rows = (load(0, 16), row("fp32", 1, destinations=(2,), sources=(1, 2)))

    def steps(warp: int) -> list[Step]:
        block, column = divmod(warp, 8)
        places = (IN + (block + tap) * 4096 + column * 512 for tap in range(16))
        return [each for place in places for each in (Step(0, evenly(place, 16)), Step(1))]

    apart = with_overrides(gpu("h200"), {"noc.shared_reads": 0.0})
    found = advice("cache-thrashing", kernel(rows, steps, blocks=528), apart)
    assert found.text.endswith("would if blocks were square tiles.")
