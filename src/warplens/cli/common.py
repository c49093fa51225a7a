"""What commands print: JSON on stdout, tables for people, warnings."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ..formatting import show_name as show_name
from ..formatting import show_number as show_number
from ..formatting import show_seconds as show_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@contextmanager
def cleaned_up() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does: with what it has begun taken away."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_json(document: Any) -> None:
    """The document as JSON; NaN and infinity are refused rather than printed."""
    click.echo(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))


#: Columns of what `predict` and `compare` print, and the most that a kernel's name takes of them.
WIDTH, MOST_TITLE = 80, 56


def console(*, stderr: bool = False) -> Console:
    """Where tables go. Without a terminal, wide enough that no column is cut."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=160)


def table(title: str, columns: Iterable[str], *, right: Iterable[str] = ()) -> Table:
    """An empty table in the house style; columns named in `right` are aligned to the right."""
    from rich import box
    from rich.table import Table

    numbers = set(right)
    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", no_wrap=column in numbers)
    return made


def say(text: str) -> None:
    """A line of plain text, in which brackets are no markup."""
    console().print(text, markup=False)


def wrapped(text: str, first: str = "", indent: int = 0, style: str = "") -> None:
    """Plain text within `WIDTH` columns: `first` before it, later lines indented."""
    from rich.text import Text

    out = console()
    for line in lines_of(text, first, indent):
        out.print(Text(line, style=style), soft_wrap=True)


def lines_of(text: str, first: str = "", indent: int = 0) -> list[str]:
    """Text in lines of at most `WIDTH` columns; names with hyphens and shares (`14 %`) stay whole."""
    from textwrap import wrap

    begins = first and first.ljust(indent)
    whole = text.replace(" %", "\N{NO-BREAK SPACE}%")
    found = wrap(whole, WIDTH, initial_indent=begins, subsequent_indent=" " * indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in found] or [begins]


def escape(text: str) -> str:
    """Text for a cell or title of a table, in which brackets would be markup."""
    from rich.markup import escape as escape_markup

    return escape_markup(text)


def warn(text: str) -> None:
    """A warning on stderr."""
    click.secho(f"warning: {text}", fg="yellow", err=True)


def show_cell(value: Any) -> str:
    """A number or a word in a table."""
    if value is None:
        return "–"
    return show_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def show_setting(key: str, value: Any) -> str:
    """The value of a key of `--set`: bytes, rates and clocks with their units."""
    from ..machine import find_parameter
    from ..units import format_number
    from ..workload import LAUNCH_KEYS

    unit = None if key in LAUNCH_KEYS else find_parameter(key).unit
    return show_cell(value) if value is None or unit in (None, "cycles") else format_number(value, unit)


def title_of(result: Any) -> str:
    """Of a table: the kernel, the machine, and what was changed."""
    words = f"[bold]{escape(show_name(result.kernel))}[/] on [bold]{escape(result.gpu)}[/]"
    return f"{words}{escape(changes_of(result))}"


def clock_of(prediction: Any) -> str:
    """Which of a machine's published clocks a prediction uses, for titles; nothing where there is no choice."""
    from ..units import format_number

    return f" at {format_number(prediction.clock_hz, 'hz')} ({prediction.clock} clock)" if prediction.clock else ""


def changes_of(result: Any) -> str:
    """What was changed of the machine and the launch, for titles; nothing where nothing was."""
    changed = ", ".join(f"{key} = {show_setting(key, value)}" for key, value in result.overrides.items())
    return f" with {changed}" if changed else ""


def show_title(result: Any, more: str = "") -> None:
    """The title of an answer or of models side by side, within `WIDTH` columns."""
    place = f"{result.gpu}{clock_of(result)}{changes_of(result)}"
    wrapped(f"{show_name(result.kernel, MOST_TITLE)} on {place}{more}", style="bold")


#: Stands for the workloads that a reason names.
_WHOSE = "\0"


def show_not_run(skipped: Iterable[tuple[str, str, str]]) -> None:
    """Models that could not run on a kernel, and why: a line for each reason, however many models and kernels."""
    reasons: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for model, kernel, why in skipped:
        reason = why.removeprefix(f"model {model!r} ").replace(f"workload {kernel!r} does", _WHOSE)
        models, kernels = reasons.setdefault(reason, ({}, {}))
        models[model] = kernels[kernel] = None
    for reason, (models, kernels) in reasons.items():
        one = show_name(next(iter(kernels)))
        whose = f"{len(kernels)} workloads do" if len(kernels) > 1 else f"workload {one!r} does"
        wrapped(f"not run: {', '.join(models)}: {reason.replace(_WHOSE, whose)}")
