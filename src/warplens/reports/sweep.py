"""Pictures of sweeps: fronts, tornado plots, heat maps, and performance over the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..machine import find_parameter
from ..sweeps.local import Sensitivity
from ..sweeps.questions import HeatMap, heat_map, pareto_front, parse_cost, performance
from ..units import format_number
from .style import LINE_COLOURS, PLAIN_COLOUR
from .view import Figure, Table, View, axis, escaped, layout


@dataclass(frozen=True)
class Front(View):
    """All configurations of a sweep and those that no other one beats, speed over a cost."""

    name = "pareto"
    heading = "Pareto front"
    shows = "speed against cost"
    needs = "a sweep"

    @property
    def title(self) -> str:
        return f"{self.heading}, {self.model}"

    model: str
    costs: tuple[str, ...]
    #: Cost -> values of all configurations, and of the front.
    cost: dict[str, tuple[float, ...]]
    speed: tuple[float, ...]
    front_cost: dict[str, tuple[float, ...]]
    front_speed: tuple[float, ...]

    @property
    def summary(self) -> str:
        return (
            f"{self.model}: of {len(self.speed)} configurations, {len(self.front_speed)} are on the front of speed "
            f"against {' and '.join(self.costs)}; they reach up to {max(self.front_speed):.3g} warp instructions / s"
        )

    def table(self) -> Table:
        rows = zip(*(self.front_cost[cost] for cost in self.costs), self.front_speed, strict=True)
        return Table((*self.costs, "warp instructions / s"), tuple(rows))

    def figure(self) -> Figure:
        traces: list[dict[str, Any]] = []
        axes: dict[str, Any] = {}
        width = 1.0 / len(self.costs)
        for number, cost in enumerate(self.costs):
            end = f"{number + 1}" if number else ""
            place = {"xaxis": f"x{end}", "yaxis": f"y{end}", "type": "scatter", "showlegend": number == 0}
            traces.append({**place, "mode": "markers", "x": list(self.cost[cost]), "y": list(self.speed),
                           "name": "configurations", "marker": {"color": PLAIN_COLOUR, "size": 6}})  # fmt: skip
            # A front over several costs is a surface: seen from one side its points do not follow each other.
            mode = "lines+markers" if len(self.costs) == 1 else "markers"
            traces.append({**place, "mode": mode, "x": list(self.front_cost[cost]), "y": list(self.front_speed),
                           "name": "front", "marker": {"color": LINE_COLOURS[1], "size": 8},
                           "line": {"color": LINE_COLOURS[1]}})  # fmt: skip
            domain = [number * width, (number + 1) * width - (0.08 if number + 1 < len(self.costs) else 0)]
            axes[f"xaxis{end}"] = axis(cost, domain=domain, anchor=f"y{end}")
            axes[f"yaxis{end}"] = axis("warp instructions / s", anchor=f"x{end}")
        return {"data": traces, "layout": layout(height=380, **axes)}

    def draw(self, plt: Any) -> Any:
        figure, axes = plt.subplots(1, len(self.costs), figsize=(4.5 * len(self.costs), 3.5), squeeze=False)
        for panel, cost in zip(axes[0], self.costs, strict=True):
            panel.scatter(self.cost[cost], self.speed, s=8, color=PLAIN_COLOUR, label="configurations")
            style = "o-" if len(self.costs) == 1 else "o"
            panel.plot(
                self.front_cost[cost], self.front_speed, style, ms=4, lw=1, color=LINE_COLOURS[1], label="front"
            )
            panel.set_xlabel(cost)
            panel.set_ylabel("warp instructions / s")
            panel.set_title(self.model)
            panel.legend()
        return figure


def front(table: Any, costs: Sequence[str], model: str) -> Front:
    """The front of a sweep's table as one model sees it."""
    rows, speed = performance(table, model)
    found = pareto_front(table, costs, model)
    return Front(
        model,
        tuple(costs),
        {cost: tuple(parse_cost(cost).of(rows).tolist()) for cost in costs},
        tuple(speed.tolist()),
        {cost: tuple(found.column(f"cost: {cost}").to_pylist()) for cost in costs},
        tuple(found.column("performance").to_pylist()),
    )


