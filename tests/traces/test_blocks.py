"""The warps of a thread block lie together: cut in two, it would be two blocks, and every number another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reference.traces import Step, evenly, memory_trace
from warplens import compare
from warplens.errors import TraceError
from warplens.traces import EMPTY_GROUP, StaticInstruction, TraceWriter, WarpGroup, read_trace
from warplens.traces.grouping import joined, part_of

ROWS = [
    StaticInstruction(0, "LDG", "load_global", "global", 4, (1,)),
    StaticInstruction(16, "FADD", "fp32", "none", 0, (1,), (1,)),
]
BLOCKS = 6
TRACE = memory_trace(
    ROWS,
    [[[Step(0, evenly(512 * warp, 4)), Step(1)] for warp in (2 * block, 2 * block + 1)] for block in range(BLOCKS)],
)
WHOLE = joined(list(TRACE.groups()))
WARPS = [part_of(WHOLE, number, number + 1) for number in range(2 * BLOCKS)]


def stored(folder: Path, groups: list[WarpGroup]) -> Path:
    with TraceWriter(folder / "a.wlt") as writer:
        for group in groups:
            writer.write(group)
        writer.end_launch(TRACE.header, TRACE.static)
    return folder / "a.wlt"


def pairs(*, reverse: bool = False) -> list[WarpGroup]:
    blocks = [joined(WARPS[2 * block : 2 * block + 2]) for block in range(BLOCKS)]
    return blocks[::-1] if reverse else blocks


@pytest.mark.parametrize("groups", [[WHOLE], pairs(), [EMPTY_GROUP, *pairs(), EMPTY_GROUP]])
def test_groups_change_no_prediction(groups: list[WarpGroup], tmp_path: Path) -> None:
    models = ["warplens", "mdm", "pipeline"]
    expected = compare(replace(TRACE, held=(WHOLE,)), ["h200"], models)
    found = compare(stored(tmp_path, groups), ["h200"], models)
    assert [each.cycles for each in found.predictions] == [each.cycles for each in expected.predictions]


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (WARPS, "a thread block from 0 to 0 occurs twice, or its warps do not lie together"),
        ([joined(WARPS[:3]), joined(WARPS[3:])], "from 1 to 5 occurs twice"),
        ([joined(WARPS[::2]), joined(WARPS[1::2])], "from 0 to 5 occurs twice"),
        ([joined([*WARPS[:4], *WARPS[:2]])], "from 0 to 0 occurs twice"),
        ([WHOLE, *pairs()], "from 0 to 0 occurs twice"),
        ([joined([WARPS[0], WARPS[0]])], "warp 0 of thread block 0 occurs twice"),
    ],
)
def test_a_block_is_in_one_place(groups: list[WarpGroup], said: str, tmp_path: Path) -> None:
    (launch,) = read_trace(stored(tmp_path, groups))
    with pytest.raises(TraceError, match=said):
        list(launch.groups())


def test_blocks_may_come_in_another_order(tmp_path: Path) -> None:
    (launch,) = read_trace(stored(tmp_path, pairs(reverse=True)))
    assert sum(map(len, launch.groups())) == len(WHOLE)
