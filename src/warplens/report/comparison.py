"""CPI of all models side by side, as stacks where the models have them (GPUMech Fig. 16 style)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..models import Prediction
from .style import CATEGORY_COLOURS, PLAIN_COLOUR, pyplot, save


def draw_comparison(predictions: Sequence[Prediction], path: Path) -> None:
    """One panel per kernel and machine, one bar per model."""
    plt = pyplot()
    groups: dict[tuple[str, str], list[Prediction]] = {}
    for prediction in predictions:
        groups.setdefault((prediction.kernel, prediction.gpu), []).append(prediction)
    most = max(len(group) for group in groups.values())
    figure, axes = plt.subplots(len(groups), 1, figsize=(7.2, (0.9 + 0.24 * most) * len(groups)), squeeze=False)
    used: dict[str, str] = {}
    for axis, ((kernel, gpu), group) in zip(axes[:, 0], groups.items(), strict=True):
        for position, prediction in enumerate(group):
            if prediction.stack is None:
                axis.barh(position, prediction.cpi, color=PLAIN_COLOUR, height=0.7)
                used["no stack"] = PLAIN_COLOUR
                continue
            left = 0.0
            for name, part in prediction.stack.items():
                axis.barh(position, part, left=left, color=CATEGORY_COLOURS[name], height=0.7)
                left += part
                if part > 0.002 * prediction.cpi:
                    used[name] = CATEGORY_COLOURS[name]
        for position, prediction in enumerate(group):
            axis.annotate(
                f"{prediction.cpi:.3g}",
                (prediction.cpi, position),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
        axis.set_yticks(range(len(group)), [prediction.model for prediction in group])
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.margins(x=0.1)
        axis.set_xlabel("cycles per warp instruction of one SM (CPI)")
        axis.set_title(f"{kernel} on {gpu}", loc="left", fontsize=9, fontweight="bold")
    order = [name for name in (*CATEGORY_COLOURS, "no stack") if name in used]
    handles = [plt.Rectangle((0, 0), 1, 1, color=used[name]) for name in order]
    figure.legend(handles, order, loc="outside upper center", ncols=min(len(order), 9), fontsize=8)
    save(figure, path)
