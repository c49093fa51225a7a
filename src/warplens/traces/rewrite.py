"""Traces with something changed: other addresses, fewer executions, another instruction in place of one.

A changed trace is read like any other. Groups are changed as they are read, so memory stays bounded; a small trace is
changed once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._codes import IRREGULAR
from .grouping import joined, with_neighbours
from .schema import LaunchHeader, LaunchTrace, StaticTable, WarpGroup, active_lanes

Change = Callable[[WarpGroup, StaticTable], WarpGroup]
#: A prediction reads a trace three times. Changed groups of up to so many bytes are kept from one time to the next.
MOST_KEPT_BYTES = 128 * 2**20


@dataclass(frozen=True, eq=False)
class ChangedTrace:
    """A trace whose groups go through `change`, which sees the static table as it was."""

    original: LaunchTrace
    header: LaunchHeader
    #: May have rows more than the original, for changed instructions.
    static: StaticTable
    change: Change | None
    #: As many neighbouring blocks are always changed in one group, for changes that cross the borders of groups.
    together: int = 1
    _kept: list[WarpGroup] = field(default_factory=list, init=False, repr=False)

    def groups(self) -> Iterator[WarpGroup]:
        if self._kept:
            yield from self._kept
            return
        groups = self.original.groups()
        made: list[WarpGroup] = []
        room = -1 if self.change is None else MOST_KEPT_BYTES
        for group in groups if self.together == 1 else with_neighbours(groups, self.together):
            changed_group = group if self.change is None else self.change(group, self.original.static)
            yield changed_group
            room -= changed_group.nbytes
            if room >= 0:
                made.append(changed_group)
        if room >= 0:
            self._kept[:] = made


def changed(
    trace: LaunchTrace,
    change: Change | None = None,
    *,
    static: StaticTable | None = None,
    header: LaunchHeader | None = None,
    together: int = 1,
) -> ChangedTrace:
    """A trace with other groups, another static table or another header."""
    return ChangedTrace(trace, header or trace.header, static or trace.static, change, together)


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

    def ranks(self, unit_bytes: Any = 1) -> NDArray[np.int64]:
        """For each address, the place of its unit among the distinct ones of its access, in ascending order."""
        unit, owner = self.address // np.asarray(unit_bytes, dtype=np.uint64), self.owner
        order = np.lexsort((unit, owner))
        unit, owner = unit[order], owner[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = owner[1:] != owner[:-1]
        new = first.copy()
        new[1:] |= unit[1:] != unit[:-1]
        number = np.cumsum(new)
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = number - np.repeat(number[first], self.counts[self.counts > 0])
        return ranks

    def most(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The largest of the lanes' values of each access; 0 for those without lanes."""
        found = np.zeros(len(self.access), dtype=np.int64)
        some = self.counts > 0
        if some.any():
            found[some] = np.maximum.reduceat(values, self.start[:-1][some])
        return found

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


def repeat_executions(group: WarpGroup, times: NDArray[np.int64]) -> WarpGroup:
    """The group with instructions, none of which accesses memory, executed several times in place of once."""
    ends = np.concatenate(([0], np.cumsum(times)))
    return dataclasses.replace(
        group, start=ends[group.start], static=np.repeat(group.static, times), mask=np.repeat(group.mask, times)
    )


def insert_executions(group: WarpGroup, before: NDArray[np.bool_], rows: NDArray[np.int64]) -> WarpGroup:
    """The group where static `rows`, none of which accesses memory, are executed before some instructions."""
    times = np.where(before, 1 + len(rows), 1)
    longer = repeat_executions(group, times)
    place = np.arange(len(longer.static)) - np.repeat(np.cumsum(times) - times, times)
    inserted = place < np.repeat(times, times) - 1
    static = longer.static.copy()
    static[inserted] = rows[place[inserted]]
    return dataclasses.replace(longer, static=static)


