"""Roofline of a kernel on a machine: what each level of memory and the pipelines allow, and what models predict.

Where bytes are known (a trace, an interval profile) the horizontal axis has
warp instructions per byte, as the instruction roofline of Ding and Williams
has; of an instruction mix alone, instructions per memory instruction
(Lemeire's form).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..machine import Gpu
from ..models import Prediction
from ..workload import Facts, Needs, Workload, analyse
from .stacks import Reference
from .style import LINE_COLOURS, model_style
from .view import COLUMN, Figure, Table, View, axis, escaped, layout

#: Under labels that lie over lines.
_PLATE = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.4}
_LEVEL_COLOURS = {"L1": LINE_COLOURS[2], "LLC": LINE_COLOURS[3], "DRAM": LINE_COLOURS[0], "memory": LINE_COLOURS[0]}


@dataclass(frozen=True)
class Level:
    """A level of memory: the kernel's intensity there, and the slope of its roof (speed over intensity)."""

    label: str
    intensity: float
    slope: float


@dataclass(frozen=True)
class Ceiling:
    """A limit that intensity does not change: the issue rate, or a pipeline at this mix of instructions."""

    label: str
    speed: float


@dataclass(frozen=True)
class RooflinePoint:
    """What a model predicts, or what was measured (`measured`)."""

    label: str
    speed: float
    measured: bool = False


