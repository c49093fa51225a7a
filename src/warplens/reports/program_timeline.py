"""The timeline of a program as trace events of Chrome, which ui.perfetto.dev opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..programs import ProgramResult


def timeline_events(result: ProgramResult) -> dict[str, Any]:
    """One track per stream of each process; times are predicted for the first GPU."""
    tracks = sorted({(each.process, each.stream) for each in result.timeline})
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": process + 1, "tid": stream, "args": {"name": f"stream {stream}"}}
        for process, stream in tracks
    ]
    for each in result.timeline:
        about: dict[str, Any] = {"bytes": each.size_bytes} if each.launch is None else {"launch": each.launch}
        events.append(
            {
                "ph": "X",
                "name": each.name,
                "pid": each.process + 1,
                "tid": each.stream,
                "ts": each.start_seconds * 1e6,
                "dur": each.seconds * 1e6,
                "args": about,
            }
        )
    gpu = result.totals[0].gpu if result.totals else ""
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"gpu": gpu, "time": "predicted"}}


def write_timeline(result: ProgramResult, path: Path) -> None:
    try:
        path.write_text(json.dumps(timeline_events(result)), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
