"""Rooflines: what each level of memory and the pipelines allow a kernel, and what it reaches.

The instruction roofline (Ding and Williams) has warp instructions over bytes;
of an instruction mix alone, instructions per memory instruction (Lemeire's
form). The FLOP roofline has floating-point operations by precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..formatting import show_number
from ..machine import INSTRUCTION_CLASSES, Gpu
from ..models import Prediction
from ..workload import Facts, Needs, Workload, analyse
from ..workload.flops import flops_of, peak_flops
from ..workload.samples import executed_classes
from .stacks import Reference
from .style import LINE_COLOURS
from .view import COLUMN, Figure, Table, View, axis, escaped, layout

#: Under labels that lie over lines.
_PLATE = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.4}
_LEVEL_COLOURS = {"L1": LINE_COLOURS[2], "L2": LINE_COLOURS[3], "DRAM": LINE_COLOURS[0], "memory": LINE_COLOURS[0]}
_GREY = "rgba(127,127,127,1)"


@dataclass(frozen=True)
class Level:
    """A level of memory: the kernel's intensity there, and the slope of its roof (speed over intensity)."""

    label: str
    intensity: float
    slope: float


@dataclass(frozen=True)
class Ceiling:
    """A limit that intensity does not change. `binds`: it is one for this kernel."""

    label: str
    speed: float
    binds: bool = True


@dataclass(frozen=True)
class RooflinePoint:
    """What the kernel reaches, predicted or measured, over its intensity at a level."""

    label: str
    level: str
    intensity: float
    speed: float
    measured: bool = False


