"""The window over a trace that the reference simulator works on, and the program it executes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...analysis import collect_events, instruction_kinds
from ...analysis.banks import conflict_degrees, shared_accesses
from ...analysis.events import Events
from ...machine import INSTRUCTION_CLASSES, Gpu
from ...traces import CLASS_NAMES, LaunchTrace, MemoryTrace, StaticTable, WarpGroup
from ._layout import BARRIER, SHARED


class Program(NamedTuple):
    """Static instructions: kind, pipeline, λ and Λ, registers."""

    kind: Any
    unit: Any
    interval: Any
    latency: Any
    destinations: Any
    destination_offsets: Any
    sources: Any
    source_offsets: Any


class Stream(NamedTuple):
    """Consecutive thread blocks of the trace; `first_block` is the number of the first one."""

    first_block: int
    block_start: Any
    start: Any
    static: Any
    event_start: Any
    line_start: Any
    line_id: Any
    line_words: Any
    shared_start: Any
    shared_degree: Any


def make_program(static: StaticTable, gpu: Gpu, needed_by: str) -> tuple[Program, tuple[str, ...]]:
    """(the program, names of the pipelines) of a kernel on a machine."""
    kinds = instruction_kinds(static).astype(np.int64)
    kinds[shared_accesses(static)] = SHARED
    units: dict[str, int] = {}
    unit = np.zeros(len(static), dtype=np.int64)
    interval, latency = np.zeros(len(static)), np.zeros(len(static))
    for index, class_id in enumerate(static.class_id):
        name = CLASS_NAMES[class_id]
        if kinds[index] in (SHARED, BARRIER) or INSTRUCTION_CLASSES[name].kind == "memory":
            continue
        timing = gpu.timing(name, needed_by)
        unit[index] = units.setdefault(timing.subsystem, len(units))
        interval[index], latency[index] = timing.interval_cycles, timing.latency_cycles
    program = Program(
        kinds,
        unit,
        interval,
        latency,
        static.destinations,
        static.destination_offsets,
        static.sources,
        static.source_offsets,
    )
    return program, tuple(units)


def stream_groups(trace: LaunchTrace, line_bytes: int) -> Iterator[Stream]:
    """The groups of a trace, each ready to be appended to the window."""
    first_block = 0
    for group in trace.groups():
        if not len(group):
            continue
        one = MemoryTrace(trace.header, trace.static, (group,))
        (events,) = collect_events(one, line_bytes, lambda name: 0.0)
        yield _stream(group, events, trace.static, first_block)
        first_block += len(events.block_start) - 1


def _stream(group: WarpGroup, events: Events, static: StaticTable, first_block: int) -> Stream:
    offsets, degrees = conflict_degrees(group, static)
    return Stream(
        first_block,
        events.block_start,
        group.start,
        group.static,
        events.event_start,
        events.line_start,
        events.line_id,
        events.line_words,
        offsets,
        degrees,
    )


def slide(window: Stream | None, new: Stream, oldest_block: int) -> tuple[Stream, dict[str, int]]:
    """(the window without blocks before `oldest_block` and with `new` behind it, by how much offsets moved)."""
    if window is None:
        return new, {"instruction": 0, "event": 0, "shared": 0, "line": 0}
    drop = min(oldest_block, window.first_block + len(window.block_start) - 1) - window.first_block
    warp = window.block_start[drop]
    moved = {
        "instruction": int(window.start[warp]),
        "event": int(window.event_start[warp]),
        "shared": int(window.shared_start[warp]),
        "line": int(window.line_start[window.event_start[warp]]),
    }

    def offsets(old: Any, first: Any, fresh: Any) -> Any:
        kept = old[first:] - old[first]
        return np.concatenate([kept, fresh[1:] - fresh[0] + kept[-1]])

    event = moved["event"]
    return (
        Stream(
            window.first_block + int(drop),
            offsets(window.block_start, drop, new.block_start),
            offsets(window.start, warp, new.start),
            np.concatenate([window.static[moved["instruction"] :], new.static]),
            offsets(window.event_start, warp, new.event_start),
            offsets(window.line_start, event, new.line_start),
            np.concatenate([window.line_id[moved["line"] :], new.line_id]),
            np.concatenate([window.line_words[moved["line"] :], new.line_words]),
            offsets(window.shared_start, warp, new.shared_start),
            np.concatenate([window.shared_degree[moved["shared"] :], new.shared_degree]),
        ),
        moved,
    )
