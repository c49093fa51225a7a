"""`warplens validate network`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from warplens.cli.progress import waiting

from .validation import chosen_kernels, conclude


def validate_network_command(
    folder: Path, pattern: re.Pattern[str] | None, pages: Sequence[Path], as_json: bool
) -> None:
    """Our own model against both simulators: DIR/network-*.csv, tables, and marked parts of pages."""
    from warplens.suite.catalog import SUITE

    from ..validate import accelsim
    from ..validate.network import DATASET, all_tables, sections, validate_network
    from ..validate.report import update_sections, write_csv

    kernels = chosen_kernels(pattern, [*SUITE, *accelsim.kernels()])
    with waiting("predicting") as progress:
        found = validate_network(kernels, progress)
    document = found.to_dict()
    files = [write_csv(folder / f"{DATASET}-{name}.csv", rows) for name, rows in document.items()]
    parts = sections(found)
    for page in pages:
        update_sections(page, DATASET, parts)
    conclude({"dataset": DATASET, **document}, lambda: all_tables(found), [*files, *pages], as_json)
