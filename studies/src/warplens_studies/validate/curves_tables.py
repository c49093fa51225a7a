"""Tables and pictures of curves that others measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warplens.reports.style import LINE_COLOURS, pyplot, save

from .curves import TITLES, CurvePoint, agreements
from .report import Sections
from .tables import Cell, Table

DATASET = "curves"
PICTURE = "curves.png"


def summary_table(points: Sequence[CurvePoint]) -> Table:
    """How far each curve is off."""
    cells = []
    for (curve, gpu, kernel), each in agreements(points).items():
        ratios = [p.predicted / p.measured for p in points if (p.curve, p.gpu, p.kernel) == (curve, gpu, kernel)]
        shares = (each.median_error or 0.0), (each.mean_error or 0.0)
        numbers = [str(each.configurations), *(f"{100 * share:.0f}" for share in shares)]
        numbers += [f"{min(ratios):.2f}", f"{max(ratios):.2f}"]
        cells.append((Cell(TITLES[curve][0]), Cell(f"`{gpu}`"), Cell(kernel), *map(Cell, numbers)))
    columns = ("points", "median error, %", "mean error, %", "least ratio", "greatest ratio")
    note = "ratio: predicted over measured"
    return Table("curves of other GPUs", ("curve", "GPU", "kernel", *columns), tuple(cells), labels=3, note=note)


def point_table(points: Sequence[CurvePoint], curve: str) -> Table:
    """Every point of one curve."""
    _, x, unit = TITLES[curve]
    cells = [
        (
            Cell(f"`{p.gpu}`"),
            Cell(p.kernel),
            Cell(f"{p.x:g}"),
            Cell(f"{p.measured:g}"),
            Cell(f"{p.predicted:.4g}"),
            Cell(f"{p.predicted / p.measured:.2f}"),
        )
        for p in points
        if p.curve == curve
    ]
    columns = ("GPU", "kernel", x, f"measured, {unit}", f"predicted, {unit}", "ratio")
    return Table(TITLES[curve][0], columns, tuple(cells), labels=2)


def all_tables(points: Sequence[CurvePoint]) -> list[Table]:
    return [summary_table(points)]


def sections(points: Sequence[CurvePoint]) -> Sections:
    return {
        "summary": lambda: [summary_table(points)],
        "strides": lambda: [point_table(points, "stride")],
        "latencies": lambda: [point_table(points, "latency")],
    }


def draw_all(points: Sequence[CurvePoint], folder: Path) -> list[Path]:
    """curves.png: bandwidth against occupancy, a panel for every GPU; dots are measured."""
    chosen = [point for point in points if point.curve == "occupancy"]
    names = list(dict.fromkeys(point.gpu for point in chosen))
    figure, axes = pyplot().subplots(1, len(names), figsize=(3.0 * len(names), 3.0), squeeze=False)
    for gpu, axis in zip(names, axes.flat, strict=True):
        for number, kernel in enumerate(dict.fromkeys(p.kernel for p in chosen if p.gpu == gpu)):
            mine = [p for p in chosen if (p.gpu, p.kernel) == (gpu, kernel)]
            colour, xs = LINE_COLOURS[number], [p.x for p in mine]
            axis.plot(xs, [p.predicted for p in mine], color=colour, linewidth=1.2, label=kernel)
            axis.plot(xs, [p.measured for p in mine], ".", color=colour, markersize=4)
        axis.set_title(gpu, fontsize=9)
        axis.set_ylim(bottom=0)
    axes.flat[0].legend(fontsize=7)
    figure.supxlabel("occupancy, %; dots: measured", fontsize=8)
    figure.supylabel("GB/s", fontsize=8)
    save(figure, folder / PICTURE)
    return [folder / PICTURE]
