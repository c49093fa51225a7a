"""`warplens validate h200`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warplens.cli.common import warn
from warplens.cli.progress import waiting

from .validation import chosen_kernels, conclude


def validate_h200_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool, fresh: bool
) -> None:
    """The models against an H200: DIR/h200.csv, pictures, tables, and marked parts of pages."""
    from warplens.errors import MissingPackageError
    from warplens.suite.catalog import SUITE

    from ..validate.accuracy import renew_accuracy
    from ..validate.h200 import compare, provenance
    from ..validate.h200_figures import draw_all
    from ..validate.h200_profiles import fingerprint, kept_predictions, stale, write_predictions
    from ..validate.h200_tables import DATASET, all_tables, sections
    from ..validate.report import update_sections, write_csv

    kernels = chosen_kernels(pattern, SUITE)
    files: list[Path] = []
    reason = "" if fresh else stale()
    if reason:
        warn(f"the kept predictions are stale: {reason}; computing them again takes minutes (--fresh keeps them)")
    if fresh or reason:
        machine = fingerprint()  # taken first: if the file changes meanwhile, the predictions are stale
        predicted = _predict(kernels)
        if fresh:
            files += [write_predictions(predicted, machine), renew_accuracy()]
    else:
        predicted = [row for row in kept_predictions() if row.kernel in kernels]
    found = compare(predicted)
    rows = [row for each in found.values() for row in each.rows()]
    files.append(write_csv(folder / f"{DATASET}.csv", rows))
    missing: MissingPackageError | None = None
    try:
        files += draw_all(found, folder)
    except MissingPackageError as error:
        missing = error  # write the numbers first
    for page in pages:
        update_sections(page, DATASET, sections(found))
    document = {
        "dataset": DATASET,
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
        "rows": rows,
    }
    conclude(document, lambda: all_tables(found), [*files, *pages], as_json)
    if missing is not None:
        raise missing


def _predict(kernels: Sequence[str]) -> list[Any]:
    from ..validate.h200_profiles import predict_all

    with waiting("predicting the suite") as progress:
        return predict_all(kernels, progress=progress)
