"""Pictures of the comparison with an H200."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warplens.reports.style import LINE_COLOURS, pyplot, save

from .h200 import BOUND, H200Validation
from .h200_tables import DRAWN, Found, main_of


def draw_all(comparisons: Found, folder: Path) -> list[Path]:
    """h200-scatter.png and, if kernels were swept, h200-sweeps.png."""
    found = main_of(comparisons)
    models = [model for model in DRAWN if model in found.models]
    paths = [folder / "h200-scatter.png"]
    save(_scatter(pyplot(), found, models), paths[0])
    if found.swept:
        paths.append(folder / "h200-sweeps.png")
        save(_sweeps(pyplot(), found, models), paths[1])
    return paths


def _scatter(plt: Any, found: H200Validation, models: Sequence[str]) -> Any:
    """Predicted against measured cycles, one panel for every model; short kernels are hollow."""
    columns = 4
    lines = math.ceil(len(models) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(11, 2.9 * lines), sharex=True, sharey=True, squeeze=False)
    long = set(found.long_kernels)
    real = [found.measured[kernel, 0].elapsed_cycles for kernel in found.kernels]
    ends = (min(real) / 2, max(real) * 2)
    for axis in axes.flat[len(models) :]:
        axis.set_visible(False)
    for number, (model, axis) in enumerate(zip(models, axes.flat, strict=False)):
        axis.set(xscale="log", yscale="log", xlim=ends, ylim=(ends[0] / 4, ends[1] * 4))
        axis.minorticks_off()
        axis.set_xticks((30_000, 100_000, 300_000), ("30k", "100k", "300k"))
        axis.plot(ends, ends, color="#333333", linewidth=0.9)
        axis.fill_between(
            ends, [0.7 * each for each in ends], [1.3 * each for each in ends], color="#dddddd", linewidth=0
        )
        worst = sorted(found.long_kernels, key=lambda kernel: -abs(math.log1p(found.error(model, kernel) or 0.0)))[:3]
        for kernel in found.kernels:
            cycles = found.cycles(model, kernel)
            if cycles is None:
                continue
            measured = found.measured[kernel, 0].elapsed_cycles
            colour = LINE_COLOURS[number % len(LINE_COLOURS)]
            axis.plot(
                measured,
                min(max(cycles, ends[0] / 4), ends[1] * 4),
                "o",
                markersize=4,
                markeredgecolor=colour,
                markerfacecolor=colour if kernel in long else "none",
            )
        _label(
            axis,
            {kernel: (found.measured[kernel, 0].elapsed_cycles, found.cycles(model, kernel)) for kernel in worst},
        )
        mean = found.summary(model).mape
        axis.set_title(f"{'bound from counters' if model == BOUND else model}: MAPE {100 * mean:.0f} %", fontsize=9)
    figure.supxlabel("measured elapsed cycles; grey: within 30 %; hollow: 20 µs or less", fontsize=8)
    figure.supylabel("predicted cycles", fontsize=8)
    return figure


def _label(axis: Any, points: Mapping[str, tuple[float, Any]]) -> None:
    """Label points from the lowest up; a label that would overlap another is raised."""
    low, high = map(math.log10, axis.get_ylim())
    per_point = (high - low) / 150  # in decades; a panel is about 150 points high
    free = low
    for kernel, (x, y) in sorted(points.items(), key=lambda item: item[1][1]):
        height = math.log10(y) - 2 * per_point
        raised = max(free - height, 0.0) / per_point
        right = x * x > math.prod(axis.get_xlim())
        axis.annotate(
            kernel,
            (x, y),
            fontsize=6,
            xytext=(-4 if right else 4, raised - 2),
            textcoords="offset points",
            ha="right" if right else "left",
        )
        free = max(height, free) + 7 * per_point


def _sweeps(plt: Any, found: H200Validation, models: Sequence[str]) -> Any:
    """Speed over resident warps, relative to the best measured one, one panel for every kernel."""
    columns = 5
    lines = math.ceil((len(found.swept) + 1) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(12, 2.2 * lines), squeeze=False)
    for axis in axes.flat[len(found.swept) :]:
        axis.axis("off")
    for kernel, axis in zip(found.swept, axes.flat, strict=False):
        levels = found.levels(kernel)
        warps = [found.predicted[kernel, blocks].warps_per_sm for blocks in levels]
        real = [found.measured[kernel, blocks].elapsed_cycles for blocks in levels]
        for number, model in enumerate(models):
            cycles = [found.cycles(model, kernel, blocks) for blocks in levels]
            if None not in cycles:
                speeds = [min(real) / each for each in cycles if each is not None]
                axis.plot(warps, speeds, color=LINE_COLOURS[number], linewidth=1.1, label=model)
        axis.plot(warps, [min(real) / each for each in real], "ko-", markersize=3.5, linewidth=1.4, label="measured")
        axis.set_title(kernel, fontsize=8)
        axis.set_ylim(0, 2.2)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[-1].legend(handles, labels, loc="center", fontsize=7)
    figure.supxlabel("resident warps per SM", fontsize=8)
    figure.supylabel("speed, of the best measured", fontsize=8)
    return figure
