"""Pictures of sweeps: fronts, tornado plots, heat maps, and performance over the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..machine import find_parameter
from ..sweep.local import Sensitivity
from ..sweep.questions import HeatMap, parse_cost
from ..units import format_number
from .style import LINE_COLOURS, PLAIN_COLOUR, pyplot, save


def draw_front(rows: Any, speed: Any, front: Any, costs: Sequence[str], model: str, path: Path) -> None:
    """All configurations and the front, speed over each cost."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(costs), figsize=(4.5 * len(costs), 3.5), squeeze=False)
    for axis, cost in zip(axes[0], costs, strict=True):
        axis.scatter(parse_cost(cost).of(rows), speed, s=8, color=PLAIN_COLOUR, label="configurations")
        best = front.column(f"cost: {cost}").to_numpy(), front.column("performance").to_numpy()
        axis.plot(*best, "o-", ms=4, lw=1, color=LINE_COLOURS[1], label="front")
        axis.set_xlabel(cost)
        axis.set_ylabel("warp instructions / s")
        axis.set_title(model)
        axis.legend()
    save(figure, path)


def draw_tornado(found: Sequence[Sensitivity], title: str, path: Path) -> None:
    """Speed at half and twice of every parameter, relative to the machine as it is."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(5.5, 0.9 + 0.28 * len(found)))
    for place, each in enumerate(reversed(found)):
        for speed, colour in ((each.at_half, LINE_COLOURS[3]), (each.at_double, LINE_COLOURS[0])):
            if speed is not None:
                axis.barh(place, speed - 1.0, left=1.0, color=colour, height=0.7)
    axis.set_yticks(range(len(found)), [each.key for each in reversed(found)])
    axis.axvline(1.0, color="black", lw=0.8)
    axis.set_xlabel("speed at half (yellow) and twice (blue) the value")
    axis.set_title(title)
    save(figure, path)


def draw_heat_maps(maps: Sequence[HeatMap], path: Path) -> None:
    """One map per model on a scale of their own, as MDM's Figs. 11 and 12 lay them out."""
    plt = pyplot()
    columns = min(len(maps), 4)
    lines = -(-len(maps) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(3.4 * columns, 3.0 * lines), squeeze=False)
    for axis in axes.flat[len(maps) :]:
        axis.axis("off")
    for axis, each in zip(axes.flat, maps, strict=False):
        image = axis.imshow(each.values, origin="lower", aspect="auto", cmap="viridis")
        axis.set_xticks(range(len(each.x)), [_label(each.x_key, value) for value in each.x], rotation=60)
        axis.set_yticks(range(len(each.y)), [_label(each.y_key, value) for value in each.y])
        axis.set_xlabel(each.x_key)
        axis.set_ylabel(each.y_key)
        axis.set_title(each.model)
        axis.grid(False)
        figure.colorbar(image, ax=axis)
    figure.suptitle(maps[0].kernel)
    save(figure, path)


def draw_clocks(hertz: Any, seconds: Mapping[str, Any], title: str, path: Path) -> None:
    """Performance over the clock, relative to the first clock, one line per model."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6.0, 4.0))
    for number, (model, times) in enumerate(seconds.items()):
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        style = ("-", "--", ":")[number // len(LINE_COLOURS) % 3]
        axis.plot(np.asarray(hertz) / 1e9, times[0] / times, style, color=colour, label=model)
    axis.set_xlabel("clock, GHz")
    axis.set_ylabel("performance over that of the first clock")
    axis.set_title(title)
    axis.legend(ncols=2, fontsize=7)
    save(figure, path)


def _label(key: str, value: float) -> str:
    return format_number(float(value), None if key.startswith("launch.") else find_parameter(key).unit)
