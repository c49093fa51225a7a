"""Elements that many threads of a block load."""

from __future__ import annotations

import numpy as np
import pytest

from reference.traces import Step, evenly
from warplens.explanation.staging import arrays_of, served_by_tiles, staged
from warplens.workload import Workload

from ..small import advice, findings, kernel, load, row, scene

IN = 1 << 20


def filtering(taps: int, step: int) -> Workload:
    """Each thread adds up elements `step` apart from its own on; all warps of a block read the same row."""
    rows = (load(0), row("fp32", 1, destinations=(2,), sources=(1, 2)))
    return kernel(
        rows,
        lambda warp: [
            each for tap in range(taps) for each in (Step(0, evenly(IN + warp // 8 * 4096 + tap * step, 4)), Step(1))
        ],
    )


def test_a_row_that_all_warps_read() -> None:
    """64 taps of 32 lanes and 8 warps read 95 elements: 172 times each."""
    found = advice("redundant-loads", filtering(64, 4))
    assert found.text == (
        "Redundant loads: a block loads each element 172 times, and these loads are 50 % of its instructions."
    )
    assert [line.line for line in found.lines] == [1]
    # A request per load holds the L1's port for a cycle; half of them are left.
    assert 1.2 < found.speedup < 4.0


def test_elements_loaded_once_are_fine() -> None:
    rows = (load(0), row("fp32", 1, destinations=(2,), sources=(1, 2)))
    once = kernel(rows, lambda warp: [Step(0, evenly(IN + warp * 128, 4)), Step(1)])
    assert not findings("redundant-loads", once)


def test_a_block_loads_each_element_once() -> None:
    seen = scene(filtering(64, 4))
    arrays = arrays_of(seen, seen.kind("load_global"))
    assert arrays.tolist() == [0, -1, -1]
    tile = staged(seen, arrays, "load_shared", 2)
    (group,) = tile.trace.groups()
    counts = np.bincount(group.static, minlength=4) // 32
    # Of 512 loads of a block three hold 95 elements; half of the others read the tile. Each warp waits twice.
    assert counts.tolist() == [3, 512, 8, 255, 16]
    read = tile.addresses(np.arange(5) == 0)
    mine = sorted(set(read.address[:96].tolist()) - {0})
    assert mine == list(evenly(mine[0], 4, 95))


def test_a_thread_that_makes_four_results_loads_what_they_share_once() -> None:
    """A filter of 64 taps: four results side by side need 67 elements, and 4 x 64 loads without each other."""
    seen = scene(filtering(64, 4))
    assert served_by_tiles(seen, seen.kind("load_global"), 4) == pytest.approx(4 * 64 / 67)
