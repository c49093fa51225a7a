"""Pieces that several reproductions draw with: captions, grouped bars, and tables as pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warplens.reports.style import LINE_COLOURS, pyplot, save

from .base import RECIPES, Reproduction

_CAPTION_SIZE = 6.5
_CAPTION_LINE_INCHES = 0.115
_CHARACTERS_PER_INCH = 20.5
_TITLE_LINE_INCHES = 0.17
_TITLE_CHARACTERS_PER_INCH = 11.0

AGREES, DIFFERS = "#e3f1e6", "#fbe0dc"


def draw(reproduction: Reproduction, folder: Path) -> Path:
    """NAME.png in `folder`: the figure, titled, with its assumptions as a small caption below."""
    plt = pyplot()
    figure = reproduction.draw(plt)
    width, height = figure.get_size_inches()
    columns = int(width * _CHARACTERS_PER_INCH)
    made = "beside what warplens has" if RECIPES[reproduction.name].restated else "recomputed by warplens"
    notes = [f"{reproduction.paper.authors}, {reproduction.paper.venue}; {made}."]
    notes += [f"Assumed: {text}." for text in reproduction.assumptions]
    notes += [f"Note: {text}." for text in reproduction.remarks]
    lines = [line for note in notes for line in textwrap.wrap(note, columns, subsequent_indent="   ")]
    title = textwrap.wrap(reproduction.title, int(width * _TITLE_CHARACTERS_PER_INCH))
    title_inches = _TITLE_LINE_INCHES * (len(title) - 1)
    figure.set_size_inches(width, height + 0.1 + _CAPTION_LINE_INCHES * len(lines) + title_inches)
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=_CAPTION_SIZE, color="#555555", linespacing=1.2)
    figure.suptitle("\n".join(title), x=0.01, ha="left", fontsize=10, fontweight="bold")
    path = folder / f"{reproduction.name}.png"
    save(figure, path)
    return path


def grouped_bars(
    axis: Any,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    colours: Sequence[str] = LINE_COLOURS,
    label: str | None = None,
) -> None:
    """One group of bars per name, one bar of each group per series; `label` formats a number on each bar."""
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        left = (number - (len(series) - 1) / 2) * width
        places = [position + left for position in range(len(groups))]
        bars = axis.bar(places, values, 0.92 * width, label=name, color=colours[number % len(colours)])
        if label is not None:
            axis.bar_label(bars, fmt=label, fontsize=6.5, padding=1)
    axis.set_xticks(range(len(groups)), groups)
    axis.grid(axis="x", visible=False)
    axis.margins(x=0.02)


def table_picture(
    plt: Any,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    widths: Sequence[float],
    fills: Mapping[tuple[int, int], str] | None = None,
    centred: bool = False,
) -> Any:
    """A table as a figure; `fills` gives (row, column) a background, `widths` are relative."""
    inches = sum(widths)
    figure, axis = plt.subplots(figsize=(inches, 0.6 + 0.25 * (len(rows) + 1)))
    axis.axis("off")
    made = axis.table(
        cellText=[list(row) for row in rows],
        colLabels=list(columns),
        colWidths=[width / inches for width in widths],
        cellLoc="center" if centred else "right",
        bbox=(0, 0, 1, 1),
    )
    made.auto_set_font_size(False)
    made.set_fontsize(8.5)
    for (row, column), cell in made.get_celld().items():
        cell.set_edgecolor("#dddddd")
        if column == 0:
            cell.get_text().set_ha("left")
            cell.PAD = 0.04
        if row == 0:
            cell.get_text().set_fontweight("bold")
            cell.set_facecolor("#f2f2f2")
        elif fills and (row - 1, column) in fills:
            cell.set_facecolor(fills[row - 1, column])
    return figure
