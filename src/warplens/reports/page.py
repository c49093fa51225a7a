"""The page of a report: one HTML text with its style, its figures and plotly.js inside.

Whatever comes from an input (names of kernels, sources, messages) goes through
`text`, or through JSON in which no tag can begin.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import MissingPackageError
from ..explanation import words
from ..formatting import show_factor, show_number, show_seconds
from ..models import Prediction
from .answer import answer_nodes
from .elements import html
from .source_page import source_listing
from .sweep_section import SweepSection
from .view import Figure, Table, View

if TYPE_CHECKING:
    from .build import Report
    from .section import Section

#: Views that are not for model researchers alone, and where they stand.
_PLACES = {"flops": "front", "roofline": "front", "source": "source"}
#: Rows of a table beside a figure; `--json` has them all.
MOST_ROWS = 200
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"


def text(value: Any) -> str:
    """Text for HTML, in elements and in attributes."""
    return escape(str(value), quote=True)


def plotly_script() -> str:
    """plotly.js as the package `plotly` brings it (4.8 MB)."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError("a page needs plotly; install it with: python -m pip install plotly")
    path = Path(next(iter(found.submodule_search_locations))) / "package_data" / "plotly.min.js"
    return path.read_text(encoding="utf-8").replace("</script", r"<\/script")


def embedded_json(document: Any) -> str:
    """JSON for a <script>: no tag or comment can begin inside."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


class Figures:
    """Figures of the page, numbered as they are placed."""

    def __init__(self) -> None:
        self.all: list[Figure] = []

    def place(self, view: View) -> str:
        self.all.append(view.figure())
        number = len(self.all) - 1
        height = self.all[-1]["layout"]["height"]
        return (
            f'<div class="plot" role="img" aria-label="{text(view.summary)}" data-figure="{number}" '
            f'style="height:{height}px"></div>'
        )


def page(report: Report) -> str:
    """The whole page."""
    figures = Figures()
    anchors = [f"kernel-{number + 1}" for number in range(len(report.sections))]
    sweep_anchors = [f"sweep-{number + 1}" for number in range(len(report.sweeps))]
    body = [_overview(report, anchors)]
    body += [_section(part, anchor, figures) for part, anchor in zip(report.sections, anchors, strict=True)]
    body += [_sweep(part, anchor, figures) for part, anchor in zip(report.sweeps, sweep_anchors, strict=True)]
    titles = [section.title for section in report.sections] + [f"sweep {part.name}" for part in report.sweeps]
    contents = "".join(
        f'<li><a href="#{anchor}">{text(title)}</a></li>'
        for anchor, title in zip((*anchors, *sweep_anchors), titles, strict=True)
    )
    # The overview leads to kernels.
    navigation = f'<nav aria-label="Contents"><ol>{contents}</ol></nav>' if report.sweeps and len(titles) > 1 else ""
    title = titles[0] if len(titles) == 1 else f"{len(titles)} results"
    return document(title, "report", "".join(body), figures, navigation)


def document(title: str, kind: str, body: str, figures: Figures, navigation: str = "") -> str:
    """A page around its body, with style, scripts and figures inside."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="warplens {__version__}">
