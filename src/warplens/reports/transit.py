"""Transit's diagram: the warps that wait for memory, where supply and demand meet (Lemeire et al., Fig. 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..machine import Gpu
from ..models import get_model
from ..models.base import Case
from ..models.transit import sides_of
from ..workload import Workload, analyse
from .style import LINE_COLOURS
from .view import COLUMN, Figure, Table, View, axis, layout

_SUPPLY, _DEMAND = "memory side: supply f(k)", "compute side: demand g(ω − k)"


@dataclass(frozen=True)
class TransitDiagram(View):
    """Supply and demand in warps per cycle over k, and the balance of the model."""

    name = "transit"
    heading = "Transit diagram"
    shows = "Transit's balance of memory supply and compute demand"
    needs = "an instruction mix"

    kernel: str
    gpu: str
    warps: float
    waiting: tuple[float, ...]
    supply: tuple[float, ...]
    demand: tuple[float, ...]
    k: float
    warps_per_cycle: float

    @property
    def summary(self) -> str:
        return (
            f"{self.kernel} on {self.gpu}: of {self.warps:g} warps, {self.k:.3g} wait for memory where supply and "
            f"demand meet, at {self.warps_per_cycle:.4g} warps per cycle of an SM"
        )

    def table(self) -> Table:
        rows = zip(self.waiting, self.supply, self.demand, strict=True)
        return Table(("k", "memory supply, warps per cycle", "compute demand, warps per cycle"), tuple(rows))

    @property
    def _top(self) -> float:
        """Curves may rise far above the balance; twice of what matters is shown."""
        return 1.15 * min(max(self.supply), max(self.demand), 3.0 * self.warps_per_cycle)

    def figure(self) -> Figure:
        traces: list[dict[str, Any]] = [
            {"type": "scatter", "mode": "lines", "x": list(self.waiting), "y": list(values), "name": name,
             "line": {"color": colour}, "hovertemplate": "k = %{x:.3g}: %{y:.4g}"}
            for name, values, colour in (
                (_SUPPLY, self.supply, LINE_COLOURS[0]),
                (_DEMAND, self.demand, LINE_COLOURS[1]),
            )
        ]  # fmt: skip
        side = "top left" if self.k > self.warps / 2 else "top right"
        text = f"k = {self.k:.3g}, {self.warps_per_cycle:.3g} warps per cycle"
        traces.append({"type": "scatter", "mode": "markers+text", "x": [self.k], "y": [self.warps_per_cycle],
                       "text": [text], "textposition": side, "showlegend": False, "hoverinfo": "text",
                       "marker": {"size": 10, "color": "rgba(127,127,127,1)"}})  # fmt: skip
        x = axis("k: warps that wait for memory", range=[0, self.warps])
        y = axis("warps per cycle", range=[0, self._top])
        return {"data": traces, "layout": layout(height=360, xaxis=x, yaxis=y)}

    def draw(self, plt: Any) -> Any:
        figure, panel = plt.subplots(figsize=(COLUMN, 2.6))
        panel.plot(self.waiting, self.supply, color=LINE_COLOURS[0], label=_SUPPLY)
        panel.plot(self.waiting, self.demand, color=LINE_COLOURS[1], label=_DEMAND)
        panel.plot([self.k], [self.warps_per_cycle], "o", color="black", zorder=3)
        right = self.k > self.warps / 2
        panel.annotate(
            f"k = {self.k:.3f}\nWPC = {self.warps_per_cycle:.4f}",
            (self.k, self.warps_per_cycle),
            xytext=(-10 if right else 10, -4),
            textcoords="offset points",
            va="top",
            ha="right" if right else "left",
            fontsize=7,
        )
        panel.set_xlabel("k: warps that wait for memory", fontsize=8)
        panel.set_ylabel("warps per cycle", fontsize=8)
        panel.set_xlim(0, self.warps)
        panel.set_ylim(0, self._top)
        figure.legend(loc="outside lower center", ncols=1, fontsize=7)
        return figure


def transit_diagram(workload: Workload, gpu: Gpu, points: int = 81) -> TransitDiagram:
    """Transit's balance for a workload on one machine (see `warplens.api.place`)."""
    model = get_model("transit")
    needed_by = "model 'transit'"
    facts = analyse(workload, gpu, model.requirements, needed_by)
    made, case = model.predict(facts), Case(facts, needed_by)
    with np.errstate(divide="ignore"):
        sides = sides_of(case)
        if not (sides.memory_latency[0] and sides.compute_latency[0]):
            raise InputError(f"{workload.name}: has one side only, so Transit has nothing to balance")
        warps, k = float(case.W[0]), float(made.terms["k"])
        waiting = np.unique(np.append(np.linspace(0.0, warps, points), k))
        slopes = (waiting / sides.memory_latency[0], (warps - waiting) / sides.compute_latency[0])  # Eqs. (L-7, L-6)
    supply = np.minimum(sides.memory_roof[0], slopes[0])  # Eq. (L-5)
    demand = np.minimum(sides.compute_roof[0], slopes[1])  # Eq. (L-4)
    return TransitDiagram(
        workload.name,
        gpu.name,
        warps,
        tuple(waiting.tolist()),
        tuple(supply.tolist()),
        tuple(demand.tolist()),
        k,
        float(made.terms["WPC"]),
    )
