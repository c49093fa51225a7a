"""What uncoalesced loads and stores have in common: recognising them, and laying their data out anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..traces import StaticTable, WarpGroup
from ..traces.rewrite import LaneAddresses, lane_addresses, with_addresses
from .patterns import Pattern, gathers, pattern_of
from .rule import Finding
from .scene import Removal, Scene

SECTOR_BYTES = 32
#: Sectors of a request over the least that its bytes need, from which on it counts as uncoalesced.
EXCESS = 1.5
#: Sectors beyond the least, on average, from which on an access whose lanes lie side by side counts as misaligned.
MISALIGNED = 0.5
#: Bytes moved over those used, from which on the difference is worth telling.
WASTED = 1.1
#: Data that are laid out anew lie where no array does.
_ELSEWHERE, _APART = 1 << 50, 1 << 44
_WARP = 32

ALIGN = "Align rows and arrays to 128 bytes (cudaMallocPitch, padding), or let warps begin on such a boundary."

#: Addresses in place of some lanes', given the bytes of an access.
Moved = Callable[[WarpGroup, LaneAddresses, int], Any]


@dataclass(frozen=True)
class Wording:
    """How a rule speaks of its accesses."""

    plural: str
    gathered: str
    gathered_remedy: str
    #: What is in vain of the bytes of a sector; has places for how many of how many.
    vain: str


def least_sectors(scene: Scene) -> NDArray[np.float64]:
    """Sectors that hold the bytes of one execution, laid side by side."""
    return np.maximum(np.ceil(scene.lanes * scene.static.access_bytes / SECTOR_BYTES), 1.0)


def find_uncoalesced(scene: Scene, words: Wording, *classes: str) -> Iterable[Finding]:
    """Accesses of some classes that touch more sectors than they need, by how their lanes lie."""
    sectors, least = scene.misses.per_execution("requests"), least_sectors(scene)
    width, excess = scene.static.access_bytes, scene.misses.executed * (sectors - least)
    chosen = scene.kind(*classes) & (sectors >= np.minimum(EXCESS * least, least + MISALIGNED))
    chosen &= scene.misses.executed > 0
    patterns = {int(index): pattern_of(scene, int(index)) for index in np.flatnonzero(chosen)}
    beside = {i: aligned for i, found in patterns.items() if found.stride_bytes == width[i]}
    apart = {i: found for i, found in patterns.items() if i not in beside and sectors[i] >= EXCESS * least[i]}
    strided = {i: found for i, found in apart.items() if (found.stride_bytes or 0) > width[i]}
    scattered = [i for i in apart if i not in strided]
    gathered = {i: in_order for i in scattered if gathers(scene, i)}
    others = {i: in_order for i in scattered if i not in gathered}
    if beside:
        how = f"lanes lie side by side, but begin {common_offset(scene, beside)} bytes into a sector"
        yield _finding(scene, words, f"Misaligned {words.plural}", how, beside, ALIGN)
    if strided:
        stride = strided[max(strided, key=lambda index: float(excess[index]))].stride_bytes
        how = f"lanes are {stride} bytes apart"
        yield _finding(scene, words, f"Uncoalesced {words.plural}", how, field_by_field(strided))
    if gathered:
        how = "lanes go where loaded values send them"
        yield _finding(scene, words, words.gathered, how, gathered, words.gathered_remedy)
    if others:
        yield _finding(scene, words, f"Uncoalesced {words.plural}", "lanes go to scattered addresses", others)


def _finding(
    scene: Scene, words: Wording, what: str, how: str, moves: Mapping[int, Moved], remedy: str = ""
) -> Finding:
    """The finding of some instructions, with how their lanes move without the cause."""
    executed = scene.misses.executed * np.isin(np.arange(len(scene.static)), list(moves))
    sectors, least = scene.misses.per_execution("requests"), least_sectors(scene)

    def mean(values: Any) -> float:
        return float(executed @ values / executed.sum())

    used = mean(scene.lanes * scene.static.access_bytes)
    moved = mean(scene.misses.misses_per_execution) * SECTOR_BYTES
    vain = words.vain.format(f"{moved - used:.0f}", f"{moved:.0f}") if moved > WASTED * used else ""
    return Finding(
        text=f"{what}: {mean(sectors):.1f} sectors per request where {mean(least):.1f} would do; {how}{vain}.",
        removal=_rewrite(moves),
        weights=executed * np.maximum(sectors - least, 0.0),
        remedy=remedy,
    )


def _rewrite(moves: Mapping[int, Moved]) -> Removal:
    """The removal that puts the lanes of some instructions elsewhere."""

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        for index, moved in moves.items():
            lanes = lane_addresses(group, static, np.arange(len(static)) == index)
            if len(lanes.address):
                address = np.where(lanes.address == 0, 0, moved(group, lanes, int(static.access_bytes[index])))
                group = with_addresses(group, static, lanes.moved(address.astype(np.uint64)))
        return group

    return lambda scene: scene.with_addresses(change)


def common_offset(scene: Scene, chosen: Iterable[int]) -> int:
    """Bytes from a sector's begin to the first lane, as most accesses that do not begin with a sector have it."""
    lanes = scene.addresses(np.isin(np.arange(len(scene.static)), list(chosen)))
    first = lanes.address[lanes.start[:-1][lanes.counts > 0]] % SECTOR_BYTES
    return int(np.argmax(np.bincount(first[first > 0].astype(np.int64), minlength=1)))


