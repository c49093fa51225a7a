"""`warplens validate h200`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from .common import console, print_json, table, waiting, warn

_STYLES = ("", "yellow", "bold red")


def validate_h200_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool, fresh: bool
) -> None:
    """The models against an H200: DIR/h200.csv, pictures, tables, and marked parts of pages."""
    from functools import partial

    from .._version import __version__
    from ..api import JSON_SCHEMA
    from ..errors import InputError, MissingPackageError, UnknownNameError, nearest
    from ..suite.catalog import SUITE
    from ..validate.h200 import compare, provenance
    from ..validate.h200_profiles import fingerprint, kept_predictions, stale, write_predictions
    from ..validate.h200_tables import DATASET, draw_all, new_page, sections
    from ..validate.report import csv_text, update_sections

    kernels = [name for name in SUITE if pattern is None or pattern.search(name)]
    if not kernels:
        assert pattern is not None
        raise UnknownNameError(
            f"no kernel of the suite matches {pattern.pattern!r}; {nearest(pattern.pattern, SUITE)}"
        )
    files: list[Path] = []
    reason = "" if fresh else stale()
    if reason:
        warn(f"the kept predictions do not hold: {reason}; computing anew, which takes minutes (--fresh keeps them)")
    if fresh or reason:
        machine = fingerprint()  # before: whoever changes the file meanwhile makes the predictions stale
        predicted = _predict(kernels)
        if fresh:
            files.append(write_predictions(predicted, machine))
    else:
        predicted = [row for row in kept_predictions() if row.kernel in kernels]
    found = compare(predicted)
    path = folder / f"{DATASET}.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(csv_text(row for each in found.values() for row in each.rows()), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error}); choose another folder with -o") from None
    files.append(path)
    missing: MissingPackageError | None = None
    try:
        files += draw_all(found, folder)
    except MissingPackageError as error:
        missing = error  # the numbers come first
    for page in pages:
        update_sections(page, DATASET, sections(found), partial(new_page, found))
        files.append(page)
    if as_json:
        document = {
            "dataset": DATASET,
            "version": __version__,
            "provenance": provenance(),
            "summary": [
                {"source": each.source, "size": each.size, **each.summary(model).to_dict()}
                for each in found.values()
                for model in each.models
            ],
            "sweeps": [
                {"source": each.source, "size": each.size, **sweep.to_dict()}
                for each in found.values()
                for model in each.models
                for sweep in each.sweeps(model)
            ],
            "rows": [row for each in found.values() for row in each.rows()],
            "files": [str(each) for each in files],
        }
        print_json({"schema": JSON_SCHEMA, "datasets": [document]})
    else:
        _show(found)
    for each in files:
        click.echo(str(each), err=as_json)
    if missing is not None:
        raise missing


def _predict(kernels: Sequence[str]) -> list[Any]:
    from ..validate.h200_profiles import predict_all

    with waiting("predicting the suite") as progress:
        return predict_all(kernels, progress=progress)


def _show(found: Any) -> None:
    from rich.text import Text

    from ..validate.h200_tables import all_tables

    out = console()
    out.width = max(out.width, 160)
    for each in all_tables(found):
        view = table("", ())
        view.title = Text(each.title, style="bold")
        for index, head in enumerate(each.columns):
            view.add_column(Text(head), justify="left" if index < each.labels else "right")
        for row in each.rows:
            view.add_row(*(Text(cell.text, style=_STYLES[cell.level]) for cell in row))
        out.print(view)
        if each.note:
            out.print(Text(each.note, style="dim"))
