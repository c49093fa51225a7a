"""The table of what machine code buys says what the data beside it say."""

from __future__ import annotations

import csv
import statistics

import pytest

from .pages import DOCS


@pytest.mark.parametrize("size", ["medium", "large"])
def test_the_table_has_the_means_of_the_kernels_above_20_us(size: str) -> None:
    path = DOCS / "validation/data/h200-machine-code.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["size"] == size and float(row["µs"]) >= 20.0]
    errors = [statistics.mean(abs(float(row[each])) for row in rows) for each in ("PTX", "machine-code", "SASS")]
    counts = [f"instructions-{each}" for each in ("PTX", "machine-code")]
    off = [100 * statistics.mean(abs(float(row[each]) - 1.0) for row in rows) for each in counts]
    cells = [size, *(f"{each:.1f}" for each in errors), *(f"{each:.0f}" for each in off)]
    assert f"| {' | '.join(cells)} |" in (DOCS / "validation/h200.md").read_text(encoding="utf-8")
