"""A validation as files: rows as CSV, and tables between the markers of Markdown pages.

A page holds `<!-- validate: accelsim SECTION -->` … `<!-- /validate -->`. The
section's table replaces the text between; the rest of the page stays.
`<!-- validate: accelsim SECTION in data/NAME.csv -->` writes the table to that
file, beside the page, and leaves a link to it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from warplens._version import __version__
from warplens.errors import FileError, InputError, nearest

from . import explain, simulated, tables
from .harness import Validation
from .paper import CAPPED, MODELS, STATED, TITLES
from .tables import Cell, Table

_MARKED = re.compile(
    r"(?P<start><!-- validate: (?P<dataset>\S+) (?P<section>[^>]+?)(?: in (?P<file>\S+\.csv))? -->\n).*?"
    r"(?P<end><!-- /validate -->)",
    re.S,
)


# -- CSV -----------------------------------------------------------------------------------


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows with the same keys as CSV; numbers with nine digits, so that the same run gives the same bytes."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
        writer.writerows([_plain(value) for value in row.values()] for row in rows)
    return text.getvalue()


def table_csv(table: Table) -> str:
    """A table as CSV: plain numbers, and empty cells where there are none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_heading(name) for name in table.columns])
    writer.writerows([_bare(cell.text) for cell in row] for row in table.rows)
    return text.getvalue()


def _bare(text: str) -> str:
    return "" if text == "–" else text.replace("\N{THIN SPACE}", "").replace("`", "")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def write_files(validation: Validation, folder: Path) -> list[Path]:
    """DATASET.csv, DATASET-misses.csv and DATASET-bounds.csv in `folder`."""
    parts: dict[str, Sequence[Any]] = {
        "": validation.rows,
        "-misses": validation.misses,
        "-bounds": validation.bounds,
    }
    paths = []
    for suffix, rows in parts.items():
        paths.append(write_csv(folder / f"{validation.dataset}{suffix}.csv", (row.to_dict() for row in rows)))
    return paths


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows to a file; creates its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(csv_text(rows), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error}); choose another folder with -o") from None
    return path


# -- JSON ----------------------------------------------------------------------------------


def document(validation: Validation, files: Sequence[Path]) -> dict[str, Any]:
    """The validation as plain data."""
    means = [
        {
            "order": order,
            "configuration": configuration,
            "model": model,
            **{
                name: validation.mean_error(model, order=order, configuration=configuration, divergent=divergent)
                for name, divergent in (("divergent", True), ("other", False), ("all", None))
            },
        }
        for order in validation.orders
        for configuration in validation.configurations
        for model in validation.models
    ]
    return {
        "dataset": validation.dataset,
        "version": __version__,
        "dpki": validation.dpki,
        "means": means,
        "rows": [row.to_dict() for row in validation.rows],
        "misses": [row.to_dict() for row in validation.misses],
        "bounds": [row.to_dict() for row in validation.bounds],
        "skipped": [row.to_dict() for row in validation.skipped],
        "files": [str(path) for path in files],
    }


# -- Markdown ------------------------------------------------------------------------------


