"""Allocates virtual registers to physical numbers, for the dependences in a trace and an estimate of their count.

PTX has unlimited registers; ptxas allocates physical ones. Here a linear scan over
live ranges does so. It takes the register that has been free longest, so that reuse
adds few false dependences.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass

from .flat import FlatKernel
from .flow import Flow
from .program import Type

#: Numbers for data, then for predicates; 255 means "none" in traces.
DATA_REGISTERS = 240
PREDICATES = 15
#: Added to the estimate: registers that ptxas needs for the stack pointer and values in flight.
RESERVED_REGISTERS = 2


@dataclass(frozen=True, eq=False)
class Allocation:
    """The number of each virtual register, and the most 32-bit registers live at once."""

    number: dict[str, int]
    most_live: int

    @property
    def registers_per_thread(self) -> int:
        """An estimate for the occupancy if no compiler gives the number: live registers and a few more."""
        return min(self.most_live + RESERVED_REGISTERS, 255)


def allocate_registers(kernel: FlatKernel, flow: Flow) -> Allocation:
    """Allocate all registers of a kernel."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}

    def touch(name: str, index: int) -> None:
        first[name] = min(first.get(name, index), index)
        last[name] = max(last.get(name, index), index)

    widths = {name: _width(kind) for name, kind in kernel.registers.items()}

    def total(names: set[str]) -> int:
        return sum(map(widths.__getitem__, names))

    most = 0
    for block in kernel.blocks:
        if not block.instructions:
            continue
        begin, end = block.instructions[0].index, block.instructions[-1].index
        live = flow.live_out(block.number)
        for name in flow.live_in[block.number] - first.keys():
            touch(name, begin)
        for name in live:
            last[name] = end
        width = total(live)
        for item in reversed(block.instructions):
            used, made = set(item.sources), set(item.destinations)
            for name in used | made:
                touch(name, item.index)
            most = max(most, width + total(made - live))
            if item.guard is None:
                width -= total(made & live)
                live -= made
            width += total(used - live)
            live |= used
        most = max(most, width)
    free = {False: deque(range(DATA_REGISTERS)), True: deque(range(DATA_REGISTERS, DATA_REGISTERS + PREDICATES))}
    # If too many are live, they share registers in turn, because spilling is not modelled. One register for all of
    # them would be a chain of false dependences.
    shared = {kind: itertools.cycle(tuple(pool)) for kind, pool in free.items()}
    number: dict[str, int] = {}
    ends: dict[int, list[str]] = {}
    for name, index in last.items():
        ends.setdefault(index, []).append(name)
    held: set[str] = set()
    starts: dict[int, list[str]] = {}
    for name, index in first.items():
        starts.setdefault(index, []).append(name)
    for index in sorted({*starts, *ends}):
        for name in sorted(starts.get(index, ())):
            kind = kernel.registers[name].kind == "pred"
            if free[kind]:
                number[name] = free[kind].popleft()
                held.add(name)
            else:
                number[name] = next(shared[kind])
        for name in sorted(ends.get(index, ())):
            if name in held:
                free[kernel.registers[name].kind == "pred"].append(number[name])
    return Allocation(number, most)


def _width(kind: Type) -> int:
    """32-bit registers that a virtual one takes; predicates are separate."""
    return 0 if kind.kind == "pred" else -(-kind.total_bits // 32)
