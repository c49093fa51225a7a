"""The same warps in other groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .schema import LaunchTrace, MemoryTrace, WarpGroup


def joined(parts: list[WarpGroup]) -> WarpGroup:
    """Several groups as one."""

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    def offsets(name: str, values: str) -> Any:
        bases = np.cumsum([0, *(len(getattr(part, values)) for part in parts)])
        moved = [getattr(part, name)[:-1] + base for part, base in zip(parts, bases, strict=False)]
        return np.concatenate([*moved, bases[-1:]])

    return WarpGroup(
        column("block"),
        column("warp"),
        offsets("start", "static"),
        column("static"),
        column("mask"),
        offsets("access_start", "base"),
        column("base"),
        column("stride"),
        offsets("lane_start", "lanes"),
        column("lanes"),
    )


def part_of(group: WarpGroup, first: int, last: int) -> WarpGroup:
    """The warps of a group from one up to another, as copies: the group itself may go."""

    def part(offsets: Any, *columns: Any) -> Iterator[Any]:
        yield offsets[first : last + 1] - offsets[first]
        yield from (column[offsets[first] : offsets[last]].copy() for column in columns)

    start, static, mask = part(group.start, group.static, group.mask)
    access_start, base, stride = part(group.access_start, group.base, group.stride)
    lane_start, lanes = part(group.lane_start, group.lanes)
    return WarpGroup(
        group.block[first:last].copy(),
        group.warp[first:last].copy(),
        start,
        static,
        mask,
        access_start,
        base,
        stride,
        lane_start,
        lanes,
    )


def with_neighbours(groups: Iterable[WarpGroup], together: int) -> Iterator[WarpGroup]:
    """The same warps in groups that hold all of `together` neighbouring blocks, the first of which is a multiple."""
    held: list[WarpGroup] = []
    for group in groups:
        if not len(group):
            continue
        which = group.block // together
        last = int(np.flatnonzero(which != which[-1]).max(initial=-1)) + 1  # where the last neighbours begin
        if last or (held and held[-1].block[-1] // together != which[0]):
            before = [*held, part_of(group, 0, last)]
            held.clear()
            yield joined(before)
            del before
        held.append(part_of(group, last, len(group)))
    if held:
        yield joined(held)


def only_blocks(trace: LaunchTrace, runs: Sequence[range]) -> MemoryTrace:
    """A trace of some of the recorded blocks, numbered in the order of the trace."""
    held: list[WarpGroup] = []
    seen = 0
    for group in trace.groups():
        begins = np.flatnonzero(np.diff(group.block, prepend=-1, append=-1))
        blocks = max(len(begins) - 1, 0)
        for run in runs:
            first, last = np.clip((run.start - seen, run.stop - seen), 0, blocks)
            if first < last:
                held.append(part_of(group, int(begins[first]), int(begins[last])))
        seen += blocks
    recorded = {"recorded_blocks": sum(map(len, runs))}
    return MemoryTrace(replace(trace.header, extra={**trace.header.extra, **recorded}), trace.static, tuple(held))
