"""Speed over resident warps, as several models see it: the occupancy roofline of Volkov and of Lemeire et al."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import Input, place, predict
from ..errors import InputError
from ..machine import Gpu
from ..models import BEST, MODELS, get_model
from ..workload import resident
from .stacks import MOST_LINEAR
from .style import model_style
from .view import COLUMN, Figure, Table, View, axis, escaped, layout

#: Occupancies that are worked out; of more that are possible, an even selection.
MOST_POINTS = 16
#: Part of the best IPC at which a curve counts as saturated.
SATURATED = 0.95


@dataclass(frozen=True)
class OccupancyCurve:
    """IPC of the whole GPU and cycles of the launch at every number of resident warps."""

    model: str
    ipc: tuple[float, ...]
    cycles: tuple[float, ...]


@dataclass(frozen=True)
class Occupancy(View):
    """One curve per model; `resident_warps` is where the launch is."""

    name = "occupancy"
    heading = "Occupancy roofline"
    shows = "IPC over resident warps, by model"

    kernel: str
    gpu: str
    warps: tuple[float, ...]
    resident_warps: float
    curves: tuple[OccupancyCurve, ...]

    def saturation(self, curve: OccupancyCurve) -> float:
        """The fewest warps from which on nearly all of the best IPC is kept until it is reached."""
        ipc = np.asarray(curve.ipc)
        short = np.flatnonzero(ipc < SATURATED * ipc.max())
        before = short[short < int(np.argmax(ipc))]
        return self.warps[int(before[-1]) + 1 if len(before) else 0]

    @property
    def _scale(self) -> str:
        """Logarithmic where models are too far apart at full occupancy to be told apart otherwise."""
        last = [curve.ipc[-1] for curve in self.curves]
        return "log" if max(last) > MOST_LINEAR * min(last) else "linear"

    @property
    def summary(self) -> str:
        order = {curve.model: curve for curve in self.curves}
        best = next((order[name] for name in BEST if name in order), self.curves[0])
        return (
            f"IPC over resident warps of {self.kernel} on {self.gpu}, which has {self.resident_warps:g} of them; "
            f"{best.model} reaches {100 * SATURATED:g} % of its best IPC with {self.saturation(best):g}"
        )

    def table(self) -> Table:
        columns = [curve.ipc for curve in self.curves]
        rows = tuple(zip(self.warps, *columns, strict=True))
        return Table(("warps per SM", *(f"IPC, {curve.model}" for curve in self.curves)), rows)

    def figure(self) -> Figure:
        traces = []
        for curve in self.curves:
            colour, dash, _ = model_style(curve.model)
            traces.append({"type": "scatter", "mode": "lines+markers", "name": escaped(curve.model),
                           "x": list(self.warps), "y": list(curve.ipc), "customdata": list(curve.cycles),
                           "line": {"color": colour, "dash": dash}, "marker": {"size": 5},
                           "hovertemplate": "%{x} warps: IPC %{y:.4g}, %{customdata:,.0f} cycles"})  # fmt: skip
        line = {"color": "rgba(127,127,127,1)", "width": 1.5, "dash": "dash"}
        here = {"type": "line", "x0": self.resident_warps, "x1": self.resident_warps, "y0": 0, "y1": 1,
                "yref": "paper", "line": line}  # fmt: skip
        note = {"text": "this launch", "x": self.resident_warps, "y": 1, "yref": "paper", "yanchor": "bottom",
                "showarrow": False, "font": {"size": 11}}  # fmt: skip
        x, y = (
            axis("resident warps per SM", rangemode="tozero"),
            axis("IPC of the GPU", rangemode="tozero", type=self._scale),
        )
        side = {"orientation": "v", "x": 1.02, "y": 1, "font": {"size": 12}}
        return {
            "data": traces,
            "layout": layout(
                height=max(380, 90 + 20 * len(traces)),
                xaxis=x,
                yaxis=y,
                shapes=[here],
                annotations=[note],
                legend=side,
            ),
        }

    def draw(self, plt: Any) -> Any:
        lines = -(-len(self.curves) // 3)
        figure, panel = plt.subplots(figsize=(COLUMN, 2.5 + 0.11 * lines))
        for curve in self.curves:
            colour, _, dash = model_style(curve.model)
            panel.plot(self.warps, curve.ipc, color=colour, linestyle=dash, label=curve.model, linewidth=1.3)
        panel.axvline(self.resident_warps, color="#555555", linewidth=0.8, linestyle="--")
        panel.set_xlim(0, max(self.warps) * 1.02)
        panel.set_yscale(self._scale)
        if self._scale == "linear":
            panel.set_ylim(bottom=0)
        panel.set_xlabel("resident warps per SM", fontsize=8)
        panel.set_ylabel("IPC of the GPU", fontsize=8)
        panel.set_title(f"{self.kernel} on {self.gpu}", loc="left", fontsize=8, fontweight="bold", parse_math=False)
        figure.legend(loc="outside lower center", fontsize=6, ncols=3, handlelength=1.8, columnspacing=1.0)
        return figure


def occupancy(
    workload: Input,
    gpu: Gpu | str | None = None,
    models: Sequence[str] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    points: int = MOST_POINTS,
) -> Occupancy:
    """IPC of every model that the input allows, at whole blocks from one up to what an SM holds."""
    given = dict(overrides or {})
    placed, machine = place(workload, gpu, given)
    residency = resident(placed.launch, machine)
    step = float(residency.warps_per_block) if placed.launch.threads_per_block is not None else 1.0
    possible = np.arange(step, float(machine.max_warps) + 1e-9, step)
    here = float(residency.warps_per_sm)
    if not len(possible):
        raise InputError(f"{placed.name}: a block has more warps than fit on an SM of {machine.name!r}")
    warps = np.unique(possible[np.linspace(0, len(possible) - 1, min(len(possible), points)).round().astype(int)])
    if len(possible) > len(warps) and here in possible:
        warps = np.unique(np.append(warps, here))
    batch = placed.with_overrides({"launch.warps_per_sm": warps})
    curves = []
    for name in models or MODELS:
        model = get_model(name, (options or {}).get(name))
        try:
            made = predict(batch, machine, model)
        except InputError:
            if models:
                raise
            continue
        # A model that the number of warps does not move answers with one number for all.
        ipc, cycles = (
            np.broadcast_to(np.asarray(value, dtype=float), warps.shape) for value in (made.ipc, made.cycles)
        )
        curves.append(OccupancyCurve(name, tuple(ipc.tolist()), tuple(cycles.tolist())))
    if not curves:
        raise InputError(f"{placed.name}: no model can use this input on {machine.name!r} at other occupancies")
    return Occupancy(placed.name, machine.name, tuple(warps.tolist()), here, tuple(curves))
