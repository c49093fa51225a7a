"""Work dealt to other warps and blocks: nothing is lost, and shares are even."""

from __future__ import annotations

import numpy as np
import pytest

from contract.recorded import BAR, FFMA, LDG, ROWS
from reference.traces import Step, evenly, memory_trace
from warplens.traces import MemoryTrace, WarpGroup, active_lanes
from warplens.traces.rewrite import (
    deal_blocks,
    full_warps,
    lane_addresses,
    level_warps,
    merge_blocks,
    repeat_executions,
    split_blocks,
    split_warps,
)

ALL = np.ones(len(ROWS), dtype=bool)


def launch(turns: int = 8, blocks: int = 4, warps: int = 4, lanes: int = 16) -> MemoryTrace:
    """Block b loops b + 1 times as often as the first; some lanes load, at addresses of no pattern."""
    return memory_trace(
        ROWS,
        [
            [
                [
                    Step(FFMA),
                    *(
                        Step(LDG, tuple(4096 + 4 * ((7 * k + w + n * n) % 997) for n in range(lanes)))
                        for k in range(turns * (b + 1))
                    ),
                ]
                for w in range(warps)
            ]
            for b in range(blocks)
        ],
    )


def addresses(group: WarpGroup) -> list[int]:
    table = launch(1).static
    return sorted(lane_addresses(group, table, ALL).address.tolist())


@pytest.mark.parametrize("in_block", [False, True])
def test_loops_are_shared_and_the_rest_repeated(in_block: bool) -> None:
    trace = launch()
    found = split_warps(trace.held[0], trace.static, 4, in_block=in_block)
    assert addresses(found) == addresses(trace.held[0])
    assert len(found) == 64 and found.blocks == (4 if in_block else 16)
    assert np.bincount(found.static)[FFMA] == 64
    lengths = np.diff(found.start)
    assert sorted(set(lengths.tolist())) == [3, 5, 7, 9]


def test_blocks_of_equal_length() -> None:
    trace = launch()
    found = deal_blocks(trace.held[0], trace.static, 4)
    assert addresses(found) == addresses(trace.held[0])
    lengths = np.diff(found.start)
    assert found.blocks == 4 and lengths.max() - lengths.min() <= 4


def test_blocks_in_parts_and_together() -> None:
    group = launch().held[0]
    halves = split_blocks(group, 2, 4)
    assert halves.blocks == 8 and halves.warp.max() == 1
    whole = merge_blocks(halves, 2, 2)
    assert (whole.block == group.block).all() and (whole.warp == group.warp).all()


def test_lanes_fill_warps() -> None:
    trace = launch(lanes=10)
    found = full_warps(trace.held[0], trace.static)
    assert addresses(found) == addresses(trace.held[0])
    loads = found.static == LDG
    # Four warps of ten lanes, eight to 32 times.
    assert loads.sum() == sum(-(-40 * 8 * turns // 32) for turns in (1, 2, 3, 4))
    assert active_lanes(found.mask[loads]).min() >= 31


def test_warps_share_what_lies_between_barriers() -> None:
    rows = [Step(FFMA)] * 8
    trace = memory_trace(ROWS, [[[*rows, Step(BAR), *(rows if w else []), Step(BAR)] if w < 2 else [Step(BAR)] * 2
                                 for w in range(4)]])  # fmt: skip
    found = level_warps(trace.held[0], trace.static, trace.held[0].static == BAR)
    spelled = [found.static[a:b].tolist() for a, b in zip(found.start[:-1], found.start[1:], strict=True)]
    assert spelled == [[FFMA] * 4 + [BAR] + [FFMA] * 2 + [BAR]] * 4


def test_repeated_instructions() -> None:
    group = memory_trace(ROWS, [[[Step(FFMA), Step(LDG, evenly(4096, 4)), Step(FFMA)]] * 2]).held[0]
    found = repeat_executions(group, np.where(group.static == FFMA, 3, 1))
    assert found.static.tolist() == [FFMA] * 3 + [LDG] + [FFMA] * 6 + [LDG] + [FFMA] * 3
    assert found.start.tolist() == [0, 7, 14]
