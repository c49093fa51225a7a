"""What uncoalesced loads and stores have in common: recognising them, and laying their data out anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..traces import StaticTable, WarpGroup
from ..traces.rewrite import LaneAddresses, lane_addresses, with_addresses
from .limits import places_of
from .patterns import Pattern, gathers, pattern_of
from .rule import Finding
from .scene import Removal, Scene
from .staging import SHARED_BY, arrays_of, reuse_of
from .widening import WIDEST_BYTES

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
ROWS = (
    "Each thread walks along data of its own. Let a warp share them (lane i takes elements i, i + 32, …) "
    "and combine their results with __shfl_xor_sync, or stage tiles in shared memory."
)
ROWS_COST = "Rows of fewer than 32 elements leave lanes idle; combining takes shuffles."
FIELDS = (
    "Lanes step over the fields of structures. Keep each field in an array of its own, or move whole structures with "
    "wide accesses (float4, uint4)."
)
RUNS = (
    "Each lane has several accesses side by side. Let lanes take turns (element i * 32 + lane in place of "
    "lane * n + i), or turn a tile in shared memory."
)
FIELDS_COST = "Another layout changes the code that fills it."
#: A stride up to which lanes step over structures, and a thread's step up to which it walks along data of its own.
STRUCTURE_BYTES, WALK_BYTES = 128, 64
#: Sectors over the least, from which on lanes count as far apart.
APART = 3.0

#: Addresses in place of some lanes', given the bytes of an access.
Moved = Callable[[WarpGroup, LaneAddresses, int], Any]


@dataclass(frozen=True)
class Wording:
    """How a rule speaks of its accesses."""

    classes: tuple[str, ...]
    gathered_remedy: str
    #: What is in vain of the bytes of a sector; has places for how many of how many.
    vain: str


LOADS = Wording(
    classes=("load_global", "async_copy", "mem"),
    gathered_remedy=(
        "Sort or bin the indices, so that neighbouring lanes read neighbouring entries; keep a small table in "
        "shared memory."
    ),
    vain="; {} of {} bytes fetched are not used",
)
STORES = Wording(
    classes=("store_global", "atomic_global"),
    gathered_remedy=(
        "Sort or bin the targets in shared memory first, so that neighbouring lanes write neighbouring entries."
    ),
    vain="; {} of {} bytes of their sectors are not written",
)


@dataclass(frozen=True)
class Way:
    """A way out: what to do and what it costs, in place of the rule's own, and how many warps do the work of one."""

    remedy: str = ""
    cost: str = ""
    parts: int = 1


@dataclass(frozen=True, eq=False)
class Uncoalesced:
    """Accesses that touch more sectors than they need, by how their lanes lie."""

    beside: Mapping[int, Moved]
    strided: Mapping[int, Pattern]
    gathered: Mapping[int, Moved]
    others: Mapping[int, Moved]


def least_sectors(scene: Scene) -> NDArray[np.float64]:
    """Sectors that hold the bytes of one execution, laid side by side."""
    return np.maximum(np.ceil(scene.lanes * scene.static.access_bytes / SECTOR_BYTES), 1.0)


