"""Producers and consumers: which arrivals and copies each wait at an mbarrier is for.

A trace has the address of every arrival and wait, and in the lowest bit of a wait the parity that it is for. A warp
that arrives at a barrier does so once in a phase, so its n-th arrival belongs to phase n. A bulk copy counts for the
barrier at which its warp expects bytes: the last time before it, or the next time if the first copies come first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_IDS, SHARED_BITS, StaticTable, WarpGroup
from ..traces.rewrite import lane_addresses

#: Kinds of events: an arrival or an expectation of bytes, and a wait.
SIGNAL, AWAIT = 6, 7
_WAITS, _ARRIVALS, _EXPECTS = ("test_wait", "try_wait"), ("arrive", "arrive_drop"), "expect_tx"
#: Bits of an address that name a barrier: of the cluster's blocks, which are alike, all have it at the same place.
_PLACE, _PARITY = ((1 << SHARED_BITS) - 1) & ~7, 1


class Awaited(NamedTuple):
    """For each event, between `start[i]` and `start[i + 1]`: (warp of the block, event of that warp) to wait for."""

    start: NDArray[np.int64]
    pairs: NDArray[np.int64]


class Phases(NamedTuple):
    """The phases of mbarriers of some blocks, counted block by block."""

    #: Where the phases of each block begin in `signals`; and of each phase, how many arrivals and copies complete it.
    start: NDArray[np.int64]
    signals: NDArray[np.int64]
    #: Of each event: the phase of its block that it is for, or OVER.
    of_event: NDArray[np.int64]


#: In place of a phase: one that was over before the kernel began, or none.
OVER = -1
NOTHING_AWAITED = Awaited(np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64))


def is_wait(opcode: str) -> bool:
    """Whether PTX looks at the phase of an mbarrier."""
    return opcode.startswith("mbarrier.") and opcode.split(".")[1] in _WAITS


def mbarrier_kinds(static: StaticTable) -> NDArray[np.uint8]:
    """SIGNAL or AWAIT for the static instructions of mbarriers, 0 for all others."""
    found = np.zeros(len(static), dtype=np.uint8)
    for i, opcode in enumerate(static.opcode):
        if opcode.startswith("mbarrier.") and static.access_bytes[i]:
            action = opcode.split(".")[1]
            found[i] = AWAIT if action in _WAITS else SIGNAL if action in (*_ARRIVALS, _EXPECTS) else 0
    return found


class _Signal(NamedTuple):
    """An arrival or a copy: event of a warp of the block."""

    warp: int
    event: int
    copies: bool


@dataclass
class _Block:
    """What the warps of a block do at its barriers, by barrier and phase."""

    signals: dict[tuple[int, int], list[_Signal]] = field(default_factory=lambda: defaultdict(list))
    #: (Warp, event, barrier, phase).
    waits: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass
class _Warp:
    """Follows one warp of a block."""

    block: _Block
    number: int
    arrived: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    #: Of each barrier: parity and phase that the warp waited for last.
    awaited: dict[int, tuple[int, int]] = field(default_factory=dict)
    expected: tuple[int, int] | None = None
    #: Copies that no barrier expects yet, if copies come first.
    early: list[int] = field(default_factory=list)
    copies_first: bool = False

    def wait(self, event: int, barrier: int, parity: int) -> None:
        """Phase 0 has parity 0; who waits for parity 1 first waits for the one before, which is over."""
        before, phase = self.awaited.get(barrier, (1, -1))
        phase += before != parity
        self.awaited[barrier] = parity, phase
        self.block.waits.append((self.number, event, barrier, phase))

    def signal(self, event: int, barrier: int, *, arrives: bool, expects: bool) -> None:
        phase = barrier, self.arrived[barrier]
        if arrives:
            self.block.signals[phase].append(_Signal(self.number, event, copies=False))
            self.arrived[barrier] += 1
        if expects:
            self.expected = phase
            if self.early:
                self.block.signals[phase] += [_Signal(self.number, each, copies=True) for each in self.early]
                self.early = []

    def copy(self, event: int) -> None:
        self.copies_first |= self.expected is None
        if self.copies_first or self.expected is None:
            self.early.append(event)
        else:
            self.block.signals[self.expected].append(_Signal(self.number, event, copies=True))


def counted_copies(static: StaticTable) -> NDArray[np.bool_]:
    """Bulk copies whose bytes an mbarrier counts."""
    return (static.class_id == CLASS_IDS["async_copy"]) & np.array(["mbarrier" in each for each in static.opcode])


def _followed(group: WarpGroup, static: StaticTable, events: Any, at: NDArray[np.int64]) -> Iterator[_Block]:
    """What the warps of each block do; `at` is the instruction of each event."""
    kinds, copies = mbarrier_kinds(static), counted_copies(static)
    executed = group.static[at]
    kind, copy = kinds[executed], copies[executed]
    lanes = lane_addresses(group, static, kinds > 0)
    some = lanes.counts > 0
    first_lane = lanes.address[lanes.start[:-1][some]].astype(np.int64)
    address = dict(zip(lanes.instruction[some].tolist(), first_lane.tolist(), strict=True))
    actions = [frozenset(each.split(".")) for each in static.opcode]
    for first, last in zip(events.block_start[:-1].tolist(), events.block_start[1:].tolist(), strict=True):
        block = _Block()
        for number in range(last - first):
            begin, end = events.event_start[first + number], events.event_start[first + number + 1]
            warp = _Warp(block, number)
            for event in (begin + np.flatnonzero((kind[begin:end] > 0) | copy[begin:end])).tolist():
                place, mine = address.get(int(at[event]), 0), event - int(begin)
                if copy[event]:
                    warp.copy(mine)
                elif kind[event] == AWAIT:
                    warp.wait(mine, place & _PLACE, place & _PARITY)
                else:
                    names = actions[executed[event]]
                    arrives = not names.isdisjoint(_ARRIVALS)
                    warp.signal(mine, place & _PLACE, arrives=arrives, expects=_EXPECTS in names)
        yield block


def awaited_events(group: WarpGroup, static: StaticTable, events: Any, at: NDArray[np.int64]) -> Awaited:
    """What the waits among the events of some blocks are for: of each warp, the last arrival and the last copy."""
    if not (mbarrier_kinds(static) == AWAIT).any():
        return NOTHING_AWAITED
    start = np.zeros(len(at) + 1, dtype=np.int64)
    pairs: list[tuple[int, int]] = []
    for number, block in enumerate(_followed(group, static, events, at)):
        begins = events.event_start[events.block_start[number] :]
        for warp, event, barrier, phase in block.waits:
            signals = block.signals.get((barrier, phase), [])
            last = {(each.warp, each.copies): each.event for each in signals}
            found = [(who, what) for (who, _), what in last.items()]
            start[begins[warp] + event + 1] = len(found)
            pairs += found
    return Awaited(np.cumsum(start), np.array(pairs, dtype=np.int64).reshape(-1, 2))


def phases_of(group: WarpGroup, static: StaticTable, events: Any, at: NDArray[np.int64]) -> Phases:
    """The phases that events of some blocks are for. One that is awaited but never signalled never completes."""
    starts, counts = [0], []
    of_event = np.full(len(at), OVER, dtype=np.int64)
    for number, block in enumerate(_followed(group, static, events, at)):
        begins = events.event_start[events.block_start[number] :]
        numbers: dict[tuple[int, int], int] = {}
        for phase, signals in block.signals.items():
            numbers[phase] = len(numbers)
            counts.append(len(signals))
            for each in signals:
                of_event[begins[each.warp] + each.event] = numbers[phase]
        for warp, event, barrier, which in block.waits:
            if which > OVER and (barrier, which) not in numbers:
                numbers[barrier, which] = len(numbers)
                counts.append(1)
            of_event[begins[warp] + event] = numbers[barrier, which] if which > OVER else OVER
        starts.append(len(counts))
    return Phases(np.array(starts), np.array(counts, dtype=np.int64), of_event)
