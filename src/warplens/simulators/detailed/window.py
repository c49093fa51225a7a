"""The window over a trace that the detailed simulator works on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...analysis import collect_events_of, instruction_kinds, timing_of
from ...analysis.banks import conflict_degrees
from ...analysis.events import Events
from ...analysis.mbarriers import Phases, phases_of
from ...traces import LaunchTrace, StaticTable, WarpGroup
from ._records import NO_PHASE, TraceWindow
from .instructions import steps_at_mbarriers


def trace_windows(trace: LaunchTrace, line_bytes: int) -> Iterator[TraceWindow]:
    """The groups of a trace, each ready to be appended to the window."""
    kinds, timing = instruction_kinds(trace.static), timing_of(trace, lambda name: 0.0)
    first_block = 0
    for group in trace.groups():
        if not len(group):
            continue
        events = collect_events_of(group, trace.static, kinds, timing, line_bytes)
        steps = _steps(group, trace.static, events.block_start)
        yield _window(group, events, trace.static, first_block, steps)
        first_block += len(events.block_start) - 1


class _Steps(NamedTuple):
    """Where the steps at mbarriers of each warp begin, the phase that each is for, and the phases of each block."""

    start: NDArray[np.int64]
    phase: NDArray[np.int64]
    phases: Phases


class _Places(NamedTuple):
    """Where the warps of each block begin, and the steps of each warp."""

    block_start: NDArray[np.int64]
    event_start: NDArray[np.int64]


def _steps(group: WarpGroup, static: StaticTable, block_start: NDArray[np.int64]) -> _Steps:
    step = steps_at_mbarriers(static) != NO_PHASE
    if not step.any():
        none = np.zeros(0, dtype=np.int64)
        return _Steps(np.zeros(len(group) + 1, np.int64), none, Phases(np.zeros_like(block_start), none, none))
    at = np.flatnonzero(step[group.static])
    start = np.searchsorted(at, group.start).astype(np.int64)
    phases = phases_of(group, static, _Places(block_start, start), at)
    return _Steps(start, phases.of_event, phases)


def _window(group: WarpGroup, events: Events, static: StaticTable, first_block: int, steps: _Steps) -> TraceWindow:
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
        steps.start,
        steps.phase,
        steps.phases.start,
        steps.phases.signals,
    )


def slide(window: TraceWindow | None, new: TraceWindow, oldest_block: int) -> tuple[TraceWindow, dict[str, int]]:
    """(the window without blocks before `oldest_block` and with `new` appended, shift of each offset)."""
    if window is None:
        return new, {"instruction": 0, "event": 0, "shared": 0, "line": 0, "step": 0}
    drop = min(oldest_block, window.first_block + len(window.block_start) - 1) - window.first_block
    warp = window.block_start[drop]
    moved = {
        "instruction": int(window.start[warp]),
        "event": int(window.event_start[warp]),
        "shared": int(window.shared_start[warp]),
        "line": int(window.line_start[window.event_start[warp]]),
        "step": int(window.step_start[warp]),
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
            offsets(window.step_start, warp, new.step_start),
            np.concatenate([window.step_phase[moved["step"] :], new.step_phase]),
            offsets(window.phase_start, drop, new.phase_start),
            np.concatenate([window.phase_signals[window.phase_start[drop] :], new.phase_signals]),
        ),
        moved,
    )
