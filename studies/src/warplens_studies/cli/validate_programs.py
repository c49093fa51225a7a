"""`warplens validate programs`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from warplens.cli.common import warn
from warplens.cli.progress import counting

from .validation import chosen_kernels, conclude


def validate_programs_command(
    folder: Path,
    pattern: re.Pattern[str] | None,
    pages: Sequence[Path],
    as_json: bool,
    fresh: bool,
    traces: Path | None,
) -> None:
    """Public programs on an H200: DIR/programs.csv, a picture, tables, and marked parts of pages."""
    from ..validate.accuracy import renew_accuracy
    from ..validate.programs import (
        compare_launches,
        coverage,
        document,
        kept_predictions,
        launches,
        models_of,
        predict_all,
        stale,
        summarise,
        write_predictions,
    )
    from ..validate.programs_figures import draw
    from ..validate.programs_tables import DATASET, all_tables, sections
    from ..validate.report import update_sections, write_csv

    names = set(chosen_kernels(pattern, [each.name for each in launches()]))
    wanted = [each for each in launches() if each.name in names]
    files: list[Path] = []
    if fresh:
        if traces is None:
            raise click.UsageError("--fresh needs the folder of the traces: --traces DIR")
        with counting("predicting launches", len(wanted)) as finished:
            for name, found in predict_all(traces, wanted):
                if isinstance(found, str):
                    warn(f"{name}: {found}")
                else:
                    files = [write_predictions({name: found})]
                finished()
        files.append(renew_accuracy())
    elif reason := stale():
        warn(f"the kept predictions are older: {reason}; --fresh --traces DIR renews them")
    rows = compare_launches(wanted, kept_predictions())
    files.append(write_csv(folder / f"{DATASET}.csv", (row.to_dict() for row in rows)))
    files.append(draw(rows, folder))
    for page in pages:
        update_sections(page, DATASET, sections(rows))
    ranged = coverage(rows)
    told = {
        "dataset": DATASET,
        "provenance": {"about": document()["about"], "programs": document()["programs"]},
        "summary": {model: asdict(found) for model in models_of(rows) if (found := summarise(rows, model))},
        "coverage": None if ranged is None else asdict(ranged),
        "rows": [row.to_dict() for row in rows],
    }
    conclude(told, lambda: all_tables(rows), [*files, *pages], as_json)
