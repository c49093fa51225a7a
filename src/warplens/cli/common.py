"""What commands share: JSON on stdout, tables for people, and option parsing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON alone on stdout.")


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


def show_number(value: float) -> str:
    """Four significant digits, thousands apart."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4g}"
    if 1e4 <= abs(value) < 1e12:
        return f"{value:,.0f}".replace(",", "\N{THIN SPACE}")
    return f"{value:.3e}"


def show_seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value / 1e-9:.4g} ns"


def warn(text: str) -> None:
    """A warning on stderr."""
    click.secho(f"warning: {text}", fg="yellow", err=True)