def _ranges(begin: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """All numbers from each `begin` up to its `end`, one range behind the other."""
    counts = end - begin
    return np.arange(counts.sum()) + np.repeat(begin - (np.cumsum(counts) - counts), counts)


def _regrouped(
    group: WarpGroup,
    static: StaticTable,
    parts: tuple[NDArray[np.int64], NDArray[np.int64]],
    block: NDArray[np.int64],
    warp: NDArray[np.int32],
) -> WarpGroup:
    """A group whose warps are parts, from an instruction to another, of those of a group."""
    accesses = static.access_bytes[group.static] > 0
    counts = np.where(group.stride == IRREGULAR, active_lanes(group.mask[accesses]), 0)
    sums = np.concatenate(([0], np.cumsum(accesses))), np.concatenate(([0], np.cumsum(counts)))

    def starts(begin: Any, end: Any) -> Any:
        return np.concatenate(([0], np.cumsum(end - begin)))

    access_parts = sums[0][parts[0]], sums[0][parts[1]]
    lane_parts = sums[1][access_parts[0]], sums[1][access_parts[1]]
    index, access, lane = (_ranges(*each) for each in (parts, access_parts, lane_parts))
    return WarpGroup(
        block,
        warp,
        starts(*parts),
        group.static[index],
        group.mask[index],
        starts(*access_parts),
        group.base[access],
        group.stride[access],
        starts(*lane_parts),
        group.lanes[lane],
    )


def split_warps(group: WarpGroup, static: StaticTable, parts: int, *, in_block: bool = False) -> WarpGroup:
    """The loops of each warp shared by several: new warps of its block, or those of as many blocks.

    What a warp executes once, each of them does; executions of a loop's instructions are cut into equal parts.
    """
    warp = np.repeat(np.arange(len(group)), np.diff(group.start))
    key = warp * len(static) + group.static.astype(np.int64)
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    counts = np.diff([*first, len(order)])
    count, rank = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    count[order] = np.repeat(counts, counts)
    rank[order] = np.arange(len(order)) - np.repeat(first, counts)
    whole = joined(
        [keep_executions(group, static, (count == 1) | (rank * parts // count == p)) for p in range(parts)]
    )
    part = np.repeat(np.arange(parts), len(group))
    if in_block:
        size = int(group.warp.max(initial=0)) + 1
        block, number = whole.block, whole.warp + size * part
    else:
        block, number = whole.block * parts + part, whole.warp
    order = np.lexsort((number, block))
    pieces = whole.start[:-1][order], whole.start[1:][order]
    return _regrouped(whole, static, pieces, block[order], number[order].astype(group.warp.dtype))


def deal_blocks(group: WarpGroup, static: StaticTable, parts: int) -> WarpGroup:
    """Blocks of equal length: each is cut into parts, and takes its n-th part from a block of another length."""
    first = np.flatnonzero(np.diff(group.block, prepend=group.block[0] - 1))
    blocks = len(first)
    of_block = np.cumsum(np.diff(group.block, prepend=group.block[0] - 1) != 0) - 1
    by_length = np.argsort(np.add.reduceat(np.diff(group.start), first), kind="stable")
    place = np.empty(blocks, dtype=np.int64)
    place[by_length] = np.arange(blocks)
    origin, part = np.repeat(np.arange(len(group)), parts), np.tile(np.arange(parts), len(group))
    length = np.diff(group.start)[origin]
    begin = group.start[origin] + length * part // parts
    end = group.start[origin] + length * (part + 1) // parts
    target = (place[of_block[origin]] - part * blocks // parts) % blocks
    order = np.lexsort((part, group.warp[origin], target))
    whole = _regrouped(
        group, static, (begin[order], end[order]), group.block[first][target[order]], group.warp[origin][order]
    )
    # Parts of one new warp lie side by side: they are one warp.
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(target[order]) != 0) | (np.diff(whole.warp) != 0)
    ends = np.concatenate((np.flatnonzero(new), [len(order)]))
    return dataclasses.replace(
        whole,
        block=whole.block[new],
        warp=whole.warp[new],
        start=whole.start[ends],
        access_start=whole.access_start[ends],
        lane_start=whole.lane_start[ends],
    )


def barrier_phases(group: WarpGroup, at_barrier: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each instruction, the barriers that its warp passed before it; a barrier counts to what it ends."""
    passed = np.concatenate(([0], np.cumsum(at_barrier)))
    warp = np.repeat(np.arange(len(group)), np.diff(group.start))
    return passed[:-1] - passed[group.start[:-1]][warp]


def level_warps(group: WarpGroup, static: StaticTable, at_barrier: NDArray[np.bool_]) -> WarpGroup:
    """Between two barriers, executions of each instruction shared evenly by the warps of a block, in their order."""
    warp = np.repeat(np.arange(len(group)), np.diff(group.start))
    block = np.cumsum(np.diff(group.block, prepend=group.block[0] - 1) != 0) - 1
    first, warps = np.flatnonzero(np.diff(block, prepend=-1)), np.bincount(block)
    phase = barrier_phases(group, at_barrier)
    key = (block[warp] * (int(phase.max(initial=0)) + 1) + phase) * len(static) + group.static
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    counts = np.diff([*begins, len(order)])
    rank = np.arange(len(order)) - np.repeat(begins, counts)
    target = np.empty(len(order), dtype=np.int64)
    mine = block[warp[order]]
    target[order] = first[mine] + rank * warps[mine] // np.repeat(counts, counts)
    target = np.where(at_barrier, warp, target)
    place = np.arange(len(order)) - group.start[:-1][warp]
    order = np.lexsort((place, at_barrier, phase, target))
    pieces = np.arange(len(order))[order]
    whole = _regrouped(group, static, (pieces, pieces + 1), group.block[target[order]], group.warp[target[order]])
    ends = np.searchsorted(target[order], np.arange(len(group) + 1))
    return dataclasses.replace(
        whole,
        block=group.block,
        warp=group.warp,
        start=ends,
        access_start=whole.access_start[ends],
        lane_start=whole.lane_start[ends],
    )


def merge_blocks(group: WarpGroup, together: int, warps_per_block: int) -> WarpGroup:
    """Neighbouring blocks as one."""
    warp = group.warp + group.block % together * warps_per_block
    return dataclasses.replace(group, block=group.block // together, warp=warp.astype(group.warp.dtype))


def split_blocks(group: WarpGroup, parts: int, warps_per_block: int) -> WarpGroup:
    """Each block's warps dealt to several blocks, side by side; instructions stay what they are."""
    each = -(-warps_per_block // parts)
    return dataclasses.replace(
        group, block=group.block * parts + group.warp // each, warp=(group.warp % each).astype(group.warp.dtype)
    )


def square_blocks(group: WarpGroup, static: StaticTable) -> WarpGroup:
    """The n-th warps of neighbouring blocks as one block, of as many blocks as they have warps; others stay."""
    names, rank = np.unique(group.block, return_inverse=True)
    size = int(group.warp.max(initial=0)) + 1
    first = rank // size * size
    whole = (first + size <= len(names)) & (np.bincount(rank) == size).all()
    block = np.where(whole, names[np.minimum(first + group.warp, len(names) - 1)], group.block)
    warp = np.where(whole, rank - first, group.warp).astype(group.warp.dtype)
    order = np.lexsort((warp, block))
    return _regrouped(group, static, (group.start[:-1][order], group.start[1:][order]), block[order], warp[order])


def full_warps(group: WarpGroup, static: StaticTable) -> WarpGroup:
    """The lanes that execute an instruction in a block, gathered in as few executions as they fill.

    Those that are kept are spread over the warps; instructions of other branches are kept in other warps.
    """
    block = np.repeat(np.unique(group.block, return_inverse=True)[1], np.diff(group.start))
    key = block * len(static) + group.static.astype(np.int64)
    order = np.argsort(key, kind="stable")
    lanes = active_lanes(group.mask)[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = key[order[1:]] != key[order[:-1]]
    first = np.flatnonzero(new)
    of = np.cumsum(new) - 1
    total = np.add.reduceat(lanes, first)
    mask = group.mask[order][first]
    lowest = np.log2((mask & (~mask + np.uint32(1))).astype(np.float64)).clip(min=0).astype(np.int64)
    fits = -(-(lowest + total) // 32) - (lowest > 0) >= -(-total // 32)
    before = np.cumsum(lanes) - lanes
    rank = before - before[first][of] + np.where(fits, lowest, 0)[of]
    kept = -(-rank // 32) * 32 < rank + lanes
    # All lanes of an instruction are dealt to the kept executions, in order.
    number = np.cumsum(kept) - np.concatenate(([0], np.cumsum(kept)))[first][of]
    count = np.add.reduceat(kept.astype(np.int64), first)[of]
    mine = (total[of] * number // np.maximum(count, 1)) - (total[of] * (number - 1) // np.maximum(count, 1))
    keep = np.zeros(len(order), dtype=bool)
    keep[order] = kept
    size = np.zeros(len(order), dtype=np.int64)
    size[order] = np.where(kept, mine, 0)
    return _with_lanes(group, static, keep, size, key)


def _with_lanes(
    group: WarpGroup, static: StaticTable, keep: NDArray[np.bool_], size: NDArray[np.int64], key: NDArray[np.int64]
) -> WarpGroup:
    """The kept executions with `size` lanes each; addresses of all with one `key` are dealt to them in order."""
    every = lane_addresses(group, static, np.ones(len(static), dtype=bool))
    owner_key = key[every.instruction][every.owner]
    address = every.address[np.argsort(owner_key, kind="stable")]
    filled = keep_executions(group, static, keep)
    mask = (np.uint64(1) << size[keep].astype(np.uint64)) - np.uint64(1)
    filled = dataclasses.replace(filled, mask=mask.astype(np.uint32))
    accesses = static.access_bytes[filled.static] > 0
    counts = active_lanes(filled.mask[accesses])
    # The addresses are in the order of keys: so are the accesses that take them.
    by_key = np.argsort(key[keep][accesses], kind="stable")
    target = np.cumsum(counts) - counts
    listed = np.empty(len(address), dtype=np.uint64)
    listed[_ranges(target[by_key], (target + counts)[by_key])] = address
    ends = np.concatenate(([0], np.cumsum(counts)))
    irregular = np.full(len(counts), IRREGULAR, dtype=np.int64)
    scattered = dataclasses.replace(
        filled,
        base=np.zeros(len(counts), dtype=np.uint64),
        stride=irregular,
        lanes=listed,
        lane_start=ends[filled.access_start],
    )
    return with_addresses(scattered, static, lane_addresses(scattered, static, np.ones(len(static), dtype=bool)))


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