@dataclass(frozen=True)
class Roofline(View):
    """Speeds over intensities; all points lie at the intensity of the last level."""

    name = "roofline"
    heading = "Roofline"
    shows = (
        "roofs of issue, the busiest pipeline, L1, L2 and DRAM; the kernel's intensity in warp instructions "
        "per byte at each. For an instruction mix alone: instructions per memory instruction (Lemeire's form)"
    )
    needs = "an instruction mix, or bytes"

    kernel: str
    gpu: str
    levels: tuple[Level, ...]
    ceilings: tuple[Ceiling, ...]
    points: tuple[RooflinePoint, ...]
    intensity_unit: str
    speed_unit: str

    @property
    def bound(self) -> tuple[str, float]:
        """(what limits the kernel most, the speed that it allows)."""
        limits = {each.label: each.speed for each in self.ceilings}
        limits |= {each.label: each.slope * each.intensity for each in self.levels}
        return min(limits.items(), key=lambda item: item[1])

    @property
    def summary(self) -> str:
        label, speed = self.bound
        return f"{self.kernel} on {self.gpu}: {label} allows {speed:.3g} {self.speed_unit}, less than any other limit"

    def table(self) -> Table:
        rows: list[tuple[Any, ...]] = [
            ("roof", each.label, each.intensity, each.slope * each.intensity) for each in self.levels
        ]
        rows += [("roof", each.label, None, each.speed) for each in self.ceilings]
        place = self.levels[-1].intensity
        rows += [("measured" if each.measured else "model", each.label, place, each.speed) for each in self.points]
        return Table(("", "of", self.intensity_unit, self.speed_unit), tuple(rows))

    @property
    def _range(self) -> tuple[float, float]:
        """Intensities to show: those of the kernel, and the ridges."""
        roof = min(each.speed for each in self.ceilings)
        places = [each.intensity for each in self.levels] + [roof / each.slope for each in self.levels]
        return min(places) / 4, max(places) * 4

    @property
    def _label_gap(self) -> float:
        """A sixteenth of the vertical axis."""
        speeds = [each.speed for each in self.points] + [each.speed for each in self.ceilings]
        return float((max(speeds) / min(*speeds, *(each.slope * self._range[0] for each in self.levels))) ** (1 / 16))

    def figure(self) -> Figure:
        low, high = self._range
        xs = np.geomspace(low, high, 60)
        roof = min(each.speed for each in self.ceilings)
        traces: list[dict[str, Any]] = []
        for level in self.levels:
            colour = _LEVEL_COLOURS[level.label]
            xs_here = np.append(xs[xs < roof / level.slope], roof / level.slope)
            traces.append({"type": "scatter", "mode": "lines", "x": xs_here.tolist(),
                           "y": (level.slope * xs_here).tolist(), "name": f"{level.label} bandwidth",
                           "line": {"color": colour, "width": 2}, "hoverinfo": "name"})  # fmt: skip
            limit = min(roof, level.slope * level.intensity)
            traces.append({"type": "scatter", "mode": "markers", "x": [level.intensity], "y": [limit],
                           "name": f"allowed by {level.label}", "showlegend": False,
                           "marker": {"symbol": "diamond-open", "size": 12, "color": colour, "line": {"width": 2}},
                           "hovertemplate": f"{level.label} allows %{{y:.4g}}<extra></extra>"})  # fmt: skip
        start = min(roof / each.slope for each in self.levels)
        for number, ceiling in enumerate(sorted(self.ceilings, key=lambda each: each.speed)):
            style = {"width": 2} if number == 0 else {"width": 1, "dash": "dot"}
            traces.append({"type": "scatter", "mode": "lines", "x": [start if number == 0 else low, high],
                           "y": [ceiling.speed] * 2, "name": escaped(ceiling.label), "hoverinfo": "name+y",
                           "line": {"color": "rgba(127,127,127,1)", **style}})  # fmt: skip
        place = self.levels[-1].intensity
        for point in self.points:
            symbol = "star" if point.measured else "circle"
            colour = "rgba(127,127,127,1)" if point.measured else model_style(point.label)[0]
            traces.append({"type": "scatter", "mode": "markers", "x": [place], "y": [point.speed],
                           "name": escaped(point.label), "showlegend": point.measured,
                           "marker": {"size": 15 if point.measured else 9, "symbol": symbol, "color": colour},
                           "hovertemplate": f"{escaped(point.label)}: %{{y:.4g}}<extra></extra>"})  # fmt: skip
        right = place * place > low * high  # labels go where there is room
        for label, speed in spread_labels(self.points, self._label_gap):
            traces.append({"type": "scatter", "mode": "text", "x": [place], "y": [speed], "showlegend": False,
                           "text": [f"{escaped(label)}   " if right else f"   {escaped(label)}"], "hoverinfo": "skip",
                           "textposition": "middle left" if right else "middle right",
                           "textfont": {"size": 11}})  # fmt: skip
        x = axis(self.intensity_unit, type="log", range=np.log10([low, high]).tolist())
        return {"data": traces, "layout": layout(height=420, xaxis=x, yaxis=axis(self.speed_unit, type="log"))}

    def draw(self, plt: Any) -> Any:
        low, high = self._range
        roof = min(each.speed for each in self.ceilings)
        figure, panel = plt.subplots(figsize=(COLUMN, 2.9))
        for level in self.levels:
            ridge = roof / level.slope
            colour = _LEVEL_COLOURS[level.label]
            panel.plot([low, ridge], [level.slope * low, roof], color=colour, label=level.label, linewidth=1.4)
            limit = min(roof, level.slope * level.intensity)
            panel.plot([level.intensity], [limit], "D", mfc="none", color=colour, markersize=6)
        start = min(roof / each.slope for each in self.levels)
        for number, ceiling in enumerate(sorted(self.ceilings, key=lambda each: each.speed)):
            first = number == 0
            panel.plot([start if first else low, high], [ceiling.speed] * 2, color="#555555",
                       linewidth=1.4 if first else 0.8, linestyle="-" if first else ":")  # fmt: skip
            panel.annotate(f"{ceiling.label} ", (high, ceiling.speed), ha="right", va="bottom", fontsize=6.5)
        place = self.levels[-1].intensity
        for point in self.points:
            colour = "black" if point.measured else model_style(point.label)[0]
            panel.plot([place], [point.speed], "*" if point.measured else "o", color=colour,
                       markersize=9 if point.measured else 4, zorder=3)  # fmt: skip
        right = place * place > low * high  # labels go where there is room
        for text, speed in spread_labels(self.points, self._label_gap):
            where = {"xytext": (-6 if right else 6, 0), "ha": "right" if right else "left"}
            note = panel.annotate(
                text, (place, speed), textcoords="offset points", fontsize=5.5, va="center", bbox=_PLATE, **where
            )
            note.set_in_layout(False)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlim(low, high)
        panel.set_xlabel(self.intensity_unit, fontsize=8)
        panel.set_ylabel(self.speed_unit, fontsize=8)
        panel.set_title(f"{self.kernel} on {self.gpu}", loc="left", fontsize=8, fontweight="bold", parse_math=False)
        panel.legend(fontsize=7, loc="lower right")
        return figure


