"""Memory accesses and barriers of a trace, coalesced to cache lines: what the cache simulation runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MachineError
from ..traces import CLASS_IDS, CLASS_NAMES, LaunchTrace, StaticTable, WarpGroup
from ..traces.machine_code import code_of
from ._cache_records import ATOMIC, BARRIER, GRANULES, LOAD, NOTHING, STORE
from .assembly import Assembly

#: Where the control bits of machine code say how many cycles a warp waits before its next instruction.
STALL = 15
#: Among the latencies by class: the time after a branch, what it adds if it is taken, and a comparison's for a guard.
BRANCH, TAKEN, GUARD = "branch", "taken", "guard"
#: Blocks are simulated in chunks of this size; caches keep their contents between chunks.
CHUNK_BYTES = 256 * 2**20
#: Bytes of the columns of `Events` for each event and for each line of it.
EVENT_BYTES, LINE_BYTES = 32, 12
#: Columns of `Events` that begin where others say: blocks of warps, warps of events, events of lines.
COLUMNS_BELOW: dict[str, tuple[str, ...]] = {
    "block_start": (),
    "event_start": (
        "event_static",
        "event_instructions",
        "event_gap",
        "event_dependence",
        "event_tail",
        "event_runs",
    ),
    "line_start": ("line_id", "line_words"),
}
#: Most bytes of events that are kept; more are collected anew for each simulation.
KEPT_BYTES = CHUNK_BYTES // 2


@dataclass(frozen=True, eq=False)
class Events:
    """Events of some thread blocks, as flat columns (see `_coalesce_kernels.collect`)."""

    block_start: NDArray[np.int64]
    event_start: NDArray[np.int64]
    event_static: NDArray[np.uint32]
    event_instructions: NDArray[np.int32]
    event_gap: NDArray[np.float32]
    event_dependence: NDArray[np.int32]
    event_tail: NDArray[np.float32]
    event_runs: NDArray[np.int32]
    line_start: NDArray[np.int64]
    line_id: NDArray[np.int64]
    line_words: NDArray[np.uint32]

    @property
    def blocks(self) -> int:
        """Thread blocks."""
        return len(self.block_start) - 1

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
        "barrier_cluster": BARRIER,
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


@dataclass(eq=False)
class EventStream:
    """The events of a launch, chunk by chunk. Few are kept; many are collected anew each time.

    PTX that is `assembled` is in the order that an assembler gives it.
    """

    trace: LaunchTrace
    line_bytes: int
    latency_of_class: Callable[[str], float]
    assembled: bool = False
    _kept: Events | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Events]:
        if self._kept is not None:
            yield self._kept
        else:
            yield from collect_events(self.trace, self.line_bytes, self.latency_of_class, assembled=self.assembled)

    @cached_property
    def blocks(self) -> int:
        """Thread blocks that the trace holds."""
        for chunk, more in _chunks(self.trace, self.line_bytes, self.latency_of_class, self.assembled):
            if more:
                del chunk
                break
            if chunk.nbytes <= KEPT_BYTES:
                self._kept = chunk
            return chunk.blocks
        return sum(len(_block_start(group)) - 1 for group in self.trace.groups() if len(group))


def collect_events(
    trace: LaunchTrace, line_bytes: int, latency_of_class: Callable[[str], float], *, assembled: bool = False
) -> Iterator[Events]:
    """The events of a launch in chunks of whole thread blocks."""
    for chunk, _ in _chunks(trace, line_bytes, latency_of_class, assembled):
        yield chunk
        del chunk  # the next one takes its room


def _chunks(
    trace: LaunchTrace, line_bytes: int, latency_of_class: Callable[[str], float], assembled: bool
) -> Iterator[tuple[Events, bool]]:
    """Chunks, and whether more follow."""
    if line_bytes < GRANULES or line_bytes & (line_bytes - 1):
        raise MachineError(f"l1.line_bytes: {line_bytes}: coalescing needs a power of two of at least {GRANULES}")
    static = trace.static
    kinds = instruction_kinds(static)
    timing = timing_of(trace, latency_of_class)
    assembly = Assembly(static, code_of(trace.header)) if assembled else None
    held: list[Events] = []
    room = CHUNK_BYTES
    for group in trace.groups():
        if assembly is not None:
            group = assembly.ordered(group)
        left = collect_events_of(group, static, kinds, timing, line_bytes) if len(group) else None
        while left is not None:
            if held and room <= 0:
                yield _join(held), True
                room = CHUNK_BYTES
            part, left = _divide(left, room)
            held.append(part)
            room -= int(_sizes(part)[-1])
    if held:
        yield _join(held), False


def _divide(events: Events, room: int) -> tuple[Events, Events | None]:
    """The first blocks, up to the one that fills `room`, and the rest.

    Chunks end at a block, whatever groups the trace is stored in: the same trace has the same chunks, and so the same
    hits and misses.
    """
    sizes = _sizes(events)
    blocks = len(sizes) - 1
    last = max(int(np.searchsorted(sizes, room)), 1)
    if last >= blocks:
        return events, None
    return _blocks(events, 0, last), _blocks(events, last, blocks)


def _sizes(events: Events) -> NDArray[np.int64]:
    """Bytes of all events before each thread block, and of all."""
    at_event = events.event_start[events.block_start]
    return at_event * EVENT_BYTES + events.line_start[at_event] * LINE_BYTES


def _blocks(events: Events, first: int, last: int) -> Events:
    """The events of the thread blocks from one up to another."""
    found = vars(events).copy()
    span = slice(first, last)
    for offsets, columns in COLUMNS_BELOW.items():
        start, end = found[offsets][span.start], found[offsets][span.stop]
        found[offsets] = found[offsets][span.start : span.stop + 1] - start
        span = slice(int(start), int(end))
        for name in columns:
            found[name] = found[name][span].copy()
    return Events(**found)


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
        event_dependence=np.empty(count, dtype=np.int32),
        event_tail=np.empty(count, dtype=np.float32),
        event_runs=np.empty(count, dtype=np.int32),
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
    filled = columns._replace(line_id=columns.line_id[:used].copy(), line_words=columns.line_words[:used].copy())
    return Events(_block_start(group), *filled)


def _block_start(group: WarpGroup) -> NDArray[np.int64]:
    """Where the warps of each thread block of a group begin, and the end."""
    new_block = np.flatnonzero(np.diff(group.block)) + 1
    return np.concatenate(([0], new_block, [len(group)])).astype(np.int64)


def _join(parts: list[Events]) -> Events:
    """Join the events of several groups; offsets shift accordingly.

    The parts are used up, column by column: they and the whole never take room at the same time.
    """
    if len(parts) == 1:
        return parts.pop()
    columns = {item.name: [getattr(part, item.name) for part in parts] for item in fields(Events)}
    parts.clear()

    def offsets(name: str, counts: list[int]) -> Any:
        bases = np.cumsum([0, *counts])
        moved = [each[:-1] + base for each, base in zip(columns.pop(name), bases, strict=False)]
        return np.concatenate([*moved, bases[-1:]])

    starts = {
        "block_start": [len(each) - 1 for each in columns["event_start"]],
        "event_start": [len(each) for each in columns["event_static"]],
        "line_start": [len(each) for each in columns["line_id"]],
    }
    made = {name: offsets(name, counts) for name, counts in starts.items()}
    return Events(**made, **{name: np.concatenate(columns.pop(name)) for name in list(columns)})
