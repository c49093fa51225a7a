"""Which instructions make the values that others read: seen in some warps of a trace, as they were executed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_NAMES, NO_REGISTER, StaticTable, WarpGroup

#: Instructions that are looked at in all: loops repeat themselves.
MOST_INSTRUCTIONS = 20_000
#: Stands for a value from before the first instruction.
UNKNOWN = -1


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
