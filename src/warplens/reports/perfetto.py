"""Execution profiles as trace events of Chrome, which ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import writing
from ..simulators.pipeline import Profile


def perfetto_events(profiles: Profile | Mapping[str, Profile], clock_hz: float | None = None) -> dict[str, Any]:
    """Events of one profile, or of several by name: λ on one track per pipeline, Λ on one track per warp.

    One cycle is shown as one microsecond, so that parts of a cycle stay exact.
    """
    several = {"": profiles} if isinstance(profiles, Profile) else profiles
    events = [
        event
        for number, (name, profile) in enumerate(several.items())
        for event in _events(profile, 2 * number + 1, f"{name}: " if name else "")
    ]
    about = {"time": "1 µs is 1 core cycle", "complete": all(profile.complete for profile in several.values())}
    if clock_hz is not None:
        about["clock_hz"] = clock_hz
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _events(profile: Profile, pipelines: int, label: str) -> list[dict[str, Any]]:
    """One profile as two processes: `pipelines`, and the next one for its warps."""
    warps = pipelines + 1
    events: list[dict[str, Any]] = [
        _name("process_name", pipelines, 0, f"{label}pipelines (λ)"),
        _name("process_name", warps, 0, f"{label}warps (Λ)"),
        *(_name("thread_name", pipelines, p + 1, name) for p, name in enumerate(profile.pipelines)),
        *(_name("thread_name", warps, warp + 1, f"warp {warp}") for warp in np.unique(profile.warp).tolist()),
    ]
    columns = zip(
        profile.warp.tolist(),
        profile.instruction.tolist(),
        profile.instruction_class,
        profile.pipeline.tolist(),
        profile.start.tolist(),
        profile.busy_until.tolist(),
        profile.done.tolist(),
        strict=True,
    )
    for row, (warp, instruction, kind, pipeline, start, busy_until, done) in enumerate(columns):
        about = {"warp": warp, "group": warp // profile.group_size, "instruction": instruction}
        title = f"{kind} {instruction}"
        track = {"pid": pipelines, "tid": pipeline + 1}
        events.append({"ph": "X", "name": title, **track, "ts": start, "dur": busy_until - start, "args": about})
        # Latencies of a warp overlap, so they are asynchronous events with an id each.
        latency = {"cat": "latency", "id": row, "name": title, "pid": warps, "tid": warp + 1}
        events.append({"ph": "b", **latency, "ts": start, "args": {**about, "pipeline": profile.pipelines[pipeline]}})
        events.append({"ph": "e", **latency, "ts": done})
    return events


def _name(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": text}}


def write_perfetto(profiles: Profile | Mapping[str, Profile], path: Path, clock_hz: float | None = None) -> None:
    """The profiles as a JSON file that ui.perfetto.dev and chrome://tracing open."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        document = json.dumps(perfetto_events(profiles, clock_hz), allow_nan=False, separators=(",", ":"))
        path.write_text(document, encoding="utf-8")
