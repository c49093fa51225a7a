"""A picture of public programs on an H200."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warplens.reports.style import LINE_COLOURS, pyplot, save

from .programs import OWN, Row


def draw(rows: Sequence[Row], folder: Path) -> Path:
    """programs.png: predicted over measured cycles against measured ones, with the ranges."""
    path = folder / "programs.png"
    save(_ratios(pyplot(), rows), path)
    return path


def _ratios(plt: Any, rows: Sequence[Row]) -> Any:
    figure, axis = plt.subplots(figsize=(9, 4.5))
    axis.set(xscale="log", yscale="log", ylim=(0.2, 5.0), xlabel="measured cycles", ylabel="predicted / measured")
    axis.set_yticks((0.25, 0.5, 0.8, 1, 1.2, 2, 4), ("¼", "½", "0.8", "1", "1.2", "2", "4"))
    axis.minorticks_off()
    axis.axhspan(0.8, 1.2, color="#dddddd", linewidth=0)
    axis.axhline(1.0, color="#333333", linewidth=0.9)
    limiters = sorted({row.predicted.limiter for row in rows})
    for number, limiter in enumerate(limiters):
        some = [row for row in rows if row.predicted.limiter == limiter and OWN in row.predicted.cycles]
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        for row in some:
            if row.predicted.low is not None and row.predicted.high is not None:
                ends = [
                    min(max(each / row.launch.cycles, 0.2), 5.0) for each in (row.predicted.low, row.predicted.high)
                ]
                axis.plot([row.launch.cycles] * 2, ends, color=colour, linewidth=0.6, alpha=0.5)
        ratios = [min(max(row.predicted.cycles[OWN] / row.launch.cycles, 0.2), 5.0) for row in some]
        axis.plot([row.launch.cycles for row in some], ratios, "o", color=colour, markersize=4, label=limiter)
    axis.legend(fontsize=8, title="limiter", title_fontsize=8)
    return figure