<title>{text(title)} – warplens</title>
<style>{_asset("report.css")}{_asset("answer.css")}</style>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header><h1>warplens <span>{kind}</span></h1>
<button id="theme" type="button" aria-label="Switch between light and dark">◐</button></header>
{navigation}
<main id="main">
<noscript><p class="note">Figures need JavaScript; the tables below them have all numbers.</p></noscript>
{body}
</main>
<footer>warplens {__version__}. Predictions are models' views, not measurements, unless a line says so.</footer>
<script>{plotly_script()}</script>
<script type="application/json" id="figures">{embedded_json(figures.all)}</script>
<script>{_asset("report.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("warplens.reports").joinpath("assets", name).read_text(encoding="utf-8")


# -- sections ------------------------------------------------------------------------------


def _overview(report: Report, anchors: Sequence[str]) -> str:
    """Kernels at a glance; what limits each and what to change stands in its section."""
    if len(report.sections) < 2:
        return _notes(report.notes)
    rows = []
    for section, anchor in zip(report.sections, anchors, strict=True):
        link = f'<a href="#{anchor}">{text(section.kernel)}</a>'
        answer = section.answer
        limiter = answer.limiter.name if answer is not None and answer.limiter is not None else ""
        gain = show_factor(answer.advice[0].speedup) if answer is not None and answer.advice else ""
        time = words.time(section.base.seconds)
        rows.append(
            f"<tr><td>{link}</td><td>{text(section.gpu)}</td>"
            f'<td class="number">{time}</td><td>{text(limiter)}</td><td class="number">{gain}</td></tr>'
        )
    head = '<th scope="col">kernel</th><th scope="col">GPU</th><th scope="col" class="number">time</th>'
    head += '<th scope="col">limiter</th><th scope="col" class="number">largest gain</th>'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return (
        f'<section id="overview"><h2>Overview</h2>{_notes(report.notes)}'
        f'<div class="wide" tabindex="0">{table}</div>{_whole(report)}</section>'
    )


def _whole(report: Report) -> str:
    """All launches of an application together, where there are several."""
    whole = [p for p in report.overview if p.launch is None and "launches" in p.terms]
    if not whole:
        return ""
    rows = [(p.gpu, p.model, *_numbers(p)) for p in whole]
    return "<h3>All launches together</h3>" + html_table(
        Table(("GPU", "model", "time", "cycles", "CPI"), tuple(rows)), numbers_from=2
    )


def _numbers(p: Prediction) -> tuple[str, str, str]:
    return show_seconds(p.seconds), show_number(p.cycles), show_number(p.cpi)


def _section(section: Section, anchor: str, figures: Figures) -> str:
    """The answer with its rooflines, then two folds: the source line by line, and what model researchers ask for."""
    changed = ", ".join(
        f"{key} = {show_number(v) if isinstance(v, float) else v}" for key, v in section.overrides.items()
    )
    parts = [f'<section id="{anchor}" class="kernel"><h2>{text(section.title)}</h2>']
    if section.description:
        parts.append(f'<p class="description">{text(section.description)}</p>')
    if changed:
        parts.append(f'<p class="description">with {text(changed)}</p>')
    if section.answer is not None:
        parts += map(html, answer_nodes(section.answer))
    parts += [f'<p class="note">{text(each)}</p>' for each in section.compared]
    shown: dict[str, list[str]] = {}
    for number, view in enumerate(section.views):
        drawn = view_figure(view, f"{anchor}-view-{number}", figures)
        shown.setdefault(_PLACES.get(view.name, "research"), []).append(drawn)
    parts.append(f'<div class="pair">{"".join(shown.get("front", []))}</div>')
    if source := shown.get("source"):
        parts.append(_fold("Source, line by line", "".join(source)))
    research = _predictions(section) + "".join(shown.get("research", [])) + _validity(section)
    parts.append(_fold("For model researchers", research, opened=section.answer is None))
    parts.append("</section>")
    return "".join(parts)


def _fold(title: str, content: str, *, opened: bool = False) -> str:
    return f'<details class="fold"{" open" if opened else ""}><summary>{title}</summary>{content}</details>'


def _predictions(section: Section) -> str:
    notes = _numbered_warnings(section)
    rows = []
    for p in section.predictions:
        marks = " ".join(f"[{notes[warning]}]" for warning in p.warnings)
        largest = max(p.stack.items(), key=lambda item: item[1]) if p.stack else None
        share = "" if largest is None else f"{largest[0]} {100 * largest[1] / p.cpi:.0f} %"
        rows.append(
            (
                p.model,
                show_seconds(p.seconds),
                show_number(p.cycles),
                show_number(p.ipc),
                show_number(p.cpi),
                share,
                marks,
            )
        )
    table = Table(("model", "time", "cycles", "IPC", "CPI", "largest part", "notes"), tuple(rows))
    return f"<h3>Predictions of all models</h3>{html_table(table, numbers_from=1)}"


def _numbered_warnings(section: Section) -> dict[str, int]:
    warnings = dict.fromkeys(text for p in section.predictions for text in p.warnings)
    return {warning: number + 1 for number, warning in enumerate(warnings)}


def _validity(section: Section) -> str:
    """Warnings of the models, what did not run, and what is not shown, with the reasons."""
    parts = []
    for warning, number in _numbered_warnings(section).items():
        parts.append(f"<li>[{number}] {text(warning)}</li>")
    reasons: dict[str, list[str]] = {}
    for model, reason in section.skipped.items():
        reasons.setdefault(reason.removeprefix(f"model {model!r} "), []).append(model)
    parts += [f"<li>Not run: {text(', '.join(names))}: {text(reason)}</li>" for reason, names in reasons.items()]
    parts += [f"<li>Not shown: {text(name)}: {text(reason)}</li>" for name, reason in section.absent.items()]
    return f'<h3>Validity</h3><ul class="notes">{"".join(parts)}</ul>' if parts else ""


def _notes(notes: Sequence[str]) -> str:
    return "".join(f'<p class="note">{text(note)}</p>' for note in notes)


def view_figure(view: View, anchor: str, figures: Figures) -> str:
    heading = f"<h3>{text(view.title)}</h3>"
    caption = f"<figcaption>{text(view.summary)}</figcaption>"
    numbers = f"<details><summary>Numbers</summary>{html_table(view.table(), numbers_from=1)}</details>"
    extra = source_listing(view, anchor) if view.name == "source" else ""
    return f'<figure id="{anchor}">{heading}{figures.place(view)}{caption}{extra}{numbers}</figure>'


def _told(sentences: Sequence[str]) -> str:
    """Sentences as they are: some begin with the name of a kernel."""
    return f'<ul class="told">{"".join(f"<li>{text(each)}</li>" for each in sentences)}</ul>'


def _sweep(section: SweepSection, anchor: str, figures: Figures) -> str:
    shown = "".join(
        view_figure(view, f"{anchor}-view-{number}", figures) for number, view in enumerate(section.views)
    )
    absent = "".join(f"<li>Not shown: {text(n)}: {text(reason)}</li>" for n, reason in section.absent.items())
    return (
        f'<section id="{anchor}" class="kernel"><h2>Sweep {text(section.name)}</h2>{_told(section.headline)}'
        f"<h3>Fastest configurations</h3>{html_table(section.fastest, numbers_from=2)}{shown}"
        f"<h3>Do the models agree on designs?</h3>"
        "<p>Rank correlation of the configurations, and by what factor the best design would be faster.</p>"
        f'{html_table(section.agreement, numbers_from=1)}<ul class="notes">{absent}</ul></section>'
    )


def html_table(table: Table, *, numbers_from: int) -> str:
    """A table as HTML; columns from `numbers_from` on are numbers. Long ones are cut, and say so."""
    kind = ' class="number"'
    head = "".join(
        f'<th scope="col"{kind if index >= numbers_from else ""}>{text(name)}</th>'
        for index, name in enumerate(table.columns)
    )
    rows = []
    for cells in table.text()[:MOST_ROWS]:
        shown = "".join(
            f"<td{kind if index >= numbers_from else ''}>{text(cell)}</td>" for index, cell in enumerate(cells)
        )
        rows.append(f"<tr>{shown}</tr>")
    more = len(table.rows) - MOST_ROWS
    cut = f'<p class="note">… and {more} more rows, which --json has</p>' if more > 0 else ""
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{cut}"
    )
