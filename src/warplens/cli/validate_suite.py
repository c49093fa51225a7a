"""`warplens validate suite`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .common import console, print_json, table, waiting

if TYPE_CHECKING:
    from ..validate.tables import Table


def validate_suite_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool
) -> None:
    """Run the suite on this CPU and compare with an H200: DIR/suite.csv, tables, and marked parts of pages."""
    from functools import partial

    from .._version import __version__
    from ..api import JSON_SCHEMA
    from ..errors import InputError, UnknownNameError, nearest
    from ..suite.catalog import SUITE
    from ..validate.report import csv_text, update_sections
    from ..validate.suite import provenance, validate_suite
    from ..validate.suite_tables import DATASET, all_tables, new_page, sections

    kernels = [name for name in SUITE if pattern is None or pattern.search(name)]
    if not kernels:
        assert pattern is not None
        raise UnknownNameError(
            f"no kernel of the suite matches {pattern.pattern!r}; {nearest(pattern.pattern, SUITE)}"
        )
    with waiting("running the suite") as progress:
        done: list[str] = []

        def finished(kernel: str) -> None:
            done.append(kernel)
            progress(len(done), len(kernels))

        found = validate_suite(kernels=kernels, progress=finished)
    path = folder / f"{DATASET}.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(csv_text(row.to_dict() for row in found.rows), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error}); choose another folder with -o") from None
    files = [path, *pages]
    parts = sections(found)
    for page in pages:
        update_sections(page, DATASET, parts, partial(new_page, found))
    if as_json:
        document = {
            "dataset": DATASET,
            "version": __version__,
            "size": found.size,
            "provenance": dict(provenance(found.size)),
            "rows": [row.to_dict() for row in found.rows],
            "files": [str(each) for each in files],
        }
        print_json({"schema": JSON_SCHEMA, "datasets": [document]})
    else:
        show_tables(all_tables(found))
    for each in files:
        click.echo(str(each), err=as_json)


def show_tables(tables: Sequence[Table]) -> None:
    """Tables of a validation, one below the other."""
    from rich.text import Text

    out = console()
    out.width = max(out.width, 160)
    for each in tables:
        view = table("", ())
        view.title = Text(each.title, style="bold")
        for index, head in enumerate(each.columns):
            view.add_column(Text(head), justify="left" if index < each.labels else "right")
        for row in each.rows:
            view.add_row(*(Text(cell.text, style="yellow" if cell.level else "") for cell in row))
        out.print(view)
