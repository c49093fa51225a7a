"""Predicted times of a kernel over the commits of its project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileError, InputError
from ..formatting import show_seconds
from ..gate import Identity, Point
from .page import Figures, document, text, view_figure
from .style import FORMATS, LINE_COLOURS
from .view import BOTH_COLUMNS, Figure, Table, View, axis, escaped, layout


@dataclass(frozen=True)
class KernelHistory(View):
    """A kernel's time by commit, a line per GPU; None where a commit does not have it."""

    name = "history"
    heading = "Predicted time by commit"
    shows = "a kernel's time over the commits of a project"
    needs = "`warplens check --history`"

    kernel: str
    commits: tuple[str, ...]
    subjects: tuple[str, ...]
    #: GPU -> seconds.
    seconds: dict[str, tuple[float | None, ...]]

    @property
    def title(self) -> str:
        return self.kernel

    @property
    def summary(self) -> str:
        parts = []
        for gpu, times in self.seconds.items():
            known = [each for each in times if each is not None]
            parts.append(f"{show_seconds(known[0], 3)} to {show_seconds(known[-1], 3)} on {gpu}")
        return f"{self.kernel} over {len(self.commits)} commits: {'; '.join(parts)}"

    def table(self) -> Table:
        rows = zip(self.commits, self.subjects, *self.seconds.values(), strict=True)
        return Table(("commit", "subject", *(f"{gpu}, s" for gpu in self.seconds)), tuple(rows))

    def figure(self) -> Figure:
        traces = []
        for (gpu, times), colour in zip(self.seconds.items(), LINE_COLOURS * len(self.seconds), strict=False):
            traces.append({"type": "scatter", "mode": "lines+markers", "name": escaped(gpu), "x": list(self.commits),
                           "y": [None if each is None else 1e6 * each for each in times],
                           "text": [escaped(each) for each in self.subjects], "line": {"color": colour},
                           "hovertemplate": "%{x} %{text}: %{y:.4g} µs"})  # fmt: skip
        x, y = axis("commit", type="category"), axis("predicted time, µs", rangemode="tozero")
        return {"data": traces, "layout": layout(height=320, xaxis=x, yaxis=y, showlegend=True)}

    def draw(self, plt: Any) -> Any:
        figure, panel = plt.subplots(figsize=(BOTH_COLUMNS, 2.6))
        for (gpu, times), colour in zip(self.seconds.items(), LINE_COLOURS * len(self.seconds), strict=False):
            values = [float("nan") if each is None else 1e6 * each for each in times]
            panel.plot(self.commits, values, color=colour, marker="o", markersize=3, label=gpu, linewidth=1.3)
        panel.set_ylim(bottom=0)
        panel.tick_params(axis="x", rotation=60, labelsize=6)
        panel.set_ylabel("predicted time, µs", fontsize=8)
        panel.set_title(self.kernel, loc="left", fontsize=8, fontweight="bold", parse_math=False)
        panel.legend(fontsize=7)
        return figure


def histories(points: Sequence[Point]) -> list[KernelHistory]:
    """A view for each kernel that a commit has."""
    found = []
    known = dict.fromkeys(each.identity for point in points for each in point.snapshots)
    names = [str(identity) for identity in known]
    for identity in known:
        gpus = dict.fromkeys(each.gpu for point in points for each in point.snapshots if each.identity == identity)
        title = str(identity) if names.count(str(identity)) == 1 else f"{identity} of {identity.path}"
        found.append(
            KernelHistory(
                title,
                tuple(point.commit.short for point in points),
                tuple(point.commit.subject for point in points),
                {gpu: tuple(_seconds(point, identity, gpu) for point in points) for gpu in gpus},
            )
        )
    return found


def _seconds(point: Point, identity: Identity, gpu: str) -> float | None:
    return next((each.seconds for each in point.snapshots if (each.identity, each.gpu) == (identity, gpu)), None)


def write_history(points: Sequence[Point], path: Path) -> None:
    """A page with all kernels, or a picture of the only one."""
    views = histories(points)
    if not views:
        raise InputError("none of the commits has a kernel that can be predicted; choose more with --commits")
    if path.suffix in FORMATS:
        if len(views) > 1:
            raise InputError(f"{path}: a picture shows one kernel; choose it with --kernel, or write an .html page")
        views[0].save(path)
        return
    figures = Figures()
    failed = (f"{point.commit.short} cannot be predicted: {point.error}" for point in points if point.error)
    notes = "".join(f'<p class="note">{text(each)}</p>' for each in failed)
    shown = "".join(view_figure(view, f"kernel-{number + 1}", figures) for number, view in enumerate(views))
    try:
        path.write_text(document("History", "history", notes + shown, figures), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None
