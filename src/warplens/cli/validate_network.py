"""`warplens validate network`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from .common import print_json, waiting
from .validate_suite import show_tables


def validate_network_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool
) -> None:
    """Our own model against both simulators: DIR/network-*.csv, tables, and marked parts of pages."""
    from .._version import __version__
    from ..api import JSON_SCHEMA
    from ..errors import InputError, UnknownNameError, nearest
    from ..suite.catalog import SUITE
    from ..validate import accelsim
    from ..validate.network import DATASET, all_tables, sections, validate_network
    from ..validate.report import csv_text, update_sections

    every = [*SUITE, *accelsim.kernels()]
    kernels = [name for name in every if pattern is None or pattern.search(name)]
    if not kernels:
        assert pattern is not None
        raise UnknownNameError(f"no kernel matches {pattern.pattern!r}; {nearest(pattern.pattern, every)}")
    with waiting("predicting") as progress:
        found = validate_network(kernels, progress)
    files = []
    document = found.to_dict()
    for name, rows in document.items():
        path = folder / f"{DATASET}-{name}.csv"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(csv_text(rows), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error}); choose another folder with -o") from None
        files.append(path)
    parts = sections(found)

    def new_page() -> str:
        return "\n".join(
            [
                "# The model of our own",
                *(f"\n<!-- validate: {DATASET} {name} -->\n<!-- /validate -->" for name in parts),
            ]
        )

    for page in pages:
        update_sections(page, DATASET, parts, new_page)
        files.append(page)
    if as_json:
        about = {"dataset": DATASET, "version": __version__, **document, "files": [str(each) for each in files]}
        print_json({"schema": JSON_SCHEMA, "datasets": [about]})
    else:
        show_tables(all_tables(found))
    for each in files:
        click.echo(str(each), err=as_json)
