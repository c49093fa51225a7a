"""Coalesced accesses of few bytes per lane."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from reference.traces import Step, evenly, spelled_out
from warplens.explanation.widening import widened
from warplens.workload import Workload

from ..small import advice, kernel, load, row, scene, silent, store

IN, OUT = 1 << 20, 1 << 30
WARPS = 64


def copying(width: int, times: int = 16) -> Workload:
    """A loop over the grid: each warp copies `times` pieces, with a counter and a branch."""
    rows = (
        load(0, width),
        store(1, width),
        row("int32", 2, destinations=(5,), sources=(5,)),
        row("control", 3, sources=(5,)),
    )

    def steps(warp: int) -> list[Step]:
        found = []
        for turn in range(times):
            piece = (turn * WARPS + warp) * 32 * width
            found += [Step(0, evenly(IN + piece, width)), Step(1, evenly(OUT + piece, width)), Step(2), Step(3)]
        return found

    return kernel(rows, steps, blocks=WARPS // 8)


def test_bytes_one_by_one() -> None:
    found = advice("narrow-accesses", copying(1, times=64))
    assert found.text == ("Narrow accesses: 1 byte per lane; with 16, 8.0 requests per warp would do what 128.0 do.")
    assert [(line.line, line.share) for line in found.lines] == [(1, 0.5), (2, 0.5)]
    assert found.speedup > 2.0


def test_sixteen_bytes_are_as_wide_as_can_be() -> None:
    assert silent("narrow-accesses", copying(16))


def test_wide_accesses_move_the_same_bytes() -> None:
    seen = scene(copying(4, times=6))
    chosen = seen.kind("load_global", "store_global")
    wide = widened(seen, chosen, seen.kind("int32", "control"))

    def moved(trace: object) -> list[list[int]]:
        """Words of each access."""
        (group,) = trace.groups()  # type: ignore[attr-defined]
        width = trace.static.access_bytes  # type: ignore[attr-defined]
        return [
            [at + k for at in where if at for k in range(0, int(width[kind]), 4)]
            for warp in spelled_out(group, trace.static)  # type: ignore[attr-defined]
            for kind, _, where in warp
        ]

    now, then = moved(seen.trace), moved(wide.trace)
    assert sorted(chain(*now)) == sorted(chain(*then))
    # A warp has four lines side by side, as others step over them no more.
    assert [each for each in then if len(each) == 128] == [
        list(range(each[0], each[0] + 512, 4)) for each in then if len(each) == 128
    ]
    # Six turns become two: one of four and one of the two that are left.
    (group,) = wide.trace.groups()
    assert np.bincount(group.static, minlength=7).tolist() == [
        0,
        0,
        2 * WARPS,
        2 * WARPS,
        WARPS,
        2 * WARPS,
        2 * WARPS,
    ]
    assert wide.prediction.seconds == pytest.approx(seen.prediction.seconds, rel=0.5)
