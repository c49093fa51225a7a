"""`warplens validate edits`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from warplens.cli.common import warn
from warplens.cli.progress import counting

from .validation import chosen_kernels, conclude


def validate_edits_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool, fresh: bool
) -> None:
    """Verdicts of the gate against an H200: DIR/edits.csv, tables, and marked parts of pages."""
    from ..validate.edits import (
        compare,
        edit_names,
        kept_predictions,
        predict_edits,
        stale,
        summarise,
        write_predictions,
    )
    from ..validate.edits_tables import DATASET, all_tables, sections
    from ..validate.report import update_sections, write_csv

    names = chosen_kernels(pattern, edit_names())
    files: list[Path] = []
    reason = "" if fresh else stale(names)
    if reason:
        warn(f"the kept verdicts do not hold: {reason}; predicting anew, which takes minutes (--fresh keeps them)")
    if fresh or reason:
        predicted = []
        with counting("predicting edits", len(names)) as finished:
            for each in predict_edits(names):
                predicted.append(each)
                if fresh:
                    files = [write_predictions([each])]
                finished()
    else:
        predicted = [each for each in kept_predictions() if each.edit in names]
    rows = compare(predicted)
    files.append(write_csv(folder / f"{DATASET}.csv", (row.to_dict() for row in rows)))
    for page in pages:
        update_sections(page, DATASET, sections(rows))
    document = {"dataset": DATASET, "summary": asdict(summarise(rows)), "rows": [row.to_dict() for row in rows]}
    conclude(document, lambda: all_tables(rows), [*files, *pages], as_json)
