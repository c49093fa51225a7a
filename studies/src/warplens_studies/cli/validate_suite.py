"""`warplens validate suite`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from warplens.cli.progress import counting

from .validation import chosen_kernels, conclude


def validate_suite_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool
) -> None:
    """Run the suite on this CPU and compare with an H200: DIR/suite.csv, tables, and marked parts of pages."""
    from warplens.suite.catalog import SUITE

    from ..validate.report import update_sections, write_csv
    from ..validate.suite import provenance, validate_suite
    from ..validate.suite_tables import DATASET, all_tables, sections

    kernels = chosen_kernels(pattern, SUITE)
    with counting("running the suite", len(kernels)) as finished:
        found = validate_suite(kernels=kernels, progress=finished)
    path = write_csv(folder / f"{DATASET}.csv", (row.to_dict() for row in found.rows))
    parts = sections(found)
    for page in pages:
        update_sections(page, DATASET, parts, lambda name: name.endswith(found.size))
    document = {
        "dataset": DATASET,
        "size": found.size,
        "provenance": dict(provenance(found.size)),
        "rows": [row.to_dict() for row in found.rows],
    }
    conclude(document, lambda: all_tables(found), [path, *pages], as_json)
