"""`warplens validate curves`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from warplens.cli.progress import counting

from .validation import conclude


def validate_curves_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool, fresh: bool
) -> None:
    """Curves that others measured on other GPUs: DIR/curves.csv, a picture, tables, and marked parts of pages."""
    from ..validate.accuracy import renew_accuracy
    from ..validate.curves import KEPT, MEASURED, agreements, keep_points, predict_points, read_points
    from ..validate.curves_tables import DATASET, all_tables, draw_all, sections
    from ..validate.report import update_sections, write_csv

    if pattern is not None:
        raise click.UsageError("curves: --kernel selects nothing here: leave it out")
    files: list[Path] = []
    if fresh:
        with counting("predicting curves", len(read_points(MEASURED))) as finished:
            files.append(keep_points(predict_points(finished)))
        files.append(renew_accuracy())
    points = read_points(KEPT)
    files.append(write_csv(folder / f"{DATASET}.csv", (point.to_dict() for point in points)))
    files += draw_all(points, folder)
    for page in pages:
        update_sections(page, DATASET, sections(points))
    summary = [
        {"curve": curve, "gpu": gpu, "kernel": kernel, **each.to_dict()}
        for (curve, gpu, kernel), each in agreements(points).items()
    ]
    document = {"dataset": DATASET, "summary": summary, "rows": [point.to_dict() for point in points]}
    conclude(document, lambda: all_tables(points), [*files, *pages], as_json)
