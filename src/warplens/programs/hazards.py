"""Races within a block, and reads of unset bytes of shared memory, found in the recorded thread blocks of a launch.

Barriers of the whole block divide what its warps do. Two warps race if both access a
byte between the same barriers and one of them writes it. What a value is, a record does
not tell: one instruction with which several warps write a byte is taken to write the
same value. Memory that warps also synchronise on by other means is not searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..frontends.ptx.spaces import SHARED_WINDOW
from ..frontends.runtime import MemoryBefore
from ..traces import IRREGULAR, SPACES, LaunchTrace, StaticTable, WarpGroup, active_lanes

#: Thread blocks of a launch, and bytes that a block accesses, up to which launches are searched.
MOST_BLOCKS, MOST_BYTES = 8, 4 << 20
#: Findings of a launch that are told.
MOST_TOLD = 4
#: What synchronises warps besides barriers: on shared memory, and on global memory too.
_OTHERWISE = ("cp.", "mbarrier", "st.async", "red.async", "mapa", "barrier.cluster", "fence.proxy")
_FENCES = ("membar", "fence")
_ORDERED = (".volatile", ".acquire", ".release", ".acq_rel", ".relaxed", ".mmio")
BARRIERS = ("bar.sync", "bar.red", "barrier.sync", "barrier.red")
_LANES = np.arange(32, dtype=np.uint32)


@dataclass(frozen=True)
class _Bytes:
    """Bytes of one space that a block accesses, in order of the warps' instructions."""

    address: NDArray[np.int64]
    epoch: NDArray[np.int64]
    warp: NDArray[np.int64]
    lane: NDArray[np.int64]
    static: NDArray[np.int64]


@dataclass(frozen=True)
class Search:
    """Faults of a launch, one sentence each, and why a space was not searched, or not in all of the blocks."""

    faults: tuple[str, ...]
    skipped: Mapping[str, str]


def hazards(trace: LaunchTrace, memory: MemoryBefore | None = None) -> Search:
    """What is wrong; in global memory only where that is given."""
    static = trace.static
    places: dict[str, Callable[[int], str]] = {
        "shared": lambda address: f"byte {address - SHARED_WINDOW} of shared memory"
    }
    if memory is not None:
        places["global"] = memory.place
    present = [space for space in places if space in _spaces(static)]
    skipped = {space: reason for space in present if (reason := unsearched(trace, space))}
    searched = [space for space in present if space not in skipped]
    name = trace.header.extra.get("readable_name", trace.header.kernel)
    found: dict[tuple[int, ...], str] = {}
    blocks = 0
    for group in trace.groups() if searched else ():
        for first, last in _blocks(group):
            blocks += 1
            where = f"block {place_of(int(group.block[first]), trace.header.grid)}"
            for space in searched if blocks <= MOST_BLOCKS else ():
                accesses = _accesses(static, group, first, last, space)
                if isinstance(accesses, str):
                    skipped[space] = f"in {where} {accesses}"
                    continue
                for lines, each in _findings(static, accesses, trace, space, places[space]):
                    found.setdefault(lines, f"{name}, {where}: {each}")
    return Search(tuple(found.values())[:MOST_TOLD], skipped)


def unsearched(trace: LaunchTrace, space: str) -> str | None:
    """Why a space that a kernel accesses is not searched: the first instruction that synchronises otherwise."""
    static = trace.static
    if space not in _spaces(static):
        return None
    for opcode, line in zip(static.opcode, static.line.tolist(), strict=True):
        ordered = space == "global" and (opcode.startswith(_FENCES) or any(each in opcode for each in _ORDERED))
        if ordered or opcode.startswith(_OTHERWISE):
            return f"{opcode} at {line_of(trace, line)} synchronises otherwise than by barriers of the block"
    return None


def _spaces(static: StaticTable) -> set[str]:
    return {SPACES[each] for each in np.unique(static.space).tolist()}


def _blocks(group: WarpGroup) -> Iterator[tuple[int, int]]:
    """First and last warp of each block."""
    ends = np.flatnonzero(np.diff(group.block, append=-1))
    first = 0
    for end in ends.tolist():
        yield first, end + 1
        first = end + 1


def _findings(
    static: StaticTable, of: _Bytes, trace: LaunchTrace, space: str, place: Callable[[int], str]
) -> Iterator[_Finding]:
    yield from _races(static, of, trace, place)
    if space == "shared":
        yield from _unset(static, of, trace, place)