def aligned(group: WarpGroup, lanes: LaneAddresses, width: int) -> NDArray[np.uint64]:
    """Every access begins with a sector."""
    some = lanes.counts > 0
    first = np.repeat(lanes.address[lanes.start[:-1][some]], lanes.counts[some])
    return lanes.address - first % np.uint64(SECTOR_BYTES)


def in_order(group: WarpGroup, lanes: LaneAddresses, width: int) -> NDArray[np.uint64]:
    """The addresses of each thread block in ascending order: its lanes share the work in another order."""
    warp = np.searchsorted(group.access_start, lanes.access, side="right") - 1
    block = group.block[warp][lanes.owner]
    return lanes.address[np.lexsort((lanes.address, block))]  # accesses of a block lie side by side


@dataclass(frozen=True)
class Array:
    """Rows of `stride_bytes` each. Field by field they are a structure of arrays, or the transposed matrix."""

    stride_bytes: int
    low: int
    high: int
    number: int = 0

    def moved(self, group: WarpGroup, lanes: LaneAddresses, width: int) -> NDArray[np.int64]:
        # Sampled blocks do not show the first and the last rows: there is room for as many again.
        seen = -(-((self.high - self.low) // self.stride_bytes + 1) // _WARP) * _WARP
        first, rows = self.low // self.stride_bytes - seen, 4 * seen
        row, offset = np.divmod(lanes.address.astype(np.int64), self.stride_bytes)
        field, within = np.divmod(offset, width)
        place: NDArray[np.int64] = (field * rows + row - first) * width + within
        return place + _ELSEWHERE + self.number * _APART


def field_by_field(patterns: Mapping[int, Pattern]) -> dict[int, Moved]:
    """Data at a stride, field by field; what several instructions access of one array stays together."""
    found: dict[int, Moved] = {}
    of_array: list[int] = []
    array: Array | None = None
    for index, each in sorted(patterns.items(), key=lambda item: (item[1].stride_bytes, item[1].low)):
        stride = each.stride_bytes or 1
        if array is None or array.stride_bytes != stride or each.low > array.high + stride:
            array, of_array = Array(stride, each.low, each.high, len(found)), []
        array = replace(array, high=max(array.high, each.high))
        of_array.append(index)
        found |= dict.fromkeys(of_array, array.moved)
    return found
