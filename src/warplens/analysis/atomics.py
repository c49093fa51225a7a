"""Atomics at words where lanes meet: how often the LLC goes over them, and loops of compare-and-swap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_IDS, LaunchTrace, StaticTable, WarpGroup
from ..traces.rewrite import LaneAddresses, lane_addresses
from . import instruction_kinds
from ._cache_records import ATOMIC

WORD_BYTES, SECTOR_BYTES = 4, 32
#: How addresses go to slices of the LLC: pairs of lines to two of them in turn, each KiB of a chunk to two others,
#: and chunks anywhere. Measured on an H200 (benchmarks/h200/additions.csv), assumed of others.
_PAIR_BYTES, _KIB, _CHUNK_BYTES = 256, 1024, 4096
CHUNK_SLICES = 2 * _CHUNK_BYTES // _KIB
_SPREADING = np.uint64(0x9E3779B97F4A7C15)
#: Atomics that an assembler does once for all lanes of a warp, where it knows that they have one address.
_COMBINED = ("add", "min", "max", "and", "or", "xor")
#: PTX types, and operations, of the atomics of 64 bits that shared memory does not have and those that it has.
_WIDE, _NATIVE = frozenset(("u64", "s64", "b64")), frozenset(("exch", "cas"))


@dataclass(frozen=True, eq=False)
class AtomicPasses:
    """What the thread blocks of a launch ask of each sector.

    A word takes one lane at a time: a request goes over a sector as often as most of its lanes have one word.
    """

    #: One entry for each sector of each block, by block.
    block: NDArray[np.int64]
    sector: NDArray[np.int64]
    #: Requests for it, and passes over it: of integer and of floating-point atomics.
    requests: NDArray[np.int64]
    passes: NDArray[np.int64]

    @property
    def further(self) -> int:
        """Passes beyond the first over each sector of a request."""
        return int(self.passes.sum() - self.requests.sum())

    def busiest(self, window: int, slices: int, cycles: tuple[float, float]) -> float:
        """Cycles of the busiest sector or slice, one window of blocks that run together after the other.

        `cycles` are those of an integer and of a floating-point pass over one sector. A slice goes over another
        sector meanwhile, and begins a pass as often as one of integers.
        """
        if not len(self.block):
            return 0.0
        windows = self.block // max(window, 1)
        one = _most(windows, self.sector, self.passes @ np.array(cycles))
        all_of_slice = _most(windows, _slices(self.sector, slices), self.passes.sum(axis=1) * cycles[0])
        return float(np.maximum(one, all_of_slice).sum())


def _most(windows: NDArray[np.int64], place: NDArray[np.int64], busy: NDArray[np.float64]) -> NDArray[np.float64]:
    """How long the busiest place of each window is busy."""
    order = np.lexsort((place, windows))
    windows, place = windows[order], place[order]
    new = np.concatenate(([True], np.diff(windows) != 0))
    begins = np.flatnonzero(new | np.concatenate(([True], np.diff(place) != 0)))
    sums = np.add.reduceat(busy[order], begins)
    return np.maximum.reduceat(sums, np.searchsorted(begins, np.flatnonzero(new)))


def _slices(sector: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The slice of each sector."""
    address = sector * SECTOR_BYTES
    chunk = (address // _CHUNK_BYTES).astype(np.uint64)
    group = (chunk * _SPREADING >> np.uint64(32)).astype(np.int64) % max(count // CHUNK_SLICES, 1)
    within = address % _CHUNK_BYTES // _KIB * 2 + address // _PAIR_BYTES % 2
    return (group * CHUNK_SLICES + within) % count


def atomic_passes(trace: LaunchTrace, *, assembled: bool) -> AtomicPasses:
    """The passes of a trace, by block and sector.

    Unless it is `assembled`, integer atomics on one address are those of a single lane, as an assembler makes them.
    """
    static = trace.static
    chosen = instruction_kinds(static) == ATOMIC
    chosen &= static.access_bytes > 0
    parts = [_passes(group, static, chosen, assembled) for group in trace.groups()] if chosen.any() else []
    rows = np.concatenate([part for part in parts if len(part)] or [np.zeros((0, 5), dtype=np.int64)])
    return AtomicPasses(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3:])


def _passes(group: WarpGroup, static: StaticTable, chosen: NDArray[np.bool_], assembled: bool) -> NDArray[np.int64]:
    """Block, sector, requests, integer and floating-point passes of a group, one row for each sector of a block."""
    lanes = lane_addresses(group, static, chosen)
    owner, address, count = words_of(lanes)
    row = group.static[lanes.instruction]
    is_float = np.array([_is_float(name) for name in static.opcode], dtype=bool)[row]
    if not assembled:
        combined = np.array([_is_combined(name) for name in static.opcode], dtype=bool)[row]
        combined &= np.bincount(owner, minlength=len(row)) == 1
        count = np.where(combined[owner], 1, count)
    if not len(owner):
        return np.zeros((0, 5), dtype=np.int64)
    sector = (address // np.uint64(SECTOR_BYTES)).astype(np.int64)
    first = np.flatnonzero(np.concatenate(([True], (owner[1:] != owner[:-1]) | (sector[1:] != sector[:-1]))))
    most = np.maximum.reduceat(count, first)
    owner, sector = owner[first], sector[first]
    block = group.block[np.searchsorted(group.start, lanes.instruction[owner], side="right") - 1]
    order = np.lexsort((sector, block))
    new = np.concatenate(([True], (np.diff(block[order]) != 0) | (np.diff(sector[order]) != 0)))
    begins = np.flatnonzero(new)
    sums = [
        np.add.reduceat(each[order], begins)
        for each in (np.ones_like(most), most * ~is_float[owner], most * is_float[owner])
    ]
    return np.stack([block[order][begins], sector[order][begins], *sums], axis=1)


def words_of(lanes: LaneAddresses) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """(Access, address, lanes that have it) of each distinct address of each access, in ascending order."""
    order = np.lexsort((lanes.address, lanes.owner))
    order = order[lanes.address[order] > 0]
    owner, address = lanes.owner[order], lanes.address[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (owner[1:] != owner[:-1]) | (address[1:] != address[:-1])
    first = np.flatnonzero(new)
    return owner[first], address[first], np.diff(np.concatenate((first, [len(order)])))


@dataclass(frozen=True, eq=False)
class Swaps:
    """Executions of loops of compare-and-swap on shared memory: one lane of a word succeeds each time."""

    #: Place of each among the instructions of a group.
    instruction: NDArray[np.int64]
    #: Lanes at the word that has most of them.
    lanes: NDArray[np.float64]
    #: Warps of the block that want the same word at a time.
    warps: NDArray[np.float64]

    def cycles(self, lane_cycles: float, word_cycles: float) -> NDArray[np.float64]:
        """How long each takes: turn after turn of its own lanes, or those of all warps that want the word."""
        return self.lanes * np.maximum(lane_cycles, word_cycles * self.warps)

    def turns(self, lane_cycles: float, word_cycles: float, port_cycles: float) -> NDArray[np.float64]:
        """Turns that each takes in that time: lanes that lose to another warp try again.

        A turn is over after `lane_cycles`, or when the port has served all warps that want the word.
        """
        least = np.maximum(lane_cycles, port_cycles * self.warps)
        return self.cycles(lane_cycles, word_cycles) / least if lane_cycles else self.lanes

    def waits(self, lane_cycles: float, word_cycles: float, port_cycles: float) -> NDArray[np.float64]:
        """Cycles of that time for which each waits for the port, where warps of its block keep it busy.

        They find it taken as often as it is busy, and wait for what all of them ask of it.
        """
        asked = port_cycles * self.warps
        busy = asked / np.maximum(np.maximum(lane_cycles, asked), 1e-300)
        return busy * asked * self.turns(lane_cycles, word_cycles, port_cycles)


def swaps_of(group: WarpGroup, static: StaticTable) -> Swaps:
    """Atomics of PTX on shared memory that the assembler makes loops of; machine code has the loops."""
    chosen = (static.class_id == CLASS_IDS["atomic_shared"]) & (static.access_bytes > 0)
    chosen &= np.array([_is_swapped(name) for name in static.opcode], dtype=bool)
    if not chosen.any():
        return Swaps(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
    found = lane_addresses(group, static, chosen)
    owner, word = found.owner, (found.address // np.uint64(WORD_BYTES)).astype(np.int64)
    lanes = np.zeros(len(found.instruction))
    names, counts = np.unique(owner * 32 + found.ranks(WORD_BYTES), return_counts=True)
    np.maximum.at(lanes, names // 32, counts)
    warp = np.searchsorted(group.start, found.instruction, side="right") - 1
    _, block = np.unique(group.block[warp], return_inverse=True)
    pairs, counts = np.unique(np.stack((block[owner], word)), axis=1, return_counts=True)
    busiest = np.zeros(block.max(initial=0) + 1)
    np.maximum.at(busiest, pairs[0], counts)
    warps = np.bincount(np.unique(np.stack((block, warp)), axis=1)[0], minlength=len(busiest))
    share = busiest / np.maximum(np.bincount(block, lanes, len(busiest)), 1.0)
    return Swaps(found.instruction, lanes, (warps * share)[block])


def _is_float(opcode: str) -> bool:
    """Of PTX (`atom.global.add.f32`) and of machine code (`RED.E.ADD.F32.FTZ.RN`)."""
    return any(part[:1] == "f" and part[1:2].isdigit() for part in opcode.lower().split("."))


def _is_swapped(opcode: str) -> bool:
    """Whether shared memory lacks it: it has integers of 32 bits, exchanges and compare-and-swap."""
    name, *parts = opcode.split(".")
    wide = name in ("atom", "red") and not _WIDE.isdisjoint(parts) and _NATIVE.isdisjoint(parts)
    return wide or _is_float(opcode)


def _is_combined(opcode: str) -> bool:
    return not _is_float(opcode) and any(part in _COMBINED for part in opcode.split("."))