def spread_labels(points: Sequence[RooflinePoint], gap: float) -> list[tuple[str, float]]:
    """Labels of points that lie above each other; those within a factor of `gap` share one, which names two."""
    groups: list[list[RooflinePoint]] = []
    for point in sorted(points, key=lambda each: each.speed):
        if groups and point.speed < gap * groups[-1][0].speed:
            groups[-1].append(point)
        else:
            groups.append([point])
    found = []
    for group in groups:
        names = ", ".join(point.label for point in group[:2])
        more = f" and {len(group) - 2} more" if len(group) > 2 else ""
        found.append((names + more, group[0].speed))
    return found


def roofline(
    workload: Workload,
    gpu: Gpu,
    predictions: Iterable[Prediction] = (),
    measured: Iterable[Reference] | None = None,
) -> Roofline:
    """The roofs that a workload meets on a machine (see `warplens.api.place`), and predictions below them."""
    needed_by = "the roofline view"
    facts = analyse(workload, gpu, Needs("instruction_mix" if workload.offers("instruction_mix") else ""), needed_by)
    bytes_moved = {name: value for name, value in facts.bytes_per_instruction().items() if value > 0}
    made = list(predictions)
    clock = float(gpu.clock_hz)
    if bytes_moved:
        unit, scale = "G warp instructions / s", float(gpu.sms) * clock / 1e9
        slopes = {name: _bandwidth(gpu, name) for name in bytes_moved}
        levels = [
            Level(name, 1.0 / moved, slope / 1e9)
            for name, moved in bytes_moved.items()
            if (slope := slopes[name]) is not None
        ]
        intensity = "warp instructions / byte"
    else:
        workload.require("instruction_mix", needed_by)
        mix = facts.mix
        unit, scale = "warp instructions / cycle of an SM", 1.0
        intensity = "warp instructions / memory instruction"
        memory = [(facts.timing(name, needed_by), entry.count) for name, entry in mix.of_kind("memory")]
        busy = sum(float(timing.interval_cycles) * count for timing, count in memory)
        levels = [Level("memory", mix.total / mix.memory_count, mix.memory_count / busy)] if busy else []
    if not levels:
        raise InputError(f"{workload.name}: moves no bytes that {gpu.name!r} has a bandwidth for; it has no roofline")
    ceilings = [Ceiling("issue limit", float(gpu.issue_rate) * scale), *_pipelines(facts, scale, needed_by)]

    def speed(cpi: float) -> float:
        ipc = float(gpu.sms) / cpi
        return ipc * clock / 1e9 if bytes_moved else ipc / float(gpu.sms)

    points = [RooflinePoint(p.model, speed(p.cpi)) for p in made]
    for each in measured or ():
        if made and each.kernel == workload.name and each.gpu in (None, gpu.name):
            points.append(RooflinePoint(each.label, speed(each.cpi_beside(made[0])), True))
    return Roofline(
        workload.name, gpu.name, tuple(levels), tuple(ceilings), tuple(points), intensity, unit
    )  # fmt: skip


def _bandwidth(gpu: Gpu, level: str) -> float | None:
    """Bytes per second of a level, all SMs together; an L1 gives a line a cycle."""
    if level == "L1":
        return float(gpu.sms) * float(gpu.clock_hz) * float(gpu.l1.line_bytes)
    value = gpu.get(f"{'noc' if level == 'LLC' else 'dram'}.bandwidth_bytes_per_s")
    return None if value is None else float(value)


def _pipelines(facts: Facts, scale: float, needed_by: str) -> list[Ceiling]:
    """The busiest pipeline of an SM that is no memory, where the mix of instructions is known."""
    if not facts.workload.offers("instruction_mix"):
        return []
    mix = facts.mix
    busy: dict[str, float] = {}
    for name, entry in mix.of_kind("compute", "shared"):
        timing = facts.timing(name, needed_by)
        busy[str(timing.subsystem)] = busy.get(str(timing.subsystem), 0.0) + entry.count * float(
            timing.interval_cycles
        )
    busy = {name: cycles for name, cycles in busy.items() if cycles > 0}
    if not busy:
        return []
    name = max(busy, key=lambda each: busy[each])
    return [Ceiling(f"pipeline {name}", mix.total / busy[name] * scale)]
