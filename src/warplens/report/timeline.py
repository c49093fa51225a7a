"""Execution profiles of the Pipeline model: timelines per pipeline, use of the pipelines, and Perfetto traces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..simulators.pipeline import IDLE_CAUSES, PipelineResult, PipelineUse, Profile
from .style import CATEGORY_COLOURS, LINE_COLOURS, pyplot, save

#: Issues beyond which a timeline shows the first ones only.
MOST_BOXES = 600
_ARROW = "#2f6fd0"
_CAUSE_COLOURS = dict(zip(IDLE_CAUSES, ("#a6d96a", "#fdae61", "#969696", "#ececec"), strict=True))
_PALE = 0.28


def draw_simulation(result: PipelineResult, path: Path) -> None:
    """The execution profile, and below it how each pipeline spends its time."""
    assert result.profile is not None
    plt = pyplot()
    shown = first_rows(result.profile)
    heights = [timeline_height(shown), 0.5 + 0.28 * len(result.pipelines)]
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(9.6, sum(heights) + 0.6), gridspec_kw={"height_ratios": heights}
    )
    draw_timeline(upper, shown)
    part = "" if len(shown) == result.instructions else f", first {len(shown)} of {result.instructions} instructions"
    upper.set_title(
        f"{result.kernel} on {result.gpu}: {result.warps_per_sm} warps, {result.policy}{part}",
        loc="left",
        fontsize=9,
        fontweight="bold",
    )
    draw_use(lower, result.pipelines)
    save(figure, path)


def first_rows(profile: Profile, most: int = MOST_BOXES) -> Profile:
    """The profile up to `most` issues."""
    if len(profile) <= most:
        return profile
    return Profile(
        profile.pipelines,
        profile.warp[:most],
        profile.instruction[:most],
        profile.instruction_class[:most],
        profile.pipeline[:most],
        profile.start[:most],
        profile.busy_until[:most],
        profile.done[:most],
        profile.waited_for[:most],
        profile.group_size,
        False,
    )


def _lanes(profile: Profile) -> tuple[np.ndarray, list[int]]:
    """(lane of every instruction within its pipeline, lanes of each pipeline): those in flight lie side by side."""
    lane = np.zeros(len(profile), dtype=np.int64)
    counts = []
    for p in range(len(profile.pipelines)):
        free: list[float] = []
        for row in np.flatnonzero(profile.pipeline == p):
            end = max(profile.done[row], profile.busy_until[row])
            place = next((i for i, until in enumerate(free) if until <= profile.start[row]), len(free))
            if place == len(free):
                free.append(end)
            free[place] = end
            lane[row] = place
        counts.append(max(1, len(free)))
    return lane, counts


def _end(profile: Profile) -> float:
    """The last cycle to show: when all results are there, or where the profile breaks off."""
    last = float(profile.busy_until.max())
    return max(last, float(profile.done.max())) if profile.complete else last


def timeline_height(profile: Profile) -> float:
    """Inches that `draw_timeline` needs."""
    return 0.55 + 0.17 * sum(_lanes(profile)[1])


def draw_timeline(axis: Any, profile: Profile, *, arrows: bool | None = None) -> None:
    """Pipelines from top to bottom; each instruction is dark while it holds its pipeline (λ) and pale until Λ ends.

    Colours tell warps apart. Arrows lead from a result to the instruction that
    waited for it (by default where they are few).
    """
    lane, counts = _lanes(profile)
    base = np.concatenate(([0], np.cumsum(np.array(counts) + 1)))[:-1]
    height = base[profile.pipeline] + lane
    end = _end(profile)
    for warp in np.unique(profile.warp):
        rows = np.flatnonzero(profile.warp == warp)
        colour = LINE_COLOURS[int(warp) % len(LINE_COLOURS)]
        latency = profile.done[rows] - profile.start[rows]
        interval = profile.busy_until[rows] - profile.start[rows]
        places = height[rows]
        axis.barh(places, latency, 0.82, left=profile.start[rows], color=colour, alpha=_PALE, linewidth=0)
        axis.barh(places, interval, 0.82, left=profile.start[rows], color=colour, linewidth=0.4, edgecolor="white")
    if len(profile) <= 150:
        for row in range(len(profile)):
            width = max(profile.done[row], profile.busy_until[row]) - profile.start[row]
            if width / end > 0.011:
                text = f"{profile.warp[row] + 1}.{profile.instruction[row] + 1}"
                place = (profile.start[row] + 0.004 * end, height[row])
                axis.annotate(text, place, va="center", fontsize=5.5, color="black")
    if arrows if arrows is not None else len(profile) <= 40:
        _draw_arrows(axis, profile, height)
    for p, name in enumerate(profile.pipelines):
        middle = base[p] + (counts[p] - 1) / 2
        axis.annotate(
            name, (-0.012, middle), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=8.5
        )
        if p:
            axis.axhline(base[p] - 1, color="#bbbbbb", linewidth=0.8)
    axis.set_ylim(base[-1] + counts[-1] - 0.4, -0.6)
    axis.set_xlim(0, end * 1.005)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_xlabel("cycle")


def _draw_arrows(axis: Any, profile: Profile, height: Any) -> None:
    for row, producer in enumerate(profile.waited_for.tolist()):
        if 0 <= producer < len(profile):
            axis.annotate(
                "",
                (profile.start[row], height[row]),
                xytext=(profile.done[producer], height[producer]),
                arrowprops={"arrowstyle": "-|>", "color": _ARROW, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
            )


def draw_use(axis: Any, pipelines: Mapping[str, PipelineUse]) -> None:
    """One bar per pipeline: busy, and idle by cause, in percent of the time."""
    names = list(pipelines)
    totals = [use.busy_cycles + sum(use.idle_cycles.values()) for use in pipelines.values()]
    left = np.zeros(len(names))
    parts = {"busy": [use.busy_cycles for use in pipelines.values()]}
    parts |= {f"idle: {cause}": [use.idle_cycles[cause] for use in pipelines.values()] for cause in IDLE_CAUSES}
    colours = [CATEGORY_COLOURS["BASE"], *_CAUSE_COLOURS.values()]
    for (label, cycles), colour in zip(parts.items(), colours, strict=True):
        share = 100.0 * np.divide(cycles, totals, out=np.zeros(len(names)), where=np.array(totals) > 0)
        axis.barh(range(len(names)), share, 0.7, left=left, color=colour, label=label)
        left += share
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("share of the time, %")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(parts), fontsize=7, handlelength=1.0)


# -- Perfetto --------------------------------------------------------------------------------


def perfetto_events(profile: Profile, clock_hz: float | None = None) -> dict[str, Any]:
    """Chrome trace events for ui.perfetto.dev: λ on one track per pipeline, Λ on one track per warp.

    One cycle is shown as one microsecond, so that parts of a cycle stay exact.
    """
    pipelines, warps = 1, 2
    events: list[dict[str, Any]] = [
        _name("process_name", pipelines, 0, "pipelines (λ)"),
        _name("process_name", warps, 0, "warps (Λ)"),
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
    about_all = {"time": "1 µs is 1 core cycle", "complete": profile.complete}
    if clock_hz is not None:
        about_all["clock_hz"] = clock_hz
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about_all}


def _name(kind: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": text}}


def write_perfetto(profile: Profile, path: Path, clock_hz: float | None = None) -> None:
    """The profile as a JSON file that ui.perfetto.dev and chrome://tracing open."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(perfetto_events(profile, clock_hz), allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error})") from None


def panels(profiles: Sequence[tuple[str, Profile]], plt: Any, *, width: float = 9.6) -> Any:
    """Several timelines below each other on one time axis, each with its title."""
    heights = [timeline_height(profile) for _, profile in profiles]
    figure, axes = plt.subplots(
        len(profiles), 1, figsize=(width, sum(heights) + 0.35 * len(profiles)), squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )  # fmt: skip
    end = max(_end(profile) for _, profile in profiles)
    for axis, (title, profile) in zip(axes[:, 0], profiles, strict=True):
        draw_timeline(axis, profile)
        axis.set_xlim(0, end * 1.005)
        axis.set_title(title, loc="left", fontsize=8.5)
    for axis in axes[:-1, 0]:
        axis.set_xlabel("")
    return figure
