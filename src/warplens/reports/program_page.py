"""The page of a program: its kernels in a table, its timeline, and the answer for each kernel that takes long."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileError
from ..explanation import words
from ..formatting import show_factor, show_name, show_share
from ..programs import GpuTotal, KernelTotal, ProgramResult, Slice
from .answer import answer_nodes
from .elements import html
from .page import Figures, document, html_table, text, view_figure
from .style import LINE_COLOURS, PLAIN_COLOUR
from .view import BOTH_COLUMNS, Figure, Table, View, axis, escaped, layout

#: Launches and copies that the timeline draws: the longest ones.
MOST_SLICES = 2000


@dataclass(frozen=True)
class ProgramTimeline(View):
    """Launches and copies of a program over its predicted time, a row for each stream."""

    name = "program"
    heading = "Timeline"
    shows = "launches and copies of a program by stream"
    needs = "`warplens run --report`"

    gpu: str
    slices: tuple[Slice, ...]
    #: How many there are.
    total: int

    @property
    def summary(self) -> str:
        first = f", the {len(self.slices)} longest of {self.total}" if len(self.slices) < self.total else ""
        return f"Launches and copies on {self.gpu}, predicted{first}"

    @property
    def rows(self) -> dict[tuple[int, int], str]:
        """Names of the streams of all processes."""
        known = sorted({(each.process, each.stream) for each in self.slices})
        several = len({process for process, _ in known}) > 1
        return {
            (process, stream): (f"process {process}, " if several else "") + f"stream {stream}"
            for process, stream in known
        }

    @property
    def colours(self) -> dict[str, str]:
        """Of kernels by their time; the others, and copies, are grey."""
        spent: dict[str, float] = {}
        for each in self.slices:
            if each.launch is not None:
                spent[each.name] = spent.get(each.name, 0.0) + each.seconds
        return dict(zip(sorted(spent, key=lambda name: -spent[name]), LINE_COLOURS, strict=False))

    def table(self) -> Table:
        rows = (
            (each.name, self.rows[each.process, each.stream], 1e6 * each.start_seconds, 1e6 * each.seconds)
            for each in self.slices
        )
        return Table(("what", "stream", "start, µs", "time, µs"), tuple(rows))

    def figure(self) -> Figure:
        colours, names = self.colours, list(self.rows.values())
        bars = {
            "type": "bar",
            "orientation": "h",
            "y": [escaped(self.rows[each.process, each.stream]) for each in self.slices],
            "base": [1e6 * each.start_seconds for each in self.slices],
            "x": [1e6 * each.seconds for each in self.slices],
            "marker": {"color": [colours.get(each.name, PLAIN_COLOUR) for each in self.slices]},
            "hovertext": [f"{escaped(show_name(each.name))}: {words.time(each.seconds)}" for each in self.slices],
            "hoverinfo": "text",
        }
        look = layout(
            height=120 + 36 * len(names),
            barmode="overlay",
            xaxis=axis("predicted time, µs", rangemode="tozero"),
            yaxis=axis(type="category", autorange="reversed"),
            showlegend=False,
        )
        return {"data": [bars], "layout": look}

    def draw(self, plt: Any) -> Any:
        names, colours = list(self.rows), self.colours
        figure, panel = plt.subplots(figsize=(BOTH_COLUMNS, 0.8 + 0.35 * len(names)))
        for each in self.slices:
            span = [(1e6 * each.start_seconds, 1e6 * each.seconds)]
            row = names.index((each.process, each.stream))
            panel.broken_barh(span, (row - 0.4, 0.8), color=colours.get(each.name, PLAIN_COLOUR))
        panel.set_yticks(range(len(names)), list(self.rows.values()), fontsize=7)
        panel.invert_yaxis()
        panel.set_xlabel("predicted time, µs", fontsize=8)
        return figure


def program_timeline(result: ProgramResult) -> ProgramTimeline:
    """The longest launches and copies on the first GPU, in order."""
    longest = sorted(result.timeline, key=lambda each: -each.seconds)[:MOST_SLICES]
    shown = sorted(longest, key=lambda each: each.start_seconds)
    return ProgramTimeline(result.totals[0].gpu, tuple(shown), len(result.timeline))


def program_page(result: ProgramResult) -> str:
    """The whole page."""
    figures = Figures()
    answered = [each for each in result.kernels if each.answer is not None]
    titles = [f"{show_name(each.kernel)} on {each.gpu}" for each in answered]
    anchors = [f"kernel-{number + 1}" for number in range(len(answered))]
    links = "".join(
        f'<li><a href="#{anchor}">{text(title)}</a></li>' for anchor, title in zip(anchors, titles, strict=True)
    )
    body = [f'<p class="note">{text(each)}</p>' for each in result.failures]
    body += [_overview(result, total) for total in result.totals]
    if result.timeline:
        body.append(view_figure(program_timeline(result), "timeline", figures))
    for each, anchor, title in zip(answered, anchors, titles, strict=True):
        assert each.answer is not None
        answer = "".join(map(html, answer_nodes(each.answer)))
        body.append(f'<section id="{anchor}" class="kernel"><h2>{text(title)}</h2>{answer}</section>')
    navigation = f'<nav aria-label="Contents"><ol>{links}</ol></nav>' if len(answered) > 1 else ""
    return document(Path(result.command[0]).name, "program", "".join(body), figures, navigation)


def _overview(result: ProgramResult, total: GpuTotal) -> str:
    columns = ("kernel", "limiter", "launches", "total", "mean", "share", "largest gain")
    rows = tuple(_row(each) for each in result.kernels if each.gpu == total.gpu)
    return (
        f"<section><h2>{result.launches} launches on {text(total.gpu)}</h2>"
        f'<p class="description">{text(total.told)}</p>{html_table(Table(columns, rows), numbers_from=2)}</section>'
    )


def _row(each: KernelTotal) -> tuple[str, ...]:
    answer = each.answer
    return (
        show_name(each.kernel),
        answer.limiter.name if answer is not None and answer.limiter is not None else "",
        str(each.launches),
        words.time(each.seconds),
        words.time(each.mean_seconds),
        show_share(each.share),
        show_factor(answer.advice[0].speedup) if answer is not None and answer.advice else "",
    )


def write_program_page(result: ProgramResult, path: Path) -> None:
    try:
        path.write_text(program_page(result), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None
