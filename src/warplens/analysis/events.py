"""Memory accesses and barriers of a trace, coalesced to cache lines: what the cache simulation runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MachineError
from ..traces import CLASS_IDS, CLASS_NAMES, LaunchTrace, StaticTable, WarpGroup
from ._cache_records import ATOMIC, BARRIER, GRANULES, LOAD, NOTHING, STORE

#: Where the control bits of machine code say how many cycles a warp waits before its next instruction.
STALL = 15
#: Among the latencies by class: the time after a branch, what it adds if it is taken, and a comparison's for a guard.
BRANCH, TAKEN, GUARD = "branch", "taken", "guard"
#: Blocks are simulated in chunks of this size; caches keep their contents between chunks.
CHUNK_BYTES = 256 * 2**20


@dataclass(frozen=True, eq=False)
class Events:
    """Events of some thread blocks, as flat columns (see `_coalesce_kernels.collect`)."""

    block_start: NDArray[np.int64]
    event_start: NDArray[np.int64]
    event_static: NDArray[np.uint32]
    event_instructions: NDArray[np.int32]
    event_gap: NDArray[np.float32]
    event_dependence: NDArray[np.int64]
    event_tail: NDArray[np.float32]
    line_start: NDArray[np.int64]
    line_id: NDArray[np.int64]
    line_words: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, item.name).nbytes for item in fields(self))


def instruction_kinds(static: StaticTable) -> NDArray[np.uint8]:
    """What each static instruction does to memory."""
    by_class = {
        "load_global": LOAD,
        "load_local": LOAD,
        "async_copy": LOAD,
        "mem": LOAD,
        "store_global": STORE,
        "store_local": STORE,
        "atomic_global": ATOMIC,
        "barrier": BARRIER,
    }
    kinds = np.array([by_class.get(name, NOTHING) for name in CLASS_NAMES], dtype=np.uint8)[static.class_id]
    touches_memory = np.isin(kinds, (LOAD, STORE, ATOMIC))
    kinds[touches_memory & (static.access_bytes == 0)] = NOTHING
    return kinds


class IssueTiming(NamedTuple):
    """When a warp issues, as if memory took no time."""

    #: Of each static instruction: cycles until its result is there, and until the warp issues its next one.
    latencies: NDArray[np.float64]
    issue_cycles: NDArray[np.float64]
    #: Further cycles if the next one is not the one behind it: those of a branch that is taken.
    taken_cycles: NDArray[np.float64]


def timing_of(trace: LaunchTrace, latency_of_class: Callable[[str], float]) -> IssueTiming:
    """The timing of a trace. Machine code has stall counts; PTX has branches and comparisons of a given time."""
    static = trace.static
    latencies = compute_latencies(static, latency_of_class)
    control = trace.header.extra.get("sass_control")
    if control is not None:
        issue = np.ones(len(static))
        stalls = np.asarray(control, dtype=np.int64)[: len(static)] & STALL
        issue[: len(stalls)] = np.maximum(stalls, 1)
    else:
        names = np.array([opcode.partition(".")[0] for opcode in static.opcode])
        issue = np.where(names == "bra", max(latency_of_class(BRANCH), 1.0), 1.0)
        latencies = np.where(names == "setp", np.maximum(latencies, latency_of_class(GUARD)), latencies)
    branches = static.class_id == CLASS_IDS["control"]
    return IssueTiming(latencies, issue, np.where(branches, latency_of_class(TAKEN), 0.0))


def compute_latencies(static: StaticTable, latency_of_class: Callable[[str], float]) -> NDArray[np.float64]:
    """Latency of every static instruction by its class."""
    used = {index: latency_of_class(CLASS_NAMES[index]) for index in np.unique(static.class_id)}
    return np.array([used[index] for index in static.class_id], dtype=np.float64)


def collect_events(trace: LaunchTrace, line_bytes: int, latency_of_class: Callable[[str], float]) -> Iterator[Events]:
    """The events of a launch in chunks of whole thread blocks."""
    if line_bytes < GRANULES or line_bytes & (line_bytes - 1):
        raise MachineError(f"l1.line_bytes: {line_bytes}: coalescing needs a power of two of at least {GRANULES}")
    static = trace.static
    kinds = instruction_kinds(static)
    timing = timing_of(trace, latency_of_class)
    held: list[Events] = []
    size = 0
    for group in trace.groups():
        if not len(group):
            continue
        events = collect_events_of(group, static, kinds, timing, line_bytes)
        held.append(events)
        size += events.nbytes
        if size > CHUNK_BYTES:
            yield _join(held)
            held, size = [], 0
    if held:
        yield _join(held)


def collect_events_of(
    group: WarpGroup, static: StaticTable, kinds: NDArray[np.uint8], timing: IssueTiming, line_bytes: int
) -> Events:
    """The events of one group; `kinds` and `timing` are those of the static instructions."""
    from . import _coalesce_kernels as kernels

    count, most_lines = kernels.count_events(
        group.start, group.static, kinds, static.access_bytes, group.mask, line_bytes
    )
    warps = len(group)
    columns = kernels.EventColumns(
        event_start=np.empty(warps + 1, dtype=np.int64),
        event_static=np.empty(count, dtype=np.uint32),
        event_instructions=np.empty(count, dtype=np.int32),
        event_gap=np.empty(count, dtype=np.float32),
        event_dependence=np.empty(count, dtype=np.int64),
        event_tail=np.empty(count, dtype=np.float32),
        line_start=np.empty(count + 1, dtype=np.int64),
        line_id=np.empty(most_lines, dtype=np.int64),
        line_words=np.empty(most_lines, dtype=np.uint32),
    )
    used = kernels.collect(
        kernels.Group(*(getattr(group, name) for name in kernels.Group._fields)),
        kernels.Instructions(
            kinds,
            static.access_bytes,
            *timing,
            static.destinations,
            static.destination_offsets,
            static.sources,
            static.source_offsets,
        ),
        line_bytes,
        np.zeros(kernels.NO_REGISTER, kernels.REGISTER),
        columns,
    )
    new_block = np.flatnonzero(np.diff(group.block)) + 1
    filled = columns._replace(line_id=columns.line_id[:used].copy(), line_words=columns.line_words[:used].copy())
    return Events(np.concatenate(([0], new_block, [warps])).astype(np.int64), *filled)


def _join(parts: list[Events]) -> Events:
    """Join the events of several groups; offsets shift accordingly."""
    if len(parts) == 1:
        return parts[0]

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    def offsets(name: str, values: str) -> Any:
        bases = np.cumsum([0, *(len(getattr(part, values)) for part in parts)])
        moved = [getattr(part, name)[:-1] + base for part, base in zip(parts, bases, strict=False)]
        return np.concatenate([*moved, bases[-1:]])

    warps = np.cumsum([0, *(len(part.event_start) - 1 for part in parts)])
    blocks = [part.block_start[:-1] + base for part, base in zip(parts, warps, strict=False)]
    return Events(
        block_start=np.concatenate([*blocks, warps[-1:]]),
        event_start=offsets("event_start", "event_static"),
        event_static=joined("event_static"),
        event_instructions=joined("event_instructions"),
        event_gap=joined("event_gap"),
        event_dependence=joined("event_dependence"),
        event_tail=joined("event_tail"),
        line_start=offsets("line_start", "line_id"),
        line_id=joined("line_id"),
        line_words=joined("line_words"),
    )
