"""What the datasets of `warplens validate` share: the choice of kernels, and the output."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warplens.cli.common import console, print_json, table

if TYPE_CHECKING:
    from ..validate.tables import Table

#: How poor and bad cells look.
STYLES = ("", "yellow", "bold red")


def chosen_kernels(pattern: re.Pattern[str] | None, every: Collection[str]) -> list[str]:
    """The kernels that --kernel selects."""
    from warplens.errors import UnknownNameError, nearest

    kernels = [name for name in every if pattern is None or pattern.search(name)]
    if not kernels and pattern is not None:
        raise UnknownNameError(f"no kernel matches {pattern.pattern!r}; {nearest(pattern.pattern, every)}")
    return kernels


def conclude(
    document: Mapping[str, Any], tables: Callable[[], Sequence[Table]], files: Sequence[Path], as_json: bool
) -> None:
    """Print one dataset, as JSON or as tables, and the files that were written."""
    from warplens._version import __version__
    from warplens.api import JSON_SCHEMA

    if as_json:
        about = {"version": __version__, **document, "files": [str(each) for each in files]}
        print_json({"schema": JSON_SCHEMA, "datasets": [about]})
    else:
        show_tables(tables())
    for each in files:
        click.echo(str(each), err=as_json)


def show_tables(tables: Sequence[Table]) -> None:
    """Tables of a validation, one below the other."""
    from rich.text import Text

    out = console()
    out.width = max(out.width, 160)  # a narrow terminal wraps the lines; nothing is cut
    for each in tables:
        view = table("", ())
        view.title = Text(each.title, style="bold")
        for index, head in enumerate(each.columns):
            view.add_column(Text(head), justify="left" if index < each.labels else "right", no_wrap=True)
        for row in each.rows:
            if row[0].text.startswith("mean of MD"):
                view.add_section()
            view.add_row(*(Text(cell.text, style=STYLES[cell.level]) for cell in row))
        out.print(view)
        if each.note:
            out.print(Text(each.note, style="dim"))