@dataclass(frozen=True)
class Tornado(View):
    """Speed at half and twice of every parameter, relative to the machine as it is."""

    name = "sensitivity"
    heading = "Other machines"
    shows = "speed at half and twice each parameter"

    of: str
    parameters: tuple[Sensitivity, ...]

    @property
    def summary(self) -> str:
        helps = [(self.best(each), each) for each in self.parameters]
        told = [
            f"{'half' if each.key.endswith('.latency') else 'twice'} the {each.key} gives {gain:.2f}×"
            for gain, each in sorted(helps, key=lambda item: -(item[0] or 0.0))
            if gain is not None
        ]
        return f"{self.of}: {', '.join(told)}"

    @staticmethod
    def best(each: Sensitivity) -> float | None:
        """Speed with the parameter improved by a factor of two."""
        return each.at_half if each.key.endswith(".latency") else each.at_double

    def table(self) -> Table:
        rows = tuple(
            (each.key, each.value, each.elasticity, each.at_half, each.at_double) for each in self.parameters
        )
        return Table(("parameter", "value", "elasticity", "speed at half", "speed at twice"), rows)

    def figure(self) -> Figure:
        names = [each.key for each in self.parameters]
        traces = [
            {"type": "bar", "orientation": "h", "y": names, "base": 1.0, "name": name, "marker": {"color": colour},
             "x": [None if speed is None else speed - 1.0 for speed in speeds],
             "customdata": speeds, "hovertemplate": "%{y}: %{customdata:.3f}×"}
            for name, speeds, colour in (
                ("half the value", [each.at_half for each in self.parameters], LINE_COLOURS[3]),
                ("twice the value", [each.at_double for each in self.parameters], LINE_COLOURS[0]),
            )
        ]  # fmt: skip
        line = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": {"width": 1}}
        y = {"autorange": "reversed", "automargin": True, "type": "category"}
        height = 120 + 32 * len(names)
        x = axis("speed, relative to the machine as it is")
        return {
            "data": traces,
            "layout": layout(height=height, barmode="group", bargap=0.25, xaxis=x, yaxis=y, shapes=[line]),
        }

    def draw(self, plt: Any) -> Any:
        found = self.parameters
        figure, panel = plt.subplots(figsize=(5.5, 0.9 + 0.28 * len(found)))
        for place, each in enumerate(reversed(found)):
            for shift, speed, colour in (
                (0.19, each.at_half, LINE_COLOURS[3]),
                (-0.19, each.at_double, LINE_COLOURS[0]),
            ):
                if speed is not None:
                    panel.barh(place + shift, speed - 1.0, left=1.0, color=colour, height=0.36)
        panel.set_yticks(range(len(found)), [each.key for each in reversed(found)])
        panel.axvline(1.0, color="black", lw=0.8)
        panel.set_xlabel("speed at half (yellow) and twice (blue) the value")
        panel.set_title(self.of, parse_math=False)
        return figure


