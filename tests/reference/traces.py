"""Traces spelled out lane by lane, and their encoding: what the oracles read beside what the package reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warplens.traces import (
    IRREGULAR,
    LaunchHeader,
    MemoryTrace,
    StaticInstruction,
    StaticTable,
    WarpGroup,
    static_table,
)


@dataclass(frozen=True)
class Step:
    """One executed instruction: which row of the static table, and the addresses of its active lanes in order.

    `listed` asks for the encoding with one address per lane even where lanes are evenly spaced.
    """

    row: int
    addresses: tuple[int, ...] = ()
    listed: bool = False


Warp = Sequence[Step]
Block = Sequence[Warp]


def evenly(base: int, stride: int, lanes: int = 32) -> tuple[int, ...]:
    return tuple(base + lane * stride for lane in range(lanes))


def memory_trace(
    rows: Sequence[StaticInstruction],
    blocks: Sequence[Block],
    *,
    blocks_per_group: int = 1_000_000,
    kernel: str = "made",
    registers_per_thread: int = 0,
    launch_index: int = 0,
) -> MemoryTrace:
    """The package's form of a trace; all blocks have the threads of the one with most warps."""
    groups = [
        _group(rows, blocks[first : first + blocks_per_group], first)
        for first in range(0, len(blocks), blocks_per_group)
    ]
    most = max((len(block) for block in blocks), default=1)
    header = LaunchHeader(
        kernel,
        (len(blocks), 1, 1),
        (32 * most, 1, 1),
        registers_per_thread=registers_per_thread,
        launch_index=launch_index,
    )
    return MemoryTrace(header, static_table(rows), tuple(groups))


def _group(rows: Sequence[StaticInstruction], blocks: Sequence[Block], first: int) -> WarpGroup:
    block_of: list[int] = []
    warp_of: list[int] = []
    start, access_start, lane_start = [0], [0], [0]
    static: list[int] = []
    mask: list[int] = []
    base: list[int] = []
    stride: list[int] = []
    lanes: list[int] = []
    for number, block in enumerate(blocks):
        for place, warp in enumerate(block):
            block_of.append(first + number)
            warp_of.append(place)
            for step in warp:
                static.append(step.row)
                if rows[step.row].access_bytes:
                    count = len(step.addresses)
                    mask.append(_mask(count))
                    distances = {b - a for a, b in itertools.pairwise(step.addresses)}
                    if step.listed or len(distances) > 1:
                        base.append(0)
                        stride.append(IRREGULAR)
                        lanes.extend(step.addresses)
                    else:
                        base.append(step.addresses[0] if count else 0)
                        stride.append(distances.pop() if distances else 0)
                else:
                    mask.append(_mask(32))
            start.append(len(static))
            access_start.append(len(base))
            lane_start.append(len(lanes))
    return warp_group(
        block=block_of, warp=warp_of, start=start, static=static, mask=mask, access_start=access_start, base=base,
        stride=stride, lane_start=lane_start, lanes=lanes,
    )  # fmt: skip


def spelled_out(group: WarpGroup, static: StaticTable) -> list[list[tuple[int, int, tuple[int, ...]]]]:
    """The instructions of each warp: row of the static table, mask, and addresses of the active lanes."""
    warps = []
    for warp in range(len(group)):
        access, lane = int(group.access_start[warp]), int(group.lane_start[warp])
        steps = []
        for at in range(int(group.start[warp]), int(group.start[warp + 1])):
            row, mask = int(group.static[at]), int(group.mask[at])
            addresses: tuple[int, ...] = ()
            if static.access_bytes[row]:
                count = mask.bit_count()
                if group.stride[access] == IRREGULAR:
                    addresses = tuple(int(each) for each in group.lanes[lane : lane + count])
                    lane += count
                else:
                    addresses = evenly(int(group.base[access]), int(group.stride[access]), count)
                access += 1
            steps.append((row, mask, addresses))
        warps.append(steps)
    return warps


_TYPES = {"warp": np.int32, "static": np.uint32, "mask": np.uint32, "base": np.uint64, "lanes": np.uint64}


def warp_group(**columns: Sequence[int]) -> WarpGroup:
    """A group from lists of numbers."""
    return WarpGroup(**{name: np.array(each, dtype=_TYPES.get(name, np.int64)) for name, each in columns.items()})


def _mask(lanes: int) -> int:
    """Some mask with that many active lanes, not always the first ones."""
    bits = (1 << lanes) - 1
    return ((bits << (lanes // 2)) | (bits >> (32 - lanes // 2))) & 0xFFFFFFFF
