"""Coalescing of a warp's global accesses, from the known addresses of its lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .flat import BasicBlock, FlatInstruction
from .opcodes import instruction_class, memory_use
from .record import source_line
from .static_counts import Counter, instruction_guard
from .static_points import DIFFERS, WARP_LANES, Points, Truths, Value, as_value
from .static_values import Merge, Node

LINE_BYTES, SECTOR_BYTES = 128, 32


@dataclass(frozen=True)
class AccessCount:
    """One load, store or atomic of global or local memory."""

    ptx_line: int
    source_line: int
    opcode: str
    instruction_class: str
    access_bytes: int
    pattern: str
    """uniform (one address), coalesced, strided, pattern (known, but not evenly spaced) or irregular (not known)."""
    stride_bytes: int | None
    lines: float
    """128-byte lines that a warp touches, on average over its executions."""
    sectors: float
    uncoalesced: float
    """Share of the executions that touch more than one line."""
    executions: float


@dataclass(eq=False)
class Access:
    item: FlatInstruction
    line: int
    name: str
    access_bytes: int
    executions: float
    weight: float
    lines: float
    sectors: float
    uncoalesced: float
    pattern: str
    stride: int | None

    def result(self) -> AccessCount:
        weight = self.weight or 1.0
        return AccessCount(
            self.item.instruction.line,
            self.line,
            self.item.instruction.name,
            self.name,
            self.access_bytes,
            self.pattern,
            self.stride,
            self.lines / weight,
            self.sectors / weight,
            self.uncoalesced / weight,
            self.executions,
        )


def look_at(
    counter: Counter,
    found: dict[int, Access],
    sizes: Mapping[int, int],
    block: BasicBlock,
    points: Points,
    mask: Truths,
    weight: NDArray[np.float64],
) -> None:
    """Count the accesses of a block that lanes reach."""
    for item in block.instructions:
        use = memory_use(item.instruction)
        if use is None or use.space not in ("global", "generic", "local"):
            continue
        name = instruction_class(item.instruction)
        guard = instruction_guard(counter, item, points)
        active = mask if guard is None else mask & guard
        address = counter.symbolic.addresses[item.index]
        value = as_value(counter.evaluate(address, points))
        within = _buffer_bytes(address, sizes) if value.level == DIFFERS else 0
        if use.space == "local":  # interleaved by thread: neighbouring lanes are adjacent
            value = Value(np.arange(WARP_LANES, dtype=np.int64)[None] * use.access_bytes)
        lines, sectors = (
            _touched(value, active, use.access_bytes, size, within) for size in (LINE_BYTES, SECTOR_BYTES)
        )
        share = np.where(active.any(axis=1), weight, 0.0)
        stride = _stride(value, active)
        found[item.index] = Access(
            item,
            source_line(counter.kernel, item),
            name,
            use.access_bytes,
            float(weight.sum()),
            float(share.sum()),
            float(share @ lines),
            float(share @ sectors),
            float(share @ (lines > 1)),
            _pattern(value, stride, use.access_bytes),
            stride,
        )


def _touched(value: Value, active: Truths, access_bytes: int, size: int, within: int) -> NDArray[np.float64]:
    """Number of `size`-byte pieces that the active lanes of each point touch.

    An unknown address may be anywhere in the array: about one piece per lane, fewer
    if the array has few.
    """
    if value.level == DIFFERS:
        lanes = active.sum(axis=1).astype(np.float64)
        there = -(-within // size)
        if there > 1:
            return np.asarray(there * -np.expm1(lanes * np.log1p(-1.0 / there)))
        return np.minimum(lanes, 1.0) if there else lanes
    addresses = np.broadcast_to(value.array, active.shape)
    per_lane = -(-access_bytes // size)
    pieces = (addresses[:, :, None] // size + np.arange(per_lane)).reshape(len(active), -1)
    on = np.repeat(active, per_lane, axis=1)
    pieces = np.sort(np.where(on, pieces, np.iinfo(np.int64).max), axis=1)
    fresh = np.ones_like(pieces, dtype=bool)
    fresh[:, 1:] = pieces[:, 1:] != pieces[:, :-1]
    counted: NDArray[np.float64] = (fresh & (pieces != np.iinfo(np.int64).max)).sum(axis=1).astype(np.float64)
    return counted


def _stride(value: Value, active: Truths) -> int | None:
    """Stride in bytes, if it is the same between all active neighbours."""
    if value.level == DIFFERS:
        return None
    addresses = np.broadcast_to(value.array, active.shape)
    steps = np.diff(addresses, axis=1)[active[:, 1:] & active[:, :-1]]
    if steps.size == 0:
        return 0
    return int(steps[0]) if bool((steps == steps[0]).all()) else None


def _pattern(value: Value, stride: int | None, access_bytes: int) -> str:
    if value.level == DIFFERS:
        return "irregular"
    if stride is None:
        return "pattern"
    if stride == 0:
        return "uniform"
    return "coalesced" if abs(stride) <= access_bytes else "strided"


def _buffer_bytes(address: Node, sizes: Mapping[int, int]) -> int:
    """Bytes of the array that an address lies in; 0 if unknown."""
    waiting = [address]
    while waiting:
        node = waiting.pop()
        if node.operation == "const" and node.detail in sizes:
            return sizes[node.detail]
        if isinstance(node, Merge) and node.first is not None:
            waiting.append(node.first)
        elif node.operation in ("add", "mad", "sub"):
            waiting += node.arguments[-1:] if node.operation == "mad" else node.arguments
    return 0