def markdown(table: Table) -> str:
    """A pipe table; poor numbers in italics, bad ones bold."""
    marks = ("", "*", "**")

    def cell(each: Cell) -> str:
        return f"{marks[each.level]}{each.text}{marks[each.level]}"

    lines = [
        [_heading(name).replace("|", "\\|") for name in table.columns],
        ["---" if index < table.labels else "--:" for index in range(len(table.columns))],
        *([cell(each) for each in row] for row in table.rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _heading(name: str) -> str:
    """A column's name on one line."""
    return re.sub(r"(?<=-)\n", "", name).replace("\n", " ")


def paper_table(validation: Validation) -> Table:
    """Errors that the text of mdm-micro2020 states, and ours for the same models in both forms of the queues."""
    order = validation.main_order
    forms = dict(zip(MODELS, CAPPED, strict=True))
    rows = []
    for stated in STATED:
        ours = [
            validation.mean_error(model, order=order, configuration=stated.configuration, divergent=stated.divergent)
            for model in (stated.model, forms[stated.model])
        ]
        rows.append(
            (
                Cell(stated.figure),
                Cell(TITLES[stated.model]),
                Cell(stated.setting),
                Cell(f"{stated.percent:g}"),
                *(Cell(tables.percent(value, signed=False).text) for value in ours),
            )
        )
    columns = ("figure", "model", "kernels", "paper, %", "ours, %", "ours, mshr-capped, %")
    return Table("mean |IPC error|", columns, tuple(rows), labels=3)


#: Sections that a page can hold, by name, made on demand.
Sections = Mapping[str, Callable[[], list[Table]]]


def sections(validation: Validation) -> dict[str, Callable[[], list[Table]]]:
    """The sections that a page can hold, made on demand."""

    def one(make: Callable[..., Table], *arguments: Any, **options: Any) -> Callable[[], list[Table]]:
        return lambda: [make(*arguments, **options)]

    made = {
        "means": one(tables.mean_table, validation),
        "paper": one(paper_table, validation),
        "errors": one(tables.wide_error_table, validation),
        "configurations": one(tables.wide_mean_table, validation),
        "misses": one(tables.miss_table, validation),
        "all-misses": one(tables.wide_miss_table, validation),
        "miss-differences": one(tables.miss_difference_table, validation),
        "bounds": one(tables.bound_table, validation),
        "traffic": one(tables.traffic_table, validation),
        "kernels": one(explain.kernel_table, validation),
        "set-conflicts": one(explain.conflict_table),
        "experiments": one(explain.experiment_table),
        "queue-depths": one(explain.depth_table),
        "stacks": one(explain.stack_table, validation),
        "simulator": one(simulated.simulator_table),
        "simulator-means": one(simulated.mean_table),
    }
    for order in validation.orders:
        made[f"errors {order}"] = partial(tables.error_tables, validation, order)
        made[f"configurations {order}"] = one(tables.configuration_table, validation, order)
        made[f"configurations {order} MD"] = one(tables.configuration_table, validation, order, divergent=True)
    return made


def rewritten(text: str, page: Path, dataset: str, parts: Sections) -> dict[Path, str]:
    """The page with every marked part of a dataset renewed from `parts`, and the CSV files it links to."""
    files: dict[Path, str] = {}

    def replace(match: re.Match[str]) -> str:
        if match["dataset"] != dataset:
            return match[0]
        name, file = match["section"], match["file"]
        if name not in parts:
            raise InputError(f"{page}: no part of a validation is named {name!r}; {nearest(name, parts)}")
        made = parts[name]()
        if file is None:
            body = "\n".join(markdown(table) for table in made)
        else:
            (table,) = made
            files[page.parent / file] = table_csv(table)
            body = f"[`{Path(file).name}`]({file}), {len(table.rows)} rows: {table.title}.\n"
        return f"{match['start']}\n{body}\n{match['end']}"

    return {page: _MARKED.sub(replace, text), **files}


def outdated(page: Path, dataset: str, parts: Sections) -> list[Path]:
    """The page and the CSV files it links to, as far as they differ from `parts`."""
    made = rewritten(page.read_text(encoding="utf-8"), page, dataset, parts)
    return [path for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]


def update_sections(
    page: Path, dataset: str, parts: Sections, wanted: Callable[[str], bool] = lambda name: True
) -> None:
    """Renew a page's marked parts of one dataset; a missing page is created with the `wanted` parts."""
    try:
        text = page.read_text(encoding="utf-8") if page.exists() else _new_page(dataset, filter(wanted, parts))
        if not _MARKED.search(text):
            raise InputError(
                f"{page}: has no place for tables; write <!-- validate: {dataset} {next(iter(parts))} --> and "
                "<!-- /validate --> on separate lines where a table should go"
            )
        for path, made in rewritten(text, page, dataset, parts).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{page}: cannot be updated ({error})") from None


def _new_page(dataset: str, names: Iterable[str]) -> str:
    marked = (f"## {name}\n\n<!-- validate: {dataset} {name} -->\n<!-- /validate -->\n" for name in names)
    return "\n".join([f"# Validation: {dataset}\n", *marked])