def find_uncoalesced(scene: Scene, words: Wording) -> Iterable[Finding]:
    """What the rule for loads, or for stores, has to say.

    Loads and stores that are at fault alike have one cause: the rule with more needless sectors tells of both.
    """
    mine, other = uncoalesced(scene, words.classes), STORES if words is LOADS else LOADS
    theirs = uncoalesced(scene, other.classes) if mine.strided or mine.gathered else mine
    if mine.beside:
        how = f"lanes lie side by side, but begin {common_offset(scene, mine.beside)} bytes into a sector"
        yield _finding(scene, words, "Misaligned", how, mine.beside, Way(ALIGN))
    if mine.strided:
        stride = _main_stride(scene, mine.strided)
        alike = theirs.strided if theirs.strided and _main_stride(scene, theirs.strided) == stride else {}
        if _tells(scene, words, mine.strided, alike):
            moves, how = {**mine.strided, **alike}, f"lanes are {stride} bytes apart"
            yield _finding(scene, words, "Uncoalesced", how, field_by_field(moves), _strided_way(scene, moves))
    if mine.gathered:
        rows = walks(scene, mine.gathered)
        alike_rows = theirs.gathered if rows and theirs.gathered and walks(scene, theirs.gathered) else {}
        if _tells(scene, words, mine.gathered, alike_rows):
            how, gathered = "lanes go where loaded values send them", {**mine.gathered, **alike_rows}
            what = "Gathered" if words is LOADS and not alike_rows else "Scattered"
            way = shared_rows(scene) if rows else Way(words.gathered_remedy)
            yield _finding(scene, words, what, how, gathered, way)
    if mine.others:
        yield _finding(scene, words, "Uncoalesced", "lanes go to scattered addresses", mine.others)


def uncoalesced(scene: Scene, classes: Iterable[str]) -> Uncoalesced:
    """The accesses of some classes that are; atomics that meet at few addresses have a rule of their own."""
    sectors, least, width = scene.misses.per_execution("requests"), least_sectors(scene), scene.static.access_bytes
    chosen = scene.kind(*classes) & (sectors >= np.minimum(EXCESS * least, least + MISALIGNED))
    chosen &= (scene.misses.executed > 0) & ~met_by_atomics(scene)
    patterns = {int(index): pattern_of(scene, int(index)) for index in np.flatnonzero(chosen)}
    beside = {i: aligned for i, found in patterns.items() if found.stride_bytes == width[i]}
    apart = {i: found for i, found in patterns.items() if i not in beside and sectors[i] >= EXCESS * least[i]}
    strided = {i: found for i, found in apart.items() if (found.stride_bytes or 0) > width[i]}
    scattered = [i for i in apart if i not in strided]
    gathered = {i: in_order for i in scattered if gathers(scene, i)}
    return Uncoalesced(beside, strided, gathered, {i: in_order for i in scattered if i not in gathered})


def met_by_atomics(scene: Scene) -> NDArray[np.bool_]:
    """Atomics on addresses that several threads of a block have."""
    arrays = arrays_of(scene, scene.kind("atomic_global"))
    reuse = reuse_of(scene, arrays)
    return np.isin(arrays, [array for array, times in reuse.items() if times >= SHARED_BY])


def _excess(scene: Scene, chosen: Iterable[int]) -> float:
    """Sectors beyond the least of some instructions."""
    index = list(chosen)
    sectors = scene.misses.per_execution("requests") - least_sectors(scene)
    return float((scene.misses.executed * sectors)[index].sum())


def _tells(scene: Scene, words: Wording, mine: Mapping[int, Any], alike: Mapping[int, Any]) -> bool:
    """Whether this rule tells of both; of equal ones, that of loads does."""
    own, other = _excess(scene, mine), _excess(scene, alike)
    return own > other or (own == other and words is LOADS)


def _main(scene: Scene, strided: Mapping[int, Pattern]) -> int:
    """The access with most needless sectors."""
    return max(strided, key=lambda index: _excess(scene, [index]))


def _main_stride(scene: Scene, strided: Mapping[int, Pattern]) -> int:
    return strided[_main(scene, strided)].stride_bytes or 0


def _strided_way(scene: Scene, strided: Mapping[int, Pattern]) -> Way:
    if walks(scene, strided):
        return shared_rows(scene)
    main = _main(scene, strided)
    if _main_stride(scene, strided) > STRUCTURE_BYTES:
        return Way()
    # What is as wide as can be is no field of its own.
    return Way(RUNS, FIELDS_COST) if scene.static.access_bytes[main] >= WIDEST_BYTES else Way(FIELDS, FIELDS_COST)