def _accesses(static: StaticTable, group: WarpGroup, first: int, last: int, space: str) -> _Bytes | str:
    """Of one block, or why it cannot be searched."""
    barrier = np.array([each.startswith(BARRIERS) for each in static.opcode])
    parts, counts, total = [], set(), 0
    for warp in range(first, last):
        here = slice(int(group.start[warp]), int(group.start[warp + 1]))
        index, mask = group.static[here].astype(np.int64), group.mask[here]
        epoch = np.cumsum(barrier[index])
        counts.add(int(epoch[-1]) if len(epoch) else 0)
        own = static.access_bytes[index] > 0
        index, mask, epoch = index[own], mask[own], epoch[own]
        rows, lanes, address = _lanes(group, warp, mask)
        chosen = (static.space[index] == SPACES.index(space))[rows] & (address != 0)
        rows, lanes, address = rows[chosen], lanes[chosen], address[chosen]
        sizes = static.access_bytes[index[rows]].astype(np.int64)
        total += int(sizes.sum())
        if total > MOST_BYTES:
            return f"more than {MOST_BYTES >> 20} MiB are accessed"
        every = np.repeat(np.arange(len(rows)), sizes)
        offset = np.arange(len(every)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        numbers = np.full(len(every), int(group.warp[warp]))
        parts.append(_Bytes(address[every] + offset, epoch[rows[every]], numbers, lanes[every], index[rows[every]]))
    if len(counts) > 1:
        return "warps pass different numbers of barriers"
    names = ("address", "epoch", "warp", "lane", "static")
    return _Bytes(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _lanes(
    group: WarpGroup, warp: int, mask: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(access, lane, address) of each lane that makes one."""
    here = slice(int(group.access_start[warp]), int(group.access_start[warp + 1]))
    base, stride = group.base[here].astype(np.int64), group.stride[here]
    rows, lanes = np.nonzero((mask[:, None] >> _LANES) & 1)
    active = active_lanes(mask)
    position = np.arange(len(rows)) - np.repeat(np.cumsum(active) - active, active)
    irregular = stride == IRREGULAR
    address = base[rows] + np.where(irregular, 0, stride)[rows] * position
    listed = group.lanes[int(group.lane_start[warp]) : int(group.lane_start[warp + 1])]
    address[irregular[rows]] = listed.astype(np.int64)
    return rows.astype(np.int64), lanes.astype(np.int64), address.astype(np.int64)


def kinds(static: StaticTable) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which instructions write, and which are atomic."""
    atomic = np.array([each.startswith(("atom", "red")) for each in static.opcode])
    writes = np.array([each.startswith(("st.", "stmatrix")) for each in static.opcode])
    return writes, atomic


#: Source lines that a finding is about, and the sentence.
_Finding = tuple[tuple[int, ...], str]


def _races(static: StaticTable, of: _Bytes, trace: LaunchTrace, place: Callable[[int], str]) -> Iterator[_Finding]:
    writes, atomic = kinds(static)
    order = np.lexsort((of.address, of.epoch))
    starts = np.flatnonzero(np.diff(of.address[order], prepend=-1) | np.diff(of.epoch[order], prepend=-1))
    if not len(starts):
        return

    def spread(values: NDArray[np.int64]) -> NDArray[np.bool_]:
        ordered = values[order]
        return np.asarray(np.minimum.reduceat(ordered, starts) != np.maximum.reduceat(ordered, starts))

    def some(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.asarray(np.logical_or.reduceat(flags[order], starts))

    written, swapped = writes[of.static], atomic[of.static]
    read = ~(written | swapped)
    racing = spread(of.warp) & (some(written) & (some(~written) | spread(of.static)) | some(swapped) & some(read))
    told = set()
    for number in np.flatnonzero(racing).tolist():
        rows = order[starts[number] : starts[number + 1] if number + 1 < len(starts) else None]
        changing = rows[(written | swapped)[rows]]
        pair = next(
            (
                (one, other)
                for one in changing.tolist()
                for other in rows.tolist()
                if of.warp[one] != of.warp[other] and of.static[one] != of.static[other]
            ),
            None,
        )
        if pair is None or (key := (of.static[pair[0]], of.static[pair[1]])) in told:
            continue
        told |= {key, key[::-1]}
        one, other = pair
        lines = tuple(int(static.line[of.static[each]]) for each in pair)
        yield (
            lines,
            f"{_thread(of, one, trace)} writes {place(int(of.address[one]))} at {line_of(trace, lines[0])}, "
            f"{_thread(of, other, trace)} {'reads' if read[other] else 'writes'} it at {line_of(trace, lines[1])}, "
            "and no barrier lies between them",
        )


def _unset(static: StaticTable, of: _Bytes, trace: LaunchTrace, place: Callable[[int], str]) -> Iterator[_Finding]:
    """Reads of bytes that nothing of the block writes before the next barrier. Generic stores may set any byte."""
    if "generic" in _spaces(static):
        return
    writes, atomic = kinds(static)
    changes = (writes | atomic)[of.static]
    addresses, number = np.unique(of.address, return_inverse=True)
    since = np.full(len(addresses), np.iinfo(np.int64).max)
    np.minimum.at(since, number[changes], of.epoch[changes])
    unset = np.flatnonzero(~changes & (since[number] > of.epoch))
    for row in unset[np.unique(static.line[of.static[unset]], return_index=True)[1]].tolist():
        line = int(static.line[of.static[row]])
        yield (
            (line,),
            f"{_thread(of, row, trace)} reads {place(int(of.address[row]))} at {line_of(trace, line)}, "
            "which is not set",
        )


def _thread(of: _Bytes, row: int, trace: LaunchTrace) -> str:
    return f"thread {place_of(32 * int(of.warp[row]) + int(of.lane[row]), trace.header.block)}"


def line_of(trace: LaunchTrace, line: int) -> str:
    """`stencil.cu:12`, or `line 12` of PTX without source lines."""
    extra = trace.header.extra
    return f"{Path(str(extra['source'])).name}:{line}" if extra.get("lines_of") == "source" else f"line {line}"


def place_of(number: int, size: tuple[int, int, int]) -> str:
    return f"({number % size[0]}, {number // size[0] % size[1]}, {number // (size[0] * size[1])})"
