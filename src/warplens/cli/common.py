"""What commands print: JSON on stdout, tables for people, warnings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ..shown import show_number as show_number
from ..shown import show_seconds as show_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_json(document: Any) -> None:
    """The document as JSON; NaN and infinity are refused rather than printed."""
    click.echo(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))


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


def warn(text: str) -> None:
    """A warning on stderr."""
    click.secho(f"warning: {text}", fg="yellow", err=True)


def changes_of(prediction: Any) -> str:
    changed = ", ".join(
        f"{key} = {show_number(value) if isinstance(value, float) else value}"
        for key, value in prediction.overrides.items()
    )
    return f" with {changed}" if changed else ""
