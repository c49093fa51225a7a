"""Interval profile of the representative warp: instructions it issues, and what it waits for after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis import STALL_CAUSES
from ..machine import Gpu
from ..workload import Needs, Workload, analyse
from .style import CATEGORY_COLOURS
from .view import BOTH_COLUMNS, Figure, Table, View, axis, layout

#: Intervals that are shown; a profile repeats itself long before.
MOST_INTERVALS = 120


@dataclass(frozen=True)
class Intervals(View):
    """The first intervals of a warp that runs alone: cycles of issue, and of stalls by cause."""

    name = "intervals"
    heading = "Interval profile"
    shows = "issue and stall cycles of the representative warp's first intervals, by cause"
    needs = "an interval profile"

    kernel: str
    gpu: str
    instructions: tuple[float, ...]
    issue_cycles: tuple[float, ...]
    stall_cycles: dict[str, tuple[float, ...]]
    read_misses: tuple[float, ...]
    total_intervals: int
    total_instructions: float
    total_stall_cycles: float
    #: Of the whole profile, not of the intervals that are shown alone.
    stalls_by_cause: dict[str, float]

    @property
    def summary(self) -> str:
        total = self.total_stall_cycles
        causes = ", ".join(
            f"{100 * cycles / total:.0f} % {name}" for name, cycles in self.stalls_by_cause.items() if cycles > 0
        )
        return (
            f"a warp of {self.kernel} alone on {self.gpu}: {self.total_instructions:.0f} instructions in "
            f"{self.total_intervals} intervals, {total:.0f} cycles of stalls" + (f" ({causes})" if total else "")
        )

    @property
    def _shown(self) -> str:
        part = len(self.instructions)
        return "" if part == self.total_intervals else f", first {part} of {self.total_intervals}"

    def table(self) -> Table:
        stalls = [self.stall_cycles[name] for name in STALL_CAUSES]
        rows = zip(range(1, len(self.instructions) + 1), self.instructions, *stalls, self.read_misses, strict=True)
        names = tuple(f"stall cycles, {name}" for name in STALL_CAUSES)
        return Table(("interval", "instructions", *names, "L1 read misses"), tuple(rows))

    def figure(self) -> Figure:
        places = list(range(1, len(self.instructions) + 1))
        parts = {"BASE": self.issue_cycles, **self.stall_cycles}
        traces = [
            {"type": "bar", "x": places, "y": list(values), "name": "issue" if name == "BASE" else name,
             "marker": {"color": CATEGORY_COLOURS[name]},
             "hovertemplate": "interval %{x}: %{y:.4g} cycles"}
            for name, values in parts.items()
            if any(values)
        ]  # fmt: skip
        x, y = axis(f"interval of the representative warp{self._shown}"), axis("cycles")
        return {"data": traces, "layout": layout(height=340, barmode="stack", bargap=0.15, xaxis=x, yaxis=y)}

    def draw(self, plt: Any) -> Any:
        figure, panel = plt.subplots(figsize=(BOTH_COLUMNS, 2.4))
        places = np.arange(1, len(self.instructions) + 1)
        bottom = np.zeros(len(places))
        for name, values in {"BASE": self.issue_cycles, **self.stall_cycles}.items():
            if any(values):
                label = "issue" if name == "BASE" else name
                panel.bar(places, values, 0.85, bottom=bottom, color=CATEGORY_COLOURS[name], label=label)
                bottom += np.asarray(values)
        panel.set_xlabel(f"interval of the representative warp{self._shown}")
        panel.set_ylabel("cycles")
        panel.margins(x=0.01)
        panel.grid(axis="x", visible=False)
        panel.set_title(f"{self.kernel} on {self.gpu}", loc="left", fontsize=9, fontweight="bold", parse_math=False)
        figure.legend(loc="outside upper right", ncols=5, fontsize=7.5, handlelength=1.0)
        return figure


def intervals(workload: Workload, gpu: Gpu) -> Intervals:
    """The profile that interval models see (see `warplens.api.place`)."""
    facts = analyse(workload, gpu, Needs("interval_profile"), "the interval view")
    _, profile = next(iter(facts.intervals))
    some = slice(0, MOST_INTERVALS)
    instructions, stalls = profile.column("instructions"), profile.column("stall_cycles")
    by_cause = stalls[some, None] * profile.causes[some]
    return Intervals(
        workload.name,
        gpu.name,
        tuple(instructions[some].tolist()),
        tuple((instructions[some] / float(gpu.issue_rate)).tolist()),
        {name: tuple(by_cause[:, index].tolist()) for index, name in enumerate(STALL_CAUSES)},
        tuple(profile.column("read_misses")[some].tolist()),
        len(profile),
        profile.total_instructions,
        float(stalls.sum()),
        dict(zip(STALL_CAUSES, profile.stall_by_cause.tolist(), strict=True)),
    )
