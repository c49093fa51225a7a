"""Instruction mix, coalescing and barriers of a kernel straight from its PTX, without running it.

After Hong & Kim (§3.4.3, §3.4.5): it counts PTX instructions block by block, takes
trip counts that the launch does not determine from the user, and treats addresses
as functions of the thread's indices.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import PtxError, WorkloadError
from .flat import BasicBlock, FlatInstruction, FlatKernel
from .flatten import flatten
from .flow import Flow
from .opcodes import instruction_class, memory_use
from .program import PtxModule
from .record import source_line
from .registers import allocate_registers
from .static_accesses import Access, AccessCount, look_at
from .static_counts import MOST_WARPS, Counter
from .static_loops import LoopNest, NaturalLoop, loop_nest
from .static_points import DIFFERS, WARP_LANES, Integers, Points, Value
from .static_values import analyse

#: Addresses for pointers with unknown values: far apart, and aligned like cudaMalloc's.
_FIRST_POINTER, _POINTER_STEP = 1 << 44, 1 << 40


@dataclass(frozen=True)
class Buffer:
    """An array that an argument points to; `nbytes` is 0 if its size is unknown."""

    nbytes: int = 0


@dataclass(frozen=True)
class LoopCount:
    """A loop: iterations of a warp each time it enters the loop, and their origin."""

    number: int
    source_line: int
    ptx_line: int
    depth: int
    trips: float
    origin: str
    """`derived` from the launch, `given`, or `never entered`."""
    entries: float
    at_most: bool = False
    """Whether it has an early exit, so that there may be fewer trips."""


@dataclass(frozen=True)
class BlockCount:
    """A basic block: its executions, and its instructions as (class, positions in the block that it waits for)."""

    executions: float
    instructions: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class GuessedBranch:
    """An undecided branch and its weight."""

    source_line: int
    ptx_line: int
    weight: float


@dataclass(frozen=True, eq=False)
class StaticMix:
    """What one warp executes, on average over the launch."""

    kernel: str
    warps: int
    """Sampled warps of the launch."""
    counts: Mapping[str, float]
    """Warp instructions per instruction class."""
    accesses: tuple[AccessCount, ...]
    loops: tuple[LoopCount, ...]
    branches: tuple[GuessedBranch, ...]
    blocks: tuple[BlockCount, ...]
    estimated_registers: int
    shared_memory_bytes: int

    @property
    def total(self) -> float:
        return sum(self.counts.values())

    @property
    def barriers(self) -> float:
        return sum(self.counts.get(name, 0.0) for name in ("barrier", "barrier_cluster"))

    @property
    def lines_per_access(self) -> float | None:
        """128-byte lines per execution of a global or local access."""
        executions = sum(each.executions for each in self.accesses)
        return sum(each.lines * each.executions for each in self.accesses) / executions if executions else None


def static_mix(
    module: PtxModule,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Any] = (),
    *,
    trip_counts: Mapping[Any, float] | None = None,
    branch_weight: float = 1.0,
) -> StaticMix:
    """Count a kernel's instructions without running it.

    `arguments` are as for a launch: numbers are used, arrays (or `Buffer`s) count
    as pointers, None is an unknown number. `trip_counts` gives iterations by the source
    line of a loop (`12` or `"12"`) or by its number (`"#1"`).
    """
    if not 0.0 <= branch_weight <= 1.0:
        raise WorkloadError(f"branch_weight {branch_weight!r}: must be from 0 to 1")
    kernel = flatten(module, entry)
    flow, nest = Flow(kernel), loop_nest(kernel)
    x, y, z = (*(int(each) for each in grid), 1, 1)[:3]
    a, b, c = (*(int(each) for each in block), 1, 1)[:3]
    given = _given(kernel, nest, trip_counts or {})
    found: dict[int, Access] = {}
    parameters = _parameters(kernel, arguments)
    values = zip(kernel.parameter_offsets.values(), arguments, strict=False)
    sizes = {
        parameters[offset]: int(value.nbytes)
        for offset, value in values
        if isinstance(value, Buffer) or np.ndim(value) > 0
    }
    counter = Counter(
        kernel,
        flow,
        nest,
        analyse(kernel, flow, nest, parameters),
        sample_warps((x, y, z), (a, b, c)),
        given,
        branch_weight,
        lambda *seen: look_at(counter, found, sizes, *seen),
    )
    counts = counter.run()
    if counter.missing:
        raise _missing(kernel, counter.missing)
    tally: defaultdict[str, float] = defaultdict(float)
    for each in kernel.blocks:
        for item in each.instructions:
            tally[instruction_class(item.instruction)] += counts.executions[each.number]
    guessed = {number: level for number, level in counts.guessed if counts.executions[number] > 0}
    return StaticMix(
        kernel=kernel.name,
        warps=len(counter.root),
        counts={name: count for name, count in tally.items() if count > 0},
        accesses=tuple(found[index].result() for index in sorted(found)),
        loops=tuple(_loop_count(kernel, counter, loop) for loop in nest.loops if loop in counts.loops),
        branches=tuple(
            GuessedBranch(
                source_line(kernel, kernel.blocks[number].instructions[-1]),
                kernel.blocks[number].instructions[-1].instruction.line,
                branch_weight if level == DIFFERS else 0.5,
            )
            for number, level in sorted(guessed.items())
        ),
        blocks=tuple(_block_count(each, counts.executions[each.number]) for each in kernel.blocks),
        estimated_registers=allocate_registers(kernel, flow).registers_per_thread,
        shared_memory_bytes=kernel.shared_bytes,
    )


# -- the launch -----------------------------------------------------------------------------


def sample_warps(grid: tuple[int, int, int], block: tuple[int, int, int]) -> Points:
    """Warps of a launch with their threads' indices: all, or an even selection."""
    threads = math.prod(block)
    per_block = -(-threads // WARP_LANES)
    total = math.prod(grid) * per_block
    if total <= MOST_WARPS:
        chosen = np.arange(total, dtype=np.int64)
    else:  # one from each of equal parts, at positions that do not resonate with rows of blocks
        part = np.arange(MOST_WARPS)
        chosen = np.floor((part + (part * 0.6180339887498949) % 1.0) * (total / MOST_WARPS)).astype(np.int64)
    number, warp = chosen // per_block, chosen % per_block
    thread = warp[:, None] * WARP_LANES + np.arange(WARP_LANES)
    active = thread < threads
    thread = np.where(active, thread, thread[:, :1])
    lanes = {
        "%tid.x": thread % block[0],
        "%tid.y": thread // block[0] % block[1],
        "%tid.z": thread // (block[0] * block[1]),
        "%laneid": np.broadcast_to(np.arange(WARP_LANES), thread.shape),
        "%warpid": warp[:, None],
        "%ctaid.x": (number % grid[0])[:, None],
        "%ctaid.y": (number // grid[0] % grid[1])[:, None],
        "%ctaid.z": (number // (grid[0] * grid[1]))[:, None],
        "%active": active.astype(np.int64),
    }
    for axis, extent, blocks in zip("xyz", block, grid, strict=True):
        lanes[f"%ntid.{axis}"] = np.array([[extent]])
        lanes[f"%nctaid.{axis}"] = np.array([[blocks]])
    special = {name: Value(_narrow(np.asarray(array, dtype=np.int64))) for name, array in lanes.items()}
    rows = np.arange(len(chosen))
    return Points(None, None, rows, np.zeros_like(rows), np.full(len(rows), 1.0 / len(rows)), special)


def _narrow(array: Integers) -> Integers:
    return array[:, :1] if array.shape[1] > 1 and bool((array == array[:, :1]).all()) else array


def _parameters(kernel: FlatKernel, arguments: Sequence[Any]) -> dict[int, int]:
    """Whole numbers and pointers by their offset in the parameter buffer."""
    offsets = list(kernel.parameter_offsets.values())
    if len(arguments) > len(offsets):
        raise WorkloadError(f"{kernel.name} takes {len(offsets)} arguments, not {len(arguments)}")
    found = {}
    for position, (offset, argument) in enumerate(zip(offsets, arguments, strict=False)):
        if argument is None:
            continue
        array = np.asarray(argument)
        if isinstance(argument, Buffer) or array.ndim:
            found[offset] = _FIRST_POINTER + position * _POINTER_STEP
        elif array.dtype.kind in "iub":
            found[offset] = int(array)
    return found


# -- loops ----------------------------------------------------------------------------------


def _loop_line(kernel: FlatKernel, loop: NaturalLoop) -> FlatInstruction:
    """The back edge's instruction, whose line is the loop's. A block may be empty, but not a whole loop."""
    places = [*sorted(loop.latches, reverse=True), loop.head, *sorted(loop.blocks)]
    return next(kernel.blocks[each].instructions[-1] for each in places if kernel.blocks[each].instructions)


def _given(kernel: FlatKernel, nest: LoopNest, trip_counts: Mapping[Any, float]) -> dict[NaturalLoop, float]:
    """Iterations of the loops that keys name. A loop that the compiler unrolled shares them with its remainder."""
    found: dict[NaturalLoop, float] = {}
    for key, trips in trip_counts.items():
        text = str(key).strip()
        if not isinstance(trips, int | float) or isinstance(trips, bool) or not 0 <= trips < 1e15:
            raise WorkloadError(f"trip count {trips!r} of loop {text}: must be a number of at least 0")
        digits = text.removeprefix("#")
        known = ", ".join(_describe(kernel, loop) for loop in nest.loops) or "none"
        if not digits.isdecimal():
            raise WorkloadError(f'trip count of {text!r}: name a loop by its source line ("12") or number ("#1")')
        chosen = [
            loop
            for loop in nest.loops
            if (loop.number if text.startswith("#") else source_line(kernel, _loop_line(kernel, loop))) == int(digits)
        ]
        if not chosen:
            raise WorkloadError(f"trip count of loop {text}: {kernel.name} has no such loop; it has {known}")
        if text.startswith("#"):
            found[chosen[0]] = float(trips)
        else:
            found |= {loop: each for loop, each in _shared(kernel, chosen, float(trips)).items() if loop not in found}
    return found


def _shared(kernel: FlatKernel, loops: list[NaturalLoop], trips: float) -> dict[NaturalLoop, float]:
    """Trips of a source loop that the compiler may split: one with u copies of the body, and a remainder."""
    pairs = [(a, b) for a in loops for b in loops if a.parent is b.parent and _copies(kernel, a, b) >= 2]
    found = dict.fromkeys(loops, trips)
    for whole, rest in pairs:
        copies = _copies(kernel, whole, rest)
        if trips == int(trips):
            found[whole], found[rest] = trips // copies, trips % copies
        else:  # on average: every remainder below u is equally likely
            found[rest] = min((copies - 1) / 2, trips)
            found[whole] = max(trips - found[rest], 0.0) / copies
    return found


def _copies(kernel: FlatKernel, whole: NaturalLoop, rest: NaturalLoop) -> int:
    """Copies of the remainder's body in the unrolled loop, by memory accesses (or else all instructions)."""

    def size(loop: NaturalLoop) -> int:
        items = [item.instruction for number in loop.blocks for item in kernel.blocks[number].instructions]
        return sum(memory_use(item) is not None for item in items) or sum(item.opcode == "fma" for item in items)

    return round(size(whole) / size(rest)) if size(rest) else 0


def _describe(kernel: FlatKernel, loop: NaturalLoop) -> str:
    item = _loop_line(kernel, loop)
    return f"#{loop.number} at source line {source_line(kernel, item)} (PTX line {item.instruction.line})"


def _missing(kernel: FlatKernel, loops: list[NaturalLoop]) -> PtxError:
    lines = sorted({source_line(kernel, _loop_line(kernel, loop)) for loop in loops})
    listed = "; ".join(_describe(kernel, loop) for loop in loops)
    example = ", ".join(f'"{line}" = 100' for line in lines)
    return PtxError(
        f"{kernel.module.name}: {kernel.name}: the launch and its arguments do not tell how often these loops run: "
        f"{listed}. Give the iterations of a warp: [static] trip_counts = {{ {example} }} by source line, "
        'or "#1" = 100 by number'
    )


def _loop_count(kernel: FlatKernel, counter: Counter, loop: NaturalLoop) -> LoopCount:
    entries, trips = counter.counts.loops[loop]
    item = _loop_line(kernel, loop)
    depth, outer = 1, loop.parent
    while outer is not None:
        depth, outer = depth + 1, outer.parent
    passes = counter.counts.executions[loop.head] / entries if entries else 0.0
    if trips is not None and trips.main_exit[0] == loop.head and loop.head not in loop.latches:
        passes = max(passes - 1.0, 0.0)  # the head runs once more than the body
    origin = "never entered" if trips is None else trips.origin
    return LoopCount(
        loop.number,
        source_line(kernel, item),
        item.instruction.line,
        depth,
        passes,
        origin,
        entries,
        trips is not None and trips.at_most,
    )


def _block_count(block: BasicBlock, executions: float) -> BlockCount:
    written: dict[str, int] = {}
    found = []
    for position, item in enumerate(block.instructions):
        depends = tuple(sorted({written[name] for name in item.sources if name in written}))
        found.append((instruction_class(item.instruction), depends))
        written |= dict.fromkeys(item.destinations, position)
    return BlockCount(executions, tuple(found))
