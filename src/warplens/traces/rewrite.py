"""Traces with something changed: other addresses, fewer executions, another instruction in place of one.

A changed trace is read like any other. Groups are changed as they are read, so memory stays bounded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._codes import IRREGULAR
from .schema import LaunchHeader, LaunchTrace, StaticTable, WarpGroup, active_lanes

Change = Callable[[WarpGroup, StaticTable], WarpGroup]


@dataclass(frozen=True, eq=False)
class ChangedTrace:
    """A trace whose groups go through `change`, which sees the static table as it was."""

    original: LaunchTrace
    header: LaunchHeader
    #: May have rows more than the original, for changed instructions.
    static: StaticTable
    change: Change | None

    def groups(self) -> Iterator[WarpGroup]:
        for group in self.original.groups():
            yield group if self.change is None else self.change(group, self.original.static)


def changed(
    trace: LaunchTrace,
    change: Change | None = None,
    *,
    static: StaticTable | None = None,
    header: LaunchHeader | None = None,
) -> ChangedTrace:
    """A trace with other groups, another static table or another header."""
    return ChangedTrace(trace, header or trace.header, static or trace.static, change)


@dataclass(frozen=True, eq=False)
class LaneAddresses:
    """Addresses of every active lane of some accesses of a group; those of access i begin at `start[i]`."""

    #: Index of each access among all of the group, and of its instruction.
    access: NDArray[np.int64]
    instruction: NDArray[np.int64]
    start: NDArray[np.int64]
    address: NDArray[np.uint64]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.start)

    @property
    def owner(self) -> NDArray[np.int64]:
        """For each address, the place of its access in `access`."""
        return np.repeat(np.arange(len(self.access)), self.counts)

    @property
    def lane(self) -> NDArray[np.int64]:
        """For each address, its place among those of its access."""
        return np.arange(len(self.address)) - np.repeat(self.start[:-1], self.counts)

    def moved(self, address: NDArray[np.uint64]) -> LaneAddresses:
        """The same lanes at other addresses."""
        return dataclasses.replace(self, address=address)


def lane_addresses(group: WarpGroup, static: StaticTable, chosen: NDArray[np.bool_]) -> LaneAddresses:
    """Addresses of the executions of chosen static instructions."""
    instruction = np.flatnonzero(static.access_bytes[group.static] > 0)
    counts = active_lanes(group.mask[instruction])
    irregular = group.stride == IRREGULAR
    held = np.where(irregular, counts, 0)
    first = np.cumsum(held) - held
    access = np.flatnonzero(chosen[group.static[instruction]])
    mine = counts[access]
    start = np.concatenate(([0], np.cumsum(mine)))
    lane = np.arange(start[-1]) - np.repeat(start[:-1], mine)
    even = np.repeat(~irregular[access], mine)
    address = np.repeat(group.base[access], mine)
    stride = np.repeat(np.where(irregular[access], 0, group.stride[access]), mine)
    address = address + (stride * lane).astype(np.uint64)
    listed = np.repeat(first[access], mine) + lane
    address[~even] = group.lanes[listed[~even]]
    return LaneAddresses(access, instruction[access], start, address)


def with_addresses(group: WarpGroup, static: StaticTable, lanes: LaneAddresses) -> WarpGroup:
    """The group with other addresses of some accesses, as many as they had; even ones are kept as base and stride."""
    base, stride = group.base.copy(), group.stride.copy()
    instruction = np.flatnonzero(static.access_bytes[group.static] > 0)
    counts = active_lanes(group.mask[instruction])
    some = lanes.counts > 0
    begins, access = lanes.start[:-1][some], lanes.access[some]
    steps = np.zeros(len(lanes.address), dtype=np.int64)
    steps[:-1] = np.diff(lanes.address.astype(np.int64))
    last = lanes.start[1:][some] - 1
    alone = last == begins
    first_step = steps[np.where(alone, 0, begins)]
    steps[last] = first_step  # a step to the next access says nothing
    is_even = np.logical_and.reduceat(steps == np.repeat(first_step, lanes.counts[some]), begins) | alone
    is_even &= lanes.address[begins] != 0
    base[access] = np.where(is_even, lanes.address[begins], 0)
    stride[access] = np.where(is_even, np.where(alone, 0, first_step), IRREGULAR)
    # Lists of irregular accesses are written anew, in order.
    held_before = np.where(group.stride == IRREGULAR, counts, 0)
    held = np.where(stride == IRREGULAR, counts, 0)
    target = np.cumsum(held) - held
    listed = np.zeros(int(held.sum()), dtype=np.uint64)
    source_first = np.cumsum(held_before) - held_before
    changed = np.zeros(len(base), dtype=bool)
    changed[lanes.access] = True
    for which, values, value_first in (
        (np.flatnonzero(~changed & (held > 0)), group.lanes, source_first),
        (access[~is_even], lanes.address, _scattered(access, begins, len(base))),
    ):
        many = held[which]
        within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        listed[np.repeat(target[which], many) + within] = values[np.repeat(value_first[which], many) + within]
    ends = np.concatenate(([0], np.cumsum(held)))
    return dataclasses.replace(group, base=base, stride=stride, lanes=listed, lane_start=ends[group.access_start])


def _scattered(places: NDArray[np.int64], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    found = np.zeros(size, dtype=np.int64)
    found[places] = values
    return found


def keep_executions(group: WarpGroup, static: StaticTable, keep: NDArray[np.bool_]) -> WarpGroup:
    """The group without the executions for which `keep`, one entry per instruction, is false."""
    accesses = static.access_bytes[group.static] > 0
    kept = keep[accesses]
    counts = np.where(group.stride == IRREGULAR, active_lanes(group.mask[accesses]), 0)

    def moved(offsets: Any, flags: Any) -> Any:
        return np.concatenate(([0], np.cumsum(flags)))[offsets]

    return dataclasses.replace(
        group,
        start=moved(group.start, keep),
        static=group.static[keep],
        mask=group.mask[keep],
        access_start=moved(group.access_start, kept),
        base=group.base[kept],
        stride=group.stride[kept],
        lane_start=moved(group.lane_start, np.repeat(kept, counts)),
        lanes=group.lanes[np.repeat(kept, counts)],
    )


def with_rows(static: StaticTable, rows: NDArray[np.int64], **columns: Any) -> StaticTable:
    """The table with copies of some rows appended, in which columns have other values."""

    def registers(values: Any, offsets: Any) -> tuple[Any, Any]:
        lists = [values[offsets[row] : offsets[row + 1]] for row in rows]
        ends = offsets[-1] + np.cumsum([len(each) for each in lists], dtype=np.int64)
        return np.concatenate([values, *lists]), np.concatenate([offsets, ends])

    destinations, destination_offsets = registers(static.destinations, static.destination_offsets)
    sources, source_offsets = registers(static.sources, static.source_offsets)
    plain = {}
    for name in ("pc", "class_id", "space", "access_bytes", "line", "immediate"):
        old = getattr(static, name)
        new = np.full(len(rows), columns[name], old.dtype) if name in columns else old[rows]
        plain[name] = np.concatenate([old, new])
    return StaticTable(
        opcode=(*static.opcode, *(static.opcode[row] for row in rows)),
        destinations=destinations,
        destination_offsets=destination_offsets,
        sources=sources,
        source_offsets=source_offsets,
        **plain,
    )
