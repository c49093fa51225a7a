"""IPC over one parameter, a line per model: sweeps of one axis, and predictions of a batch of machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InputError
from ..models import Prediction
from ..sweeps.questions import groups
from .stacks import MOST_LINEAR
from .style import model_style
from .sweep import shown
from .view import COLUMN, Figure, Table, View, axis, escaped, layout


@dataclass(frozen=True)
class Curve:
    """One model's IPC over the values of a parameter."""

    model: str
    values: tuple[float, ...]
    ipc: tuple[float, ...]


@dataclass(frozen=True)
class Curves(View):
    """IPC over the parameter `key`; where it is empty, over the number of the configuration."""

    name = "curve"
    heading = "Over one parameter"
    shows = "IPC over the only parameter of a sweep"
    needs = "a sweep over one"

    kernel: str
    key: str
    curves: tuple[Curve, ...]

    @property
    def title(self) -> str:
        return f"{self.heading}: {self.kernel}"

    def _value(self, value: float) -> str:
        return shown(self.key, value) if self.key else f"{value:g}"

    @property
    def summary(self) -> str:
        parts = []
        for curve in self.curves:
            best = int(np.argmax(curve.ipc))
            parts.append(f"{curve.model} most ({curve.ipc[best]:.3g}) at {self._value(curve.values[best])}")
        return f"IPC of {self.kernel} over {self.key or 'configurations'}: {'; '.join(parts)}"

    def table(self) -> Table:
        rows = [
            (curve.model, self._value(value), ipc)
            for curve in self.curves
            for value, ipc in zip(curve.values, curve.ipc, strict=True)
        ]
        return Table(("model", self.key or "configuration", "IPC"), tuple(rows))

    @property
    def _scale(self) -> str:
        """Logarithmic where the values span decades, as sizes do."""
        values = [value for curve in self.curves for value in curve.values]
        return "log" if min(values) > 0 and max(values) > MOST_LINEAR * min(values) else "linear"

    def figure(self) -> Figure:
        traces = []
        for curve in self.curves:
            colour, dash, _ = model_style(curve.model)
            few = "lines+markers" if len(curve.values) <= 40 else "lines"
            traces.append({"type": "scatter", "mode": few, "name": escaped(curve.model), "x": list(curve.values),
                           "y": list(curve.ipc), "line": {"color": colour, "dash": dash},
                           "hovertemplate": "%{x}: IPC %{y:.4g}"})  # fmt: skip
        x, y = axis(self.key or "configuration", type=self._scale), axis("IPC of the GPU", rangemode="tozero")
        return {"data": traces, "layout": layout(height=360, xaxis=x, yaxis=y, showlegend=True)}

    def draw(self, plt: Any) -> Any:
        figure, panel = plt.subplots(figsize=(COLUMN, 2.5 + 0.11 * -(-len(self.curves) // 3)))
        for curve in self.curves:
            colour, _, dash = model_style(curve.model)
            panel.plot(curve.values, curve.ipc, color=colour, linestyle=dash, label=curve.model, linewidth=1.3)
        panel.set_xscale(self._scale)
        panel.set_ylim(bottom=0)
        panel.set_xlabel(self.key or "configuration", fontsize=8)
        panel.set_ylabel("IPC of the GPU", fontsize=8)
        panel.set_title(self.kernel, loc="left", fontsize=8, fontweight="bold", parse_math=False)
        figure.legend(loc="outside lower center", fontsize=6, ncols=3, handlelength=1.8, columnspacing=1.0)
        return figure


def batch_curve(batch: Prediction) -> Curves:
    """A prediction for many machines, over the parameter that tells them apart."""
    if not batch.is_batch:
        raise InputError(f"{batch.kernel}: a curve needs more than one machine")
    varied = [key for key, value in batch.overrides.items() if np.ndim(value)]
    key = varied[0] if len(varied) == 1 else ""
    values = np.asarray(batch.overrides[key], dtype=float) if key else np.arange(len(batch), dtype=float)
    order = np.argsort(values, kind="stable")
    ipc = np.asarray(batch.ipc, dtype=float)[order]
    return Curves(batch.kernel, key, (Curve(batch.model, tuple(values[order].tolist()), tuple(ipc.tolist())),))


def sweep_curves(table: pa.Table, key: str, kernel: str, models: Sequence[str]) -> Curves:
    """A sweep of one parameter: each model's mean IPC at its values."""
    found = []
    for some in groups(table):
        model = some.column("model")[0].as_py()
        if some.column("kernel")[0].as_py() == kernel and model in models:
            values, inverse = np.unique(some.column(key).to_numpy(), return_inverse=True)
            ipc = np.bincount(inverse, weights=some.column("ipc").to_numpy()) / np.bincount(inverse)
            found.append(Curve(model, tuple(values.tolist()), tuple(ipc.tolist())))
    if not found:
        raise InputError(f"the sweep has no rows of kernel {kernel!r}")
    return Curves(kernel, key, tuple(found))
