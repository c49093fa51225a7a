"""The window over a trace that the detailed simulator works on, and the instructions it executes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...analysis import collect_events_of, instruction_kinds, timing_of
from ...analysis._cache_records import BARRIER
from ...analysis.banks import conflict_degrees, shared_accesses
from ...analysis.events import Events
from ...machine import INSTRUCTION_CLASSES, Gpu
from ...traces import CLASS_NAMES, LaunchTrace, StaticTable, WarpGroup
from ._records import SHARED, InstructionTable, TraceWindow


def instruction_table(static: StaticTable, gpu: Gpu, needed_by: str) -> tuple[InstructionTable, tuple[str, ...]]:
    """(the static instructions of a kernel, names of the pipelines) on a machine."""
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
        interval[index] = timing.interval_cycles
        latency[index] = timing.latency_cycles + gpu.with_defaults.operand_cycles
    table = InstructionTable(
        kinds,
        unit,
        interval,
        latency,
        static.destinations,
        static.destination_offsets,
        static.sources,
        static.source_offsets,
    )
    return table, tuple(units)


def trace_windows(trace: LaunchTrace, line_bytes: int) -> Iterator[TraceWindow]:
    """The groups of a trace, each ready to be appended to the window."""
    kinds, timing = instruction_kinds(trace.static), timing_of(trace, lambda name: 0.0)
    first_block = 0
    for group in trace.groups():
        if not len(group):
            continue
        events = collect_events_of(group, trace.static, kinds, timing, line_bytes)
        yield _window(group, events, trace.static, first_block)
        first_block += len(events.block_start) - 1


def _window(group: WarpGroup, events: Events, static: StaticTable, first_block: int) -> TraceWindow:
    offsets, degrees = conflict_degrees(group, static)
    return TraceWindow(
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


def slide(window: TraceWindow | None, new: TraceWindow, oldest_block: int) -> tuple[TraceWindow, dict[str, int]]:
    """(the window without blocks before `oldest_block` and with `new` appended, shift of each offset)."""
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
        TraceWindow(
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