def shared_rows(scene: Scene) -> Way:
    """A warp for what a thread walks along: up to 32 times as many warps, where there is room for them."""
    launch = scene.workload.launch
    if launch.blocks is None or launch.threads_per_block is None or scene.has_given_residents:
        return Way(ROWS, ROWS_COST)
    parts = min(places_of(scene.gpu, launch) // int(launch.blocks), scene.loop_trips, _WARP)
    return Way(ROWS, ROWS_COST, int(2 ** np.floor(np.log2(max(parts, 1)))))


def walks(scene: Scene, chosen: Iterable[int]) -> bool:
    """Whether lanes lie far apart, and stay near where they were when they come to such an access again."""
    rows = list(chosen)
    executed, least = scene.misses.executed[rows], least_sectors(scene)[rows]
    if executed @ scene.misses.per_execution("requests")[rows] < APART * (executed @ least):
        return False
    near = total = 0
    for index in rows:
        lanes = scene.addresses(np.arange(len(scene.static)) == index)
        warp = np.searchsorted(scene.sample.start, lanes.instruction, side="right")
        again = np.zeros(len(lanes.access), dtype=bool)
        again[:-1] = (warp[1:] == warp[:-1]) & (lanes.counts[1:] == lanes.counts[:-1])
        place = np.flatnonzero(again[lanes.owner])
        step = np.diff(
            lanes.address.astype(np.int64)[np.stack((place, place + lanes.counts[lanes.owner[place]]))], axis=0
        )
        near += int(((step != 0) & (np.abs(step) <= WALK_BYTES)).sum())
        total += step.size
    return 2 * near > total


def _named(scene: Scene, chosen: Iterable[int]) -> str:
    """`loads`, `stores and atomics`: what some instructions are."""
    kinds = {name.partition("_")[0] for name in scene.classes[list(chosen)].tolist()}
    names = {"load": "loads", "async": "loads", "mem": "loads", "store": "stores", "atomic": "atomics"}
    return " and ".join(dict.fromkeys(names[kind] for kind in names if kind in kinds))


def _finding(
    scene: Scene, words: Wording, what: str, how: str, moves: Mapping[int, Moved], way: Way | None = None
) -> Finding:
    """The finding of some instructions, with how their lanes move without the cause."""
    executed = scene.misses.executed * np.isin(np.arange(len(scene.static)), list(moves))
    sectors, least = scene.misses.per_execution("requests"), least_sectors(scene)

    def mean(values: Any) -> float:
        return float(executed @ values / executed.sum())

    used = mean(scene.lanes * scene.static.access_bytes)
    moved = mean(scene.misses.misses_per_execution) * SECTOR_BYTES
    named, way = _named(scene, moves), way or Way()
    more = f"; {way.parts} times as many warps would share the work" if way.parts > 1 else ""
    vain = words.vain.format(f"{moved - used:.0f}", f"{moved:.0f}") if moved > WASTED * used else ""
    return Finding(
        text=(
            f"{what} {named}: {mean(sectors):.1f} sectors per request where {mean(least):.1f} would do; {how}"
            f"{vain if named in ('loads', 'stores') else ''}{more}."
        ),
        removal=_rewrite(moves, way.parts),
        weights=executed * np.maximum(sectors - least, 0.0),
        remedy=way.remedy,
        cost=way.cost,
    )


def _rewrite(moves: Mapping[int, Moved], parts: int = 1) -> Removal:
    """The removal that puts lanes of some instructions elsewhere, and deals out the loops of a block to several."""

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        for index, moved in moves.items():
            lanes = lane_addresses(group, static, np.arange(len(static)) == index)
            if len(lanes.address):
                address = np.where(lanes.address == 0, 0, moved(group, lanes, int(static.access_bytes[index])))
                group = with_addresses(group, static, lanes.moved(address.astype(np.uint64)))
        return group

    if parts == 1:
        return lambda scene: scene.with_addresses(change)
    return lambda scene: scene.with_addresses(change).with_more_blocks(parts, of_warps=False)


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
