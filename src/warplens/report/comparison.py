"""All models side by side: their CPI, and what each says it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..models import Prediction
from .style import CATEGORY_COLOURS, PLAIN_COLOUR, pyplot, save


def draw_comparison(predictions: Sequence[Prediction], path: Path) -> None:
    """One row of panels per kernel and machine: CPI on the left, shares of the CPI stack on the right."""
    plt = pyplot()
    groups: dict[tuple[str, str], list[Prediction]] = {}
    for prediction in predictions:
        groups.setdefault((prediction.kernel, prediction.gpu), []).append(prediction)
    heights = [0.9 + 0.22 * len(group) for group in groups.values()]
    figure, axes = plt.subplots(
        len(groups),
        2,
        figsize=(7.2, sum(heights) + 0.3),
        squeeze=False,
        sharey="row",
        gridspec_kw={"width_ratios": [1, 1.4], "height_ratios": heights},
    )
    used: set[str] = set()
    for (left, right), ((kernel, gpu), group) in zip(axes, groups.items(), strict=True):
        _draw_cpi(left, group)
        used |= _draw_shares(right, group)
        left.set_yticks(range(len(group)), [prediction.model for prediction in group])
        left.invert_yaxis()
        left.set_title(f"{kernel} on {gpu}", loc="left", fontsize=9, fontweight="bold")
    shown = {name: colour for name, colour in CATEGORY_COLOURS.items() if name in used}
    if shown:
        handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in shown.values()]
        figure.legend(handles, shown, loc="outside upper right", ncols=len(shown), fontsize=7.5, handlelength=1.0)
    save(figure, path)


def _draw_cpi(axis: Any, group: list[Prediction]) -> None:
    smallest = min(prediction.cpi for prediction in group)
    axis.barh(range(len(group)), [prediction.cpi for prediction in group], color=PLAIN_COLOUR, height=0.65)
    for position, prediction in enumerate(group):
        place = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": 7}
        axis.annotate(f"{prediction.cpi:.3g}", (prediction.cpi, position), **place)
    axis.set_xscale("log")
    axis.set_xlim(smallest / 3, max(prediction.cpi for prediction in group) * 6)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("CPI of one SM (cycles per warp instruction)")


def _draw_shares(axis: Any, group: list[Prediction]) -> set[str]:
    used = set()
    for position, prediction in enumerate(group):
        left = 0.0
        for name, part in (prediction.stack or {}).items():
            share = 100.0 * part / prediction.cpi
            axis.barh(position, share, left=left, color=CATEGORY_COLOURS[name], height=0.65)
            left += share
            if share >= 0.1:
                used.add(name)
        if prediction.stack is None:
            axis.annotate("no stack in its paper", (1, position), va="center", fontsize=7, color="#777777")
    axis.set_xlim(0, 100)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("share of the CPI, %")
    return used