@dataclass(frozen=True)
class Roofline(View):
    """Speeds over intensities: one dot for each level of memory."""

    name = "roofline"
    heading = "Instruction roofline"
    shows = (
        "roofs of issue, the busiest pipeline, L1, L2 and DRAM, and where the kernel lies below each, in warp "
        "instructions per byte. For an instruction mix alone: instructions per memory instruction (Lemeire's form)"
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
        limits = {each.label: each.speed for each in self.ceilings if each.binds}
        limits |= {each.label: each.slope * each.intensity for each in self.levels}
        return min(limits.items(), key=lambda item: item[1])

    @property
    def summary(self) -> str:
        label, speed = self.bound
        told = f"{label} allows {show_number(speed)} {self.speed_unit}, less than any other limit"
        first = next((point for point in self.points if not point.measured), None)
        reached = f"; {first.label} reaches {100 * first.speed / speed:.0f} % of it" if first else ""
        return f"{self.kernel} on {self.gpu}: {told}{reached}"

    def table(self) -> Table:
        rows: list[tuple[Any, ...]] = [
            ("roof", each.label, each.intensity, each.slope * each.intensity) for each in self.levels
        ]
        rows += [("roof", each.label, None, each.speed) for each in self.ceilings]
        rows += [
            ("measured" if each.measured else "model", f"{each.label}, {each.level}", each.intensity, each.speed)
            for each in self.points
        ]
        return Table(("", "of", self.intensity_unit, self.speed_unit), tuple(rows))

    @property
    def _roof(self) -> float:
        return max(each.speed for each in self.ceilings)

    @property
    def _range(self) -> tuple[float, float]:
        """Intensities to show: those of the kernel, and the ridges."""
        places = [each.intensity for each in self.points] or [each.intensity for each in self.levels]
        places += [self._roof / each.slope for each in self.levels]
        return min(places) / 3, max(places) * 3

    @property
    def _ceiling_labels(self) -> list[tuple[str, float]]:
        """(Text, height) of labels; ceilings that are close share one, which stands above the highest."""
        groups: list[list[Ceiling]] = []
        for each in sorted(self.ceilings, key=lambda ceiling: ceiling.speed):
            if groups and each.speed < 1.6 * groups[-1][-1].speed:
                groups[-1].append(each)
            else:
                groups.append([each])
        return [(", ".join(each.label for each in group), group[-1].speed) for group in groups]

    def figure(self) -> Figure:
        low, high = self._range
        traces: list[dict[str, Any]] = []
        for level in self.levels:
            ridge = self._roof / level.slope
            traces.append({"type": "scatter", "mode": "lines", "x": [low, ridge],
                           "y": [level.slope * low, self._roof], "name": level.label, "hoverinfo": "name",
                           "line": {"color": _LEVEL_COLOURS[level.label], "width": 2}})  # fmt: skip
        start = min(self._roof / each.slope for each in self.levels)
        for ceiling in self.ceilings:
            style = {"width": 2} if ceiling.binds else {"width": 1, "dash": "dot"}
            begin = start * ceiling.speed / self._roof
            traces.append({"type": "scatter", "mode": "lines", "x": [begin, high], "y": [ceiling.speed] * 2,
                           "name": escaped(ceiling.label), "hoverinfo": "name+y", "showlegend": False,
                           "line": {"color": _GREY, **style}})  # fmt: skip
        notes = [
            {"text": escaped(label), "x": float(np.log10(high)), "xanchor": "right", "yanchor": "bottom",
             "y": float(np.log10(speed)), "xshift": -50 * (index % 2), "showarrow": False, "font": {"size": 11}}
            for index, (label, speed) in enumerate(self._ceiling_labels)  # those one above the other stand apart
        ]  # fmt: skip
        for point in self.points:
            traces.append({"type": "scatter", "mode": "markers", "x": [point.intensity], "y": [point.speed],
                           "name": escaped(point.label), "showlegend": point.measured,
                           "marker": {"size": 14 if point.measured else 11,
                                      "symbol": "star" if point.measured else "circle",
                                      "color": _GREY if point.measured else _LEVEL_COLOURS[point.level],
                                      "line": {"width": 1, "color": "rgba(0,0,0,.6)"}},
                           "hovertemplate": f"{escaped(point.label)}, {point.level}: "
                                            "%{y:.4g} at %{x:.4g}<extra></extra>"})  # fmt: skip
        x = axis(self.intensity_unit, type="log", range=np.log10([low, high]).tolist()) | {"dtick": 1}
        y = axis(self.speed_unit, type="log") | {"dtick": 1}
        return {"data": traces, "layout": layout(height=260, xaxis=x, yaxis=y, annotations=notes)}

    def draw(self, plt: Any) -> Any:
        low, high = self._range
        figure, panel = plt.subplots(figsize=(COLUMN, 2.9))
        for level in self.levels:
            ridge = self._roof / level.slope
            panel.plot([low, ridge], [level.slope * low, self._roof], color=_LEVEL_COLOURS[level.label],
                       label=level.label, linewidth=1.4)  # fmt: skip
        start = min(self._roof / each.slope for each in self.levels)
        for ceiling in self.ceilings:
            panel.plot([start * ceiling.speed / self._roof, high], [ceiling.speed] * 2, color="#555555",
                       linewidth=1.4 if ceiling.binds else 0.8, linestyle="-" if ceiling.binds else ":")  # fmt: skip
        for label, speed in self._ceiling_labels:
            place = {"ha": "right", "va": "bottom", "fontsize": 6.5, "bbox": _PLATE}
            panel.annotate(f"{label} ", (high, speed), **place)
        for point in self.points:
            colour = "black" if point.measured else _LEVEL_COLOURS[point.level]
            panel.plot([point.intensity], [point.speed], "*" if point.measured else "o", color=colour,
                       markersize=9 if point.measured else 6, zorder=3)  # fmt: skip
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlim(low, high)
        panel.set_xlabel(self.intensity_unit, fontsize=8)
        panel.set_ylabel(self.speed_unit, fontsize=8)
        panel.set_title(f"{self.kernel} on {self.gpu}", loc="left", fontsize=8, fontweight="bold", parse_math=False)
        panel.legend(fontsize=7, loc="lower right")
        return figure


@dataclass(frozen=True)
class FlopRoofline(Roofline):
    """The classic roofline: floating-point operations by precision, a multiply-add counting as two."""

    name = "flops"
    heading = "FLOP roofline"
    shows = "peaks by precision (FMA = 2) and roofs of L1, L2 and DRAM, and where the kernel lies below each"
    needs = "a trace or a CUDA source"


def roofline(
    workload: Workload, gpu: Gpu, prediction: Prediction, measured: Iterable[Reference] | None = None
) -> Roofline:
    """The roofs that a workload meets on a machine (see `warplens.api.place`), and a prediction below them."""
    needed_by = "the roofline view"
    of_mix = "instruction_mix" if workload.offers("instruction_mix") else ""
    form = "machine_code" in prediction.terms
    facts = analyse(workload, gpu, Needs(of_mix, events=form), needed_by)
    executed = executed_classes(facts) if form else {}
    more = sum(executed.values()) or 1.0
    moved = _bytes_by_level(facts, prediction)
    if moved:
        unit, scale = "G warp instructions / s", float(gpu.clock_hz) / 1e9
        intensity = "warp instructions / byte"
        levels = [Level(name, more / each, bandwidth / 1e9) for name, (each, bandwidth) in moved.items()]
    else:
        workload.require("instruction_mix", needed_by)
        mix = facts.mix
        unit, scale = "warp instructions / cycle of an SM", 1.0 / float(gpu.sms)
        intensity = "warp instructions / memory instruction"
        memory = [(facts.timing(name, needed_by), entry.count) for name, entry in mix.of_kind("memory")]
        busy = sum(float(timing.interval_cycles) * count for timing, count in memory)
        levels = [Level("memory", mix.total / mix.memory_count, mix.memory_count / busy)] if busy else []
    if not levels:
        raise InputError(f"{workload.name}: moves no bytes that {gpu.name!r} has a bandwidth for; it has no roofline")
    issue = Ceiling("issue limit", float(gpu.issue_rate) * float(gpu.sms) * scale)
    ceilings = [issue, *_pipelines(facts, executed, float(gpu.sms) * scale, needed_by)]
    speed = more * float(gpu.sms) / float(prediction.cpi) * scale
    points = [RooflinePoint(prediction.model, each.label, each.intensity, speed) for each in levels]
    for each in _known(measured, workload, gpu):
        reached = more * float(gpu.sms) / each.cpi_beside(prediction) * scale
        points.append(RooflinePoint(each.label, levels[-1].label, levels[-1].intensity, reached, True))
    return Roofline(workload.name, gpu.name, tuple(levels), tuple(ceilings), tuple(points), intensity, unit)


def flop_roofline(
    workload: Workload, gpu: Gpu, prediction: Prediction, measured: Iterable[Reference] | None = None
) -> FlopRoofline:
    """Floating-point operations of a traced workload below the peaks and bandwidths of a machine."""
    facts = analyse(workload, gpu, needed_by="the FLOP roofline")
    counts, peaks = flops_of(workload), peak_flops(gpu)
    if not counts:
        raise InputError(f"{workload.name}: does no floating-point arithmetic")
    if missing := [name for name in counts if name not in peaks]:
        raise InputError(f"machine {gpu.name!r} gives no throughput of {', '.join(missing)} instructions")
    assert facts.traced is not None
    per_instruction = {name: count / facts.traced.warp.recorded_instructions for name, count in counts.items()}
    moved = _bytes_by_level(facts, prediction)
    if not moved:
        raise InputError(f"{workload.name}: moves no bytes that {gpu.name!r} has a bandwidth for; it has no roofline")
    most = max(counts, key=lambda name: counts[name] / peaks[name])
    main = per_instruction[most]
    levels = [Level(name, main / each, bandwidth / 1e12) for name, (each, bandwidth) in moved.items()]
    ceilings = [Ceiling(name, peak / 1e12, name == most) for name, peak in peaks.items()]

    def speed(precision: str, cpi: float) -> float:
        return per_instruction[precision] * float(gpu.sms) / cpi * float(gpu.clock_hz) / 1e12

    label, cpi = f"{prediction.model}, {most}", float(prediction.cpi)
    points = [RooflinePoint(label, each.label, each.intensity, speed(most, cpi)) for each in levels]
    last = levels[-1].label
    for name, flops in per_instruction.items():
        if name != most:
            place = flops / moved[last][0]
            points.append(RooflinePoint(f"{prediction.model}, {name}", last, place, speed(name, cpi)))
    for each in _known(measured, workload, gpu):
        reached = speed(most, each.cpi_beside(prediction))
        points.append(RooflinePoint(each.label, last, levels[-1].intensity, reached, True))
    units = ("FLOP / byte", "TFLOP / s")
    return FlopRoofline(workload.name, gpu.name, tuple(levels), tuple(ceilings), tuple(points), *units)


def _known(measured: Iterable[Reference] | None, workload: Workload, gpu: Gpu) -> list[Reference]:
    return [each for each in measured or () if each.kernel == workload.name and each.gpu in (None, gpu.name)]


def _bytes_by_level(facts: Facts, prediction: Prediction) -> dict[str, tuple[float, float]]:
    """(bytes that a warp instruction moves, bytes per second) of levels that have both.

    Counted bytes are at most those for which the model keeps a level busy: part of a line may do for a store, and
    what is dirty at the end stays in the cache.
    """
    seconds = float(prediction.cpi) / float(facts.gpu.sms) / float(facts.gpu.clock_hz)
    found = {}
    for name, counted in facts.bytes_per_instruction().items():
        level, bandwidth = "L2" if name == "LLC" else name, _bandwidth(facts.gpu, name)
        busy = float(prediction.terms.get(f"busy_{'NoC' if name == 'LLC' else name}", np.inf))
        if bandwidth and min(counted, busy) > 0:
            found[level] = (min(counted, busy * bandwidth * seconds), bandwidth)
    return found


def _bandwidth(gpu: Gpu, level: str) -> float:
    """Bytes per second of a level, all SMs together; an L1 gives a line a cycle. 0 where it is not known."""
    if level == "L1":
        return float(gpu.sms) * float(gpu.clock_hz) * float(gpu.l1.line_bytes)
    return float(gpu.get(f"{'noc' if level == 'LLC' else 'dram'}.bandwidth_bytes_per_s") or 0.0)


def _pipelines(facts: Facts, executed: Mapping[str, float], scale: float, needed_by: str) -> list[Ceiling]:
    """The busiest pipeline of an SM that is no memory, where the mix of instructions is known.

    `executed` are the classes of the machine code that runs in place of PTX.
    """
    if not facts.workload.offers("instruction_mix"):
        return []
    mix = executed or {name: entry.count for name, entry in facts.mix.of_kind("compute", "shared")}
    total = sum(executed.values()) or facts.mix.total
    busy: dict[str, float] = {}
    for name in (each for each in mix if INSTRUCTION_CLASSES[each].kind in ("compute", "shared")):
        timing = facts.timing(name, needed_by)
        subsystem = str(timing.subsystem)
        busy[subsystem] = busy.get(subsystem, 0.0) + mix[name] * float(timing.interval_cycles)
    busy = {name: cycles for name, cycles in busy.items() if cycles > 0}
    if not busy:
        return []
    name = max(busy, key=lambda each: busy[each])
    return [Ceiling(f"pipeline {name}", total / busy[name] * scale)]
