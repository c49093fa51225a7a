"""What the reference simulator saw: CPI stack, where an L1 miss spends its time, traffic over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..simulators.detailed import DetailedResult
from .style import CATEGORY_COLOURS, LINE_COLOURS, pyplot, save
from .view import BOTH_COLUMNS, Figure, Table, View, axis, layout

_COLOURS = {"NoC replies": LINE_COLOURS[3], "DRAM": LINE_COLOURS[0]}


@dataclass(frozen=True)
class Simulated(View):
    """One launch, cycle by cycle: parts of the CPI, parts of a mean L1 miss, bytes per second over time."""

    name = "simulation"
    heading = "Reference simulator"
    shows = "where an L1 miss spends its time; traffic over time"
    needs = "a trace, `--simulate`"

    kernel: str
    gpu: str
    cycles: float
    cpi: float
    stack: Mapping[str, float]
    miss_latency: Mapping[str, float]
    cycle: tuple[float, ...]
    gigabytes_per_s: dict[str, tuple[float, ...]]

    @property
    def summary(self) -> str:
        whole = sum(self.miss_latency.values())
        part = max(self.miss_latency, key=lambda name: self.miss_latency[name])
        mean = sum(self.gigabytes_per_s["DRAM"]) / max(len(self.cycle), 1)
        return (
            f"{self.kernel} on {self.gpu}, simulated: {self.cycles:,.0f} cycles, CPI {self.cpi:.3g}; an L1 miss "
            f"takes {whole:.0f} cycles, {100 * self.miss_latency[part] / max(whole, 1):.0f} % of them in {part}; "
            f"DRAM carries {mean:.3g} GB/s on average"
        )

    def table(self) -> Table:
        columns = list(self.gigabytes_per_s)
        rows = zip(self.cycle, *(self.gigabytes_per_s[name] for name in columns), strict=True)
        return Table(("cycle", *(f"{name}, GB/s" for name in columns)), tuple(rows))

    def figure(self) -> Figure:
        traces: list[dict[str, Any]] = []
        for name, cycles in self.miss_latency.items():
            traces.append({"type": "bar", "orientation": "h", "x": [cycles], "y": ["L1 miss"],
                           "name": name, "marker": {"color": _miss_colour(name)}, "xaxis": "x2",
                           "yaxis": "y2", "hovertemplate": name + ": %{x:.1f} cycles<extra></extra>"})  # fmt: skip
        for name, values in self.gigabytes_per_s.items():
            traces.append({"type": "scatter", "mode": "lines", "x": list(self.cycle), "y": list(values),
                           "name": f"{name} traffic", "line": {"color": _COLOURS[name], "shape": "hvh"},
                           "hovertemplate": "cycle %{x:,.0f}: %{y:.4g} GB/s"})  # fmt: skip
        return {
            "data": traces,
            "layout": layout(
                height=430,
                barmode="stack",
                xaxis=axis("cycle", anchor="y"),
                yaxis=axis("GB/s", domain=[0, 0.62], rangemode="tozero"),
                xaxis2=axis("cycles of an L1 miss, on average", anchor="y2"),
                yaxis2={"domain": [0.86, 1.0], "automargin": True},
            ),
        }

    def draw(self, plt: Any) -> Any:
        figure, (stack, latency, traffic) = plt.subplots(
            3, 1, figsize=(BOTH_COLUMNS, 4.6), gridspec_kw={"height_ratios": [0.55, 0.55, 2.0]}
        )
        stack_parts = [(name, part, CATEGORY_COLOURS[name]) for name, part in self.stack.items()]
        _bar(stack, stack_parts, f"CPI {self.cpi:.3g} of one SM")
        latency_parts = [(name, cycles, _miss_colour(name)) for name, cycles in self.miss_latency.items()]
        _bar(latency, latency_parts, "cycles of an L1 miss, on average")
        for name, values in self.gigabytes_per_s.items():
            traffic.plot(self.cycle, values, label=name, color=_COLOURS[name], drawstyle="steps-mid")
        traffic.set_xlabel("cycle")
        traffic.set_ylabel("GB/s")
        traffic.set_ylim(bottom=0)
        traffic.legend(loc="upper right", fontsize=8)
        title = f"{self.kernel} on {self.gpu}: {self.cycles:,.0f} cycles"
        figure.suptitle(title, fontsize=10, fontweight="bold", parse_math=False)
        return figure


def simulated(result: DetailedResult) -> Simulated:
    """The view of a cycle-level simulation."""
    used = int(np.ceil(result.cycles / result.bin_cycles))
    middle = (np.arange(used) + 0.5) * result.bin_cycles
    seconds = result.bin_cycles * result.seconds / result.cycles
    series = {"NoC replies": result.noc_bytes_over_time, "DRAM": result.dram_bytes_over_time}
    return Simulated(
        result.kernel,
        result.gpu,
        result.cycles,
        result.cpi,
        result.stack,
        result.miss_latency,
        tuple(middle.tolist()),
        {name: tuple((values[:used] / seconds / 1e9).tolist()) for name, values in series.items()},
    )


def draw_simulation(result: DetailedResult, path: Path) -> None:
    """Three panels for one simulation."""
    save(simulated(result).draw(pyplot()), path)


def _miss_colour(part: str) -> str:
    """A part of an L1 miss in the colour of the category that it belongs to (MDM Fig. 3)."""
    return CATEGORY_COLOURS["L2" if part == "LLC" else part]


def _bar(axis: Any, parts: list[tuple[str, float, str]], label: str) -> None:
    left = 0.0
    total = sum(part for _, part, _ in parts)
    for name, part, colour in parts:
        axis.barh(0, part, left=left, color=colour, height=0.7)
        if part > 0.06 * total:
            axis.annotate(name, (left + part / 2, 0), ha="center", va="center", fontsize=7.5)
        left += part
    axis.set_yticks([])
    axis.set_xlim(0, total if total > 0 else 1)
    axis.grid(visible=False)
    axis.set_xlabel(label, fontsize=8)
