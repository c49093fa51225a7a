"""What uncoalesced loads and stores have in common: recognising them, and laying their data out anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..traces import StaticTable, WarpGroup
from ..traces.rewrite import LaneAddresses, lane_addresses, with_addresses
from .rule import Finding
from .scene import Scene

SECTOR_BYTES = 32
LINE_BYTES = 128
#: Sectors of a request over the least that its bytes need, from which on it counts as uncoalesced.
EXCESS = 1.5
#: Part of the steps from lane to lane that must agree for an access to count as strided.
REGULAR = 0.5


def least_sectors(scene: Scene) -> NDArray[np.float64]:
    """Sectors that hold the bytes of one execution, laid side by side."""
    return np.maximum(np.ceil(scene.lanes * scene.static.access_bytes / SECTOR_BYTES), 1.0)


def find_uncoalesced(scene: Scene, what: str, *classes: str) -> Iterable[Finding]:
    """Accesses of some classes that touch more sectors than they need."""
    sectors, least = scene.misses.per_execution("requests"), least_sectors(scene)
    chosen = scene.kind(*classes) & (scene.misses.executed > 0) & (sectors >= EXCESS * least)
    if not chosen.any():
        return
    executed = scene.misses.executed * chosen
    asked, needed = float(executed @ sectors), float(executed @ least)
    ratio = asked / executed.sum()
    layouts = {int(index): layout_of(scene, int(index)) for index in np.flatnonzero(chosen)}
    strides = sorted({layout.stride_bytes for layout in layouts.values() if layout is not None})
    how = f"lanes are {strides[-1]} bytes apart" if strides else "lanes go to scattered addresses"
    unused = 100.0 * (1.0 - needed / asked)

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        for index, layout in layouts.items():
            mine = np.zeros(len(static), dtype=bool)
            mine[index] = True
            lanes = lane_addresses(group, static, mine)
            if len(lanes.access):
                width = int(static.access_bytes[index])
                moved = in_order(group, lanes) if layout is None else layout.moved(lanes.address, width)
                group = with_addresses(group, static, lanes.moved(moved))
        return group

    yield Finding(
        text=(
            f"Uncoalesced {what}: {ratio:.1f} sectors per request, where {needed / executed.sum():.1f} would do; "
            f"{how}, and {unused:.0f} % of the bytes moved are not used."
        ),
        removal=lambda seen: seen.with_trace(change),
        weights=executed * (sectors - least),
    )


@dataclass(frozen=True)
class Strided:
    """Data at a constant stride, to be stored field by field: what lanes access together then lies together."""

    stride_bytes: int
    first: int
    field_bytes: int

    def moved(self, address: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
        """Where each address lies in the new layout: a structure of arrays, or the transposed matrix."""
        index, offset = np.divmod(address.astype(np.int64), self.stride_bytes)
        field, within = np.divmod(offset, width)
        place = field * self.field_bytes + (index - self.first) * width + within
        base = self.first * self.stride_bytes // LINE_BYTES * LINE_BYTES
        return np.where(address == 0, 0, base + place).astype(np.uint64)


def layout_of(scene: Scene, index: int) -> Strided | None:
    """The stride of an instruction's lanes, where most have the same; None: they are scattered."""
    lanes = scene.addresses(np.arange(len(scene.static)) == index)
    steps = np.diff(lanes.address.astype(np.int64))
    steps = np.abs(steps[lanes.owner[1:] == lanes.owner[:-1]])
    steps = steps[steps > 0]
    if not len(steps):
        return None
    values, counts = np.unique(steps, return_counts=True)
    stride = int(values[np.argmax(counts)])
    width = int(scene.static.access_bytes[index])
    if counts.max() < REGULAR * len(steps) or stride <= width:
        return None
    rows = lanes.address[lanes.address > 0].astype(np.int64) // stride
    size = (int(rows.max() - rows.min()) + 1) * width
    return Strided(stride, int(rows.min()), -(-size // LINE_BYTES) * LINE_BYTES)


def in_order(group: WarpGroup, lanes: LaneAddresses) -> NDArray[np.uint64]:
    """The addresses of each thread block in ascending order: its lanes share the work in another order."""
    warp = np.searchsorted(group.access_start, lanes.access, side="right") - 1
    block = group.block[warp][lanes.owner]
    order = np.lexsort((lanes.address, block))
    return lanes.address[order]  # accesses of a block lie side by side
