"""Execution profiles of both simulators: timelines per pipeline, and how the pipelines spend their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..simulators.pipeline import IDLE_CAUSES, PipelineResult, Profile
from .style import CATEGORY_COLOURS, LINE_COLOURS, pyplot, save
from .view import Figure, Table, View, axis, escaped, layout

#: Issues beyond which a timeline shows the first ones only.
MOST_BOXES = 600
_ARROW = "#2f6fd0"
_CAUSE_COLOURS = dict(zip(IDLE_CAUSES, ("#a6d96a", "#fdae61", "#969696", "#ececec"), strict=True))
_PALE = 0.28


@dataclass(frozen=True)
class Timeline(View):
    """The first instructions of one SM, and how each pipeline spends its time where the simulator tells.

    Of every instruction: its warp, its place in its warp's program (of the
    reference simulator: its static instruction), pipeline, start, end of λ and
    end of Λ.
    """

    name = "timeline"
    heading = "Timeline"
    shows = (
        "the first 600 instructions of an SM in the Pipeline model, and with `--simulate` in the detailed simulator"
    )
    needs = "a dependence graph or a trace"

    kernel: str
    gpu: str
    simulator: str
    profile: Profile
    total_instructions: int
    use: dict[str, dict[str, float]]
    """Pipeline -> cycles by what it does: busy, or idle by cause."""
    recorded: Profile = field(repr=False)
    """All that was recorded, for Perfetto."""

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"recorded": len(self.recorded)}

    @property
    def title(self) -> str:
        return f"{self.heading}: {self.simulator}"

    @property
    def _shown(self) -> str:
        shown, total = len(self.profile), self.total_instructions
        part = "" if shown == total else f", first {shown} of {total} instructions"
        return f"{self.kernel} on {self.gpu}: {self.simulator}{part}"

    @property
    def summary(self) -> str:
        busy = [
            f"{name} busy {100 * parts['busy'] / max(sum(parts.values()), 1e-300):.0f} % of the time"
            for name, parts in self.use.items()
        ]
        return "; ".join([f"{self._shown}, {len(np.unique(self.profile.warp))} warps", *busy])

    def table(self) -> Table:
        profile = self.profile
        rows = zip(
            profile.warp.tolist(),
            profile.instruction.tolist(),
            profile.instruction_class,
            (profile.pipelines[p] for p in profile.pipeline.tolist()),
            profile.start.tolist(),
            profile.busy_until.tolist(),
            profile.done.tolist(),
            strict=True,
        )
        return Table(("warp", "instruction", "class", "pipeline", "start", "end of λ", "end of Λ"), tuple(rows))

    def figure(self) -> Figure:
        """Bars from start to the end of Λ, pale, and over them to the end of λ; a colour for each warp."""
        profile = self.profile
        places, middles = _places(profile)
        colours = [LINE_COLOURS[warp % len(LINE_COLOURS)] for warp in profile.warp.tolist()]
        texts = [
            f"warp {warp}: {escaped(kind)} ({number}), cycles {start:g} to {done:g}"
            for warp, number, kind, start, done in zip(
                profile.warp.tolist(), profile.instruction.tolist(), profile.instruction_class,
                profile.start.tolist(), profile.done.tolist(), strict=True)
        ]  # fmt: skip
        traces = [
            {"type": "bar", "orientation": "h", "y": places.tolist(), "base": profile.start.tolist(),
             "x": (ends - profile.start).tolist(), "name": name, "opacity": opacity, "width": 0.82,
             "marker": {"color": colours}, "hovertext": texts, "hoverinfo": "text"}
            for name, ends, opacity in (
                ("latency Λ", profile.done, _PALE), ("pipeline held λ", profile.busy_until, 1.0))
        ]  # fmt: skip
        height = int(min(130 + 13 * (places.max() + 1), 900))
        x = axis("cycle", range=[0, _end(profile) * 1.005])
        names = [escaped(name) for name in profile.pipelines]
        y = axis(tickvals=middles, ticktext=names, autorange="reversed")
        look = layout(height=height, barmode="overlay", xaxis=x, yaxis=y, showlegend=False)
        return {"data": traces, "layout": look}

    def draw(self, plt: Any) -> Any:
        heights = [timeline_height(self.profile)] + ([0.5 + 0.28 * len(self.use)] if self.use else [])
        figure, axes = plt.subplots(
            len(heights), 1, figsize=(9.6, sum(heights) + 0.6), squeeze=False, gridspec_kw={"height_ratios": heights}
        )
        draw_timeline(axes[0, 0], self.profile)
        axes[0, 0].set_title(self._shown, loc="left", fontsize=9, fontweight="bold", parse_math=False)
        if self.use:
            draw_use(axes[1, 0], self.use)
        return figure


def timeline(result: Any) -> Timeline:
    """The timeline of a `PipelineResult` or `DetailedResult` that was recorded."""
    profile = result.profile
    if profile is None or not len(profile):
        raise InputError(f"{result.kernel}: the simulation was not recorded; run it with record=True")
    shown = first_rows(profile)
    if not isinstance(result, PipelineResult):
        return Timeline(result.kernel, result.gpu, "reference simulator, SM 0", shown, len(profile), {}, profile)
    name = f"Pipeline model, {result.warps_per_sm} warps, {result.policy}"
    use = {
        pipeline: {"busy": each.busy_cycles} | {f"idle: {cause}": each.idle_cycles[cause] for cause in IDLE_CAUSES}
        for pipeline, each in result.pipelines.items()
    }
    return Timeline(result.kernel, result.gpu, name, shown, result.instructions, use, profile)


def draw_simulation(result: PipelineResult, path: Path) -> None:
    """The execution profile, and below it how each pipeline spends its time."""
    save(timeline(result).draw(pyplot()), path)


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


def _places(profile: Profile) -> tuple[np.ndarray, list[float]]:
    """(height of every instruction, middle of every pipeline): pipelines lie below each other, a lane apart."""
    lane, counts = _lanes(profile)
    base = np.concatenate(([0], np.cumsum(np.array(counts) + 1)))[:-1]
    return base[profile.pipeline] + lane, (base + (np.array(counts) - 1) / 2).tolist()


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
    height, middles = _places(profile)
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
    lanes = _lanes(profile)[1]
    for name, middle, count in zip(profile.pipelines, middles, lanes, strict=True):
        beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center"}
        axis.annotate(name, (-0.012, middle), fontsize=8.5, **beside)
        if middle != middles[0]:
            axis.axhline(middle - (count - 1) / 2 - 1, color="#bbbbbb", linewidth=0.8)
    axis.set_ylim(middles[-1] + (lanes[-1] - 1) / 2 + 0.6, -0.6)
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


def draw_use(axis: Any, use: Mapping[str, Mapping[str, float]]) -> None:
    """One bar per pipeline: busy, and idle by cause, in percent of the time."""
    names = list(use)
    totals = np.array([sum(parts.values()) for parts in use.values()])
    left = np.zeros(len(names))
    labels = list(next(iter(use.values())))
    colours = [CATEGORY_COLOURS["BASE"], *_CAUSE_COLOURS.values()]
    for label, colour in zip(labels, colours, strict=True):
        cycles = [parts[label] for parts in use.values()]
        share = 100.0 * np.divide(cycles, totals, out=np.zeros(len(names)), where=totals > 0)
        axis.barh(range(len(names)), share, 0.7, left=left, color=colour, label=label)
        left += share
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("share of the time, %")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(labels), fontsize=7, handlelength=1.0)


# -- several --------------------------------------------------------------------------------


def panels(profiles: Sequence[tuple[str, Profile]], plt: Any, *, width: float = 9.6) -> Any:
    """Several timelines below each other on one time axis, each with its title."""
    heights = [timeline_height(profile) for _, profile in profiles]
    figure, axes = plt.subplots(
        len(profiles), 1, figsize=(width, sum(heights) + 0.35 * len(profiles)), squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )  # fmt: skip
    end = max(_end(profile) for _, profile in profiles)
    for panel, (title, profile) in zip(axes[:, 0], profiles, strict=True):
        draw_timeline(panel, profile)
        panel.set_xlim(0, end * 1.005)
        panel.set_title(title, loc="left", fontsize=8.5)
    for panel in axes[:-1, 0]:
        panel.set_xlabel("")
    return figure
