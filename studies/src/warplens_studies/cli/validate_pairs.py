"""`warplens validate pairs`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from warplens.cli.common import warn
from warplens.cli.progress import counting

from .validation import chosen_kernels, conclude


def validate_pairs_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool, fresh: bool
) -> None:
    """Advice on faulty kernels against an H200: DIR/pairs.csv, tables, and marked parts of pages."""
    from ..validate.pairs import (
        compare,
        explain_pairs,
        kept_answers,
        measured,
        pair_names,
        stale,
        summarise,
        write_answers,
    )
    from ..validate.pairs_tables import DATASET, all_tables, sections
    from ..validate.report import update_sections, write_csv

    pairs = chosen_kernels(pattern, pair_names())
    files: list[Path] = []
    reason = "" if fresh else stale(pairs)
    if reason:
        warn(f"the kept answers do not hold: {reason}; explaining anew, which takes minutes (--fresh keeps them)")
    if fresh or reason:
        answers = {}
        with counting("explaining pairs", len(pairs)) as finished:
            for pair, kernels in explain_pairs(pairs):
                answers[pair] = kernels
                if fresh:
                    files = [write_answers({pair: kernels})]
                finished()
    else:
        answers = {pair: kernels for pair, kernels in kept_answers().items() if pair in pairs}
    rows = compare(answers)
    files.append(write_csv(folder / f"{DATASET}.csv", (row.to_dict() for row in rows)))
    for page in pages:
        update_sections(page, DATASET, sections(rows))
    document = {
        "dataset": DATASET,
        "provenance": measured()["provenance"],
        "summary": asdict(summarise(rows)),
        "rows": [row.to_dict() for row in rows],
    }
    conclude(document, lambda: all_tables(rows), [*files, *pages], as_json)