@dataclass(frozen=True)
class HeatMaps(View):
    """One map per model on a scale of their own, as MDM's Figs. 11 and 12 lay them out."""

    name = "heat-map"
    heading = "Heat maps"
    shows = "IPC over the first two parameters of a sweep; warp instructions per second where the clock varies"
    needs = "a sweep over two or more"

    @property
    def title(self) -> str:
        return f"{self.heading}: {self.maps[0].kernel}"

    maps: tuple[HeatMap, ...]

    @property
    def summary(self) -> str:
        parts = []
        for each in self.maps:
            row, column = np.unravel_index(np.nanargmax(each.values), each.values.shape)
            x, y = shown(each.x_key, each.x[column]), shown(each.y_key, each.y[row])
            parts.append(f"{each.model}: most at {each.x_key} = {x}, {each.y_key} = {y}")
        one = self.maps[0]
        mean = ", the mean over all other parameters" if one.averaged else ""
        return f"{one.measure} of {one.kernel} over {one.x_key} and {one.y_key}{mean}; {'; '.join(parts)}"

    def table(self) -> Table:
        rows = [
            (each.model, shown(each.x_key, x), shown(each.y_key, y), float(each.values[i, j]))
            for each in self.maps
            for i, y in enumerate(each.y)
            for j, x in enumerate(each.x)
        ]
        return Table(("model", self.maps[0].x_key, self.maps[0].y_key, self.maps[0].measure), tuple(rows))

    def figure(self) -> Figure:
        """Maps beside each other, three a row, each with the numbers of its own scale in its hover texts."""
        columns = min(len(self.maps), 3)
        lines = -(-len(self.maps) // columns)
        traces: list[dict[str, Any]] = []
        axes: dict[str, Any] = {}
        notes = []
        for number, each in enumerate(self.maps):
            end = f"{number + 1}" if number else ""
            column, line = number % columns, number // columns
            x_domain = [column / columns + 0.02, (column + 1) / columns - 0.05]
            y_domain = [1 - (line + 1) / lines + 0.12 / lines + 0.05, 1 - line / lines - 0.08 / lines]
            values = [[None if np.isnan(value) else float(value) for value in row] for row in each.values]
            traces.append({"type": "heatmap", "z": values, "xaxis": f"x{end}", "yaxis": f"y{end}",
                           "x": [shown(each.x_key, value) for value in each.x],
                           "y": [shown(each.y_key, value) for value in each.y],
                           "colorscale": "Viridis", "showscale": False, "name": escaped(each.model),
                           "hovertemplate": f"{each.x_key} %{{x}}, {each.y_key} %{{y}}: %{{z:.4g}} "
                                            f"{each.measure}"})  # fmt: skip
            axes[f"xaxis{end}"] = axis(each.x_key, domain=x_domain, anchor=f"y{end}", type="category")
            axes[f"yaxis{end}"] = axis(each.y_key if column == 0 else "", domain=y_domain, anchor=f"x{end}",
                                       type="category")  # fmt: skip
            least, most = np.nanmin(each.values), np.nanmax(each.values)
            text = f"<b>{escaped(each.model)}</b>, {each.measure}: {least:.3g} to {most:.3g}"
            notes.append({"text": text, "x": x_domain[0], "y": y_domain[1], "xref": "paper", "yref": "paper",
                          "xanchor": "left", "yanchor": "bottom", "showarrow": False})  # fmt: skip
        return {"data": traces, "layout": layout(height=300 * lines + 40, annotations=notes, **axes)}

    def draw(self, plt: Any) -> Any:
        columns = min(len(self.maps), 4)
        lines = -(-len(self.maps) // columns)
        figure, axes = plt.subplots(lines, columns, figsize=(3.4 * columns, 3.0 * lines), squeeze=False)
        for panel in axes.flat[len(self.maps) :]:
            panel.axis("off")
        for panel, each in zip(axes.flat, self.maps, strict=False):
            image = panel.imshow(each.values, origin="lower", aspect="auto", cmap="viridis")
            panel.set_xticks(range(len(each.x)), [shown(each.x_key, value) for value in each.x], rotation=60)
            panel.set_yticks(range(len(each.y)), [shown(each.y_key, value) for value in each.y])
            panel.set_xlabel(each.x_key)
            panel.set_ylabel(each.y_key)
            panel.set_title(each.model)
            panel.grid(False)
            figure.colorbar(image, ax=panel, label=each.measure)
        figure.suptitle(self.maps[0].kernel, parse_math=False)
        return figure


def heat_maps(table: Any, x: str, y: str, kernel: str, models: Sequence[str]) -> HeatMaps:
    """Speed of one kernel of a sweep over two parameters, as several models see it."""
    if not models:
        raise InputError("a heat map needs a model")
    return HeatMaps(tuple(heat_map(table, x, y, kernel, model) for model in models))


def shown(key: str, value: float) -> str:
    """A value of a sweep's parameter, with its unit."""
    return format_number(float(value), None if key.startswith("launch.") else find_parameter(key).unit)
