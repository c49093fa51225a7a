"""Which instructions make the values that others read: seen in some warps of a trace, as they were executed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_NAMES, NO_REGISTER, StaticTable, WarpGroup
from ..traces.rewrite import lane_addresses

#: Instructions that are looked at in all: loops repeat themselves.
MOST_INSTRUCTIONS = 20_000
#: Stands for a value from before the first instruction.
UNKNOWN = -1
#: Part of what a load reads that may have been stored later than the rest.
_NEAREST = 0.05


@dataclass(frozen=True, eq=False)
class DefUse:
    """For each static instruction that was seen, the instructions that made each of its sources, in their order."""

    producers: Mapping[int, tuple[frozenset[int], ...]]

    def of(self, index: int) -> frozenset[int]:
        """All producers of an instruction's sources."""
        return frozenset().union(*self.producers.get(index, ()))

    def consumers(self) -> dict[int, set[int]]:
        """For each instruction, those that read its result."""
        found: dict[int, set[int]] = {}
        for reader in self.producers:
            for writer in self.of(reader):
                found.setdefault(writer, set()).add(reader)
        return found

    def behind(self, starts: Iterable[int]) -> set[int]:
        """The instructions from which values of some come, directly or through others."""
        found: set[int] = set()
        waiting = [producer for start in starts for producer in self.of(start)]
        while waiting:
            index = waiting.pop()
            if index != UNKNOWN and index not in found:
                found.add(index)
                waiting.extend(self.of(index))
        return found


def def_use(group: WarpGroup, static: StaticTable) -> DefUse:
    """Who made the values that the instructions of some warps read; warps are spread over the group."""
    executed = np.unique(group.static).tolist()
    registers = {index: (static.destinations_of(index), static.sources_of(index)) for index in executed}
    made: dict[int, list[set[int]]] = {}
    lengths = np.diff(group.start)
    count = int(np.clip(MOST_INSTRUCTIONS // max(lengths.max(initial=1), 1), 1, len(group)))
    for warp in np.unique(np.linspace(0, len(group) - 1, count).astype(np.int64)):
        start = group.start[warp]
        writer: dict[int, int] = {}
        for index in group.static[start : min(group.start[warp + 1], start + MOST_INSTRUCTIONS)].tolist():
            destinations, sources = registers[index]
            seen = made.setdefault(index, [set() for _ in sources])
            for place, register in enumerate(sources):
                if register < NO_REGISTER:
                    seen[place].add(writer.get(register, UNKNOWN))
            for register in destinations:
                writer[register] = index
    return DefUse({index: tuple(map(frozenset, seen)) for index, seen in made.items()})


def chased_loads(flow: DefUse, static: StaticTable) -> NDArray[np.bool_]:
    """Loads and atomics whose address comes from an earlier execution of themselves, and what follows from them.

    Nothing lets such a load begin earlier: it is pointer chasing.
    """
    names = np.array(CLASS_NAMES)[static.class_id]
    fetches = np.char.startswith(names, "load_") | (names == "mem") | (names == "async_copy")
    atomics = np.char.startswith(names, "atomic_")
    found = atomics.copy()
    behind = {int(index): flow.behind([int(index)]) for index in np.flatnonzero(fetches)}
    for index, origins in behind.items():
        found[index] |= index in origins
    for index, origins in behind.items():
        found[index] |= any(found[origin] for origin in origins)
    return found


def turns_apart(group: WarpGroup, static: StaticTable, flow: DefUse) -> NDArray[np.float64]:
    """For each load, how many of its turns lie between a store by its block and the reading of what was stored.

    Only stores of what was made of loads from the same space count; where there are none, turns do not need each
    other, and the number is infinite. It is 1 in sweeps over a tile in shared memory and in triangular solves.
    """
    names = np.array(CLASS_NAMES)[static.class_id]
    found = np.full(len(static), np.inf)
    for space in ("shared", "global"):
        loads = np.flatnonzero((names == f"load_{space}") & (static.access_bytes > 0)).tolist()
        stores = [
            index
            for index in np.flatnonzero((names == f"store_{space}") & (static.access_bytes > 0)).tolist()
            if not flow.behind([index]).isdisjoint(loads)
        ]
        if not stores:
            continue
        written, stored_at, _ = _touched(group, static, stores)
        order = np.lexsort((stored_at, written))
        written, stored_at = written[order], stored_at[order]
        for load in loads:
            read, at, turns = _touched(group, static, [load])
            turn = (at.max(initial=0) - at.min(initial=0)) / max(turns - 1, 1)
            last = _last_before(written, stored_at, read, at)
            between = (at - stored_at[last])[last >= 0]
            if 2 * len(between) > len(read) and turn > 0:
                found[load] = np.quantile(between, _NEAREST) / turn
    return found


def _touched(
    group: WarpGroup, static: StaticTable, chosen: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """Of lanes of some accesses: (block and address as one number, instructions before), and a warp's accesses."""
    lanes = lane_addresses(group, static, np.isin(np.arange(len(static)), chosen))
    warp = np.searchsorted(group.start, lanes.instruction, side="right") - 1
    _, block = np.unique(group.block[warp], return_inverse=True)
    place = (block << 48)[lanes.owner] + lanes.address.astype(np.int64) % (1 << 48)
    per_warp = len(warp) / max(len(np.unique(warp)), 1)
    return place, (lanes.instruction - group.start[warp])[lanes.owner], per_warp


def _last_before(
    written: NDArray[np.int64], when: NDArray[np.int64], read: NDArray[np.int64], at: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each place that is read, the index of the last time before that it was written, or -1."""
    names, first = np.unique(written, return_index=True)
    name = np.minimum(np.searchsorted(names, read), len(names) - 1)
    width = int(max(when.max(initial=0), at.max(initial=0))) + 1
    rank = np.repeat(np.arange(len(names)), np.diff([*first, len(written)]))
    last = np.searchsorted(rank * width + when, name * width + at) - 1
    return np.where((names[name] == read) & (last >= first[name]), last, -1)
