"""PTX instructions in the order in which an assembler puts them: loads before what waits for others."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_NAMES, IRREGULAR, StaticTable, WarpGroup, active_lanes
from ..traces.machine_code import TracedCode
from .machine_loops import MachineKernel
from .machine_rows import is_access, machine_rows, pieces_of, same_access

#: Stands for no register where an instruction names one.
NO_REGISTER = 255
#: No instruction passes these, whoever puts them in order.
_BARRIERS = ("control", "barrier", "barrier_cluster", "async_copy")


@dataclasses.dataclass(eq=False)
class Assembly:
    """The order of a kernel's PTX: that of its machine code, or without any, loads before what waits for others."""

    static: StaticTable
    code: TracedCode | None = None

    def __post_init__(self) -> None:
        self.names = [CLASS_NAMES[each] for each in self.static.class_id]
        #: How many instructions that none passes come up to each, and a number for each that tells runs apart.
        self._passed = np.cumsum(np.isin(self.names, _BARRIERS))
        self._marks = np.random.default_rng(0).integers(0, 1 << 64, len(self.names), dtype=np.uint64)
        self._machine = None if self.code is None else _MachineOrder(self.code, self.static, self.names)

    def ordered(self, group: WarpGroup) -> WarpGroup:
        """A group whose warps execute their instructions in this order. An order is worked out once for each run.

        A run goes forward through the code, past instructions that a rewritten trace lacks, up to what none passes.
        """
        if not len(group.static):
            return group
        static = group.static.astype(np.int64)
        before, after = static[:-1], static[1:]
        new = np.ones(len(static), dtype=bool)
        new[1:] = (after <= before) | (self._passed[after - 1] > np.where(before > 0, self._passed[before - 1], 0))
        new[group.start[:-1][np.diff(group.start) > 0]] = True
        begins = np.flatnonzero(new)
        lengths = np.diff(np.append(begins, len(static)))
        _, first, which = np.unique(
            np.add.reduceat(self._marks[static], begins), return_index=True, return_inverse=True
        )
        starts = np.concatenate(([0], np.cumsum(lengths[first])))
        taken = np.arange(starts[-1]) + np.repeat(begins[first] - starts[:-1], lengths[first])
        order = self._orders(group.static[taken], starts)
        if (order == np.arange(len(order))).all():
            return group
        shift = np.repeat(begins - starts[which], lengths)
        return _permuted(group, self.static, order[np.arange(len(static)) - shift] + shift)

    def _orders(self, executed: NDArray[np.uint32], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order of the instructions of some runs, which lie one after another."""
        from ._order_kernels import hoist_loads

        static, names = self.static, np.array(self.names)
        shared = np.isin(names, ("load_shared", "store_shared"))
        ends = np.isin(names, _BARRIERS)
        ends |= (np.char.startswith(names, "store_") & ~shared) | np.char.startswith(names, "atomic_")
        order = np.empty(len(executed), dtype=np.int64)
        hoist_loads(
            starts,
            executed,
            np.char.startswith(names, "load_"),
            shared,
            ends,
            static.destinations,
            static.destination_offsets,
            static.sources,
            static.source_offsets,
            order,
            np.empty(len(order), dtype=np.int64),
        )
        if self._machine is not None:
            for begin, end in pairwise(starts.tolist()):
                found = self._machine.order(executed[begin:end].tolist())
                if found is not None:
                    order[begin:end] = begin + found
        return order


class _MachineOrder:
    """Where the instructions of a kernel's PTX stand in its machine code."""

    def __init__(self, code: TracedCode, static: StaticTable, names: Sequence[str]) -> None:
        rows = machine_rows(code, static)
        classes = [row.instruction_class for row in rows]
        kernel = MachineKernel(code, classes, names, pieces_of(code, static))
        self.static, self.names = static, names
        #: Of each PTX instruction: the blocks of machine code that have it, and its first place in them.
        self.places: dict[int, dict[int, int]] = defaultdict(dict)
        for block, span in enumerate(kernel.spans):
            for i in span:
                origin = kernel.origins[i]
                if origin >= 0 and (not is_access(names[origin]) or same_access(classes[i], names[origin])):
                    self.places[origin].setdefault(block, i)

    def order(self, run: list[int]) -> Any:
        """The order of a run; None where no block of machine code has all of its accesses that are anywhere."""
        accesses = [each for each in run if is_access(self.names[each]) and each in self.places]
        if not accesses:
            return None
        blocks = Counter(block for each in accesses for block in self.places[each])
        block, found = max(blocks.items(), key=lambda each: (each[1], -each[0]))
        if found < len(accesses):
            return None
        places = [self.places[each].get(block, -1) if each in self.places else -1 for each in run]
        return np.argsort(self._late(run, places, self._allowed(run, places)), kind="stable")

    def _allowed(self, run: list[int], places: list[int]) -> list[int]:
        """Places that keep results before what reads them, and registers until they are read.

        What is nowhere in machine code follows what it needs; an access, those before it, too: it became part of one.
        """
        written: dict[int, int] = {}
        read: dict[int, int] = {}
        accessed = -1
        allowed = []
        for own, each in zip(places, run, strict=True):
            sources, made = self._registers(each)
            place = max(
                own,
                *(written.get(register, -1) for register in (*sources, *made)),
                *(read.get(register, -1) for register in made),
                accessed if is_access(self.names[each]) and own < 0 else -1,
            )
            allowed.append(place)
            read.update((register, max(read.get(register, -1), place)) for register in sources)
            written.update((register, place) for register in made)
            if is_access(self.names[each]):
                accessed = max(accessed, place)
        return allowed

    def _late(self, run: list[int], places: list[int], allowed: list[int]) -> list[int]:
        """Allowed places, but with what machine code lacks moved to the first that needs it; accesses stay."""
        end = max(allowed) + 1
        changed: dict[int, int] = {}  # by register: the first that reads or writes it, of those that come later
        written: dict[int, int] = {}
        late = allowed.copy()
        for number in range(len(run) - 1, -1, -1):
            sources, made = self._registers(run[number])
            if places[number] < 0 and not is_access(self.names[run[number]]):
                needed = [changed.get(register, end) for register in made]
                needed += [written.get(register, end) for register in sources]
                late[number] = min([end, *needed])
            place = late[number]
            written.update((register, place) for register in made)
            changed.update((register, place) for register in made)
            changed.update((register, min(changed.get(register, end), place)) for register in sources)
        return late

    def _registers(self, each: int) -> tuple[list[int], list[int]]:
        """(those that an instruction reads, those that it writes)."""
        sources, made = self.static.sources_of(each), self.static.destinations_of(each)
        return [r for r in sources if r < NO_REGISTER], [r for r in made if r < NO_REGISTER]


def _permuted(group: WarpGroup, static: StaticTable, order: NDArray[np.int64]) -> WarpGroup:
    """A group whose instructions, with their masks and addresses, are in another order within warps."""
    accesses = static.access_bytes[group.static] > 0
    number = np.cumsum(accesses) - 1
    chosen = number[order[accesses[order]]]
    lanes = np.where(group.stride == IRREGULAR, active_lanes(group.mask[accesses]), 0)
    first = np.cumsum(lanes) - lanes
    counts = lanes[chosen]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return dataclasses.replace(
        group,
        static=group.static[order],
        mask=group.mask[order],
        base=group.base[chosen],
        stride=group.stride[chosen],
        lanes=group.lanes[np.repeat(first[chosen], counts) + within],
    )
