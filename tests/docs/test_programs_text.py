"""The text about the first predictions of programs says what their data say."""

from __future__ import annotations

import csv
import statistics

from .pages import DOCS, ROOT


def test_the_text_says_how_far_the_first_predictions_were_off() -> None:
    lines = (ROOT / "benchmarks" / "h200" / "programs_first.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    errors = [float(row["predicted_cycles"]) / float(row["measured_cycles"]) - 1.0 for row in rows]
    held = [float(row["low"]) <= float(row["measured_cycles"]) <= float(row["high"]) for row in rows]
    sizes = [abs(error) for error in errors]
    text = (DOCS / "validation/programs.md").read_text(encoding="utf-8")
    mean, median = (100 * average(sizes) for average in (statistics.mean, statistics.median))
    near, held_share = (100 * sum(each) / len(rows) for each in ([size <= 0.2 for size in sizes], held))
    assert (
        f"Of their {len(rows)} launches, its first predictions (`benchmarks/h200/programs_first.csv`) had a "
        f"mean error of {mean:.0f} %, a median of {median:.0f} %, a signed median of "
        f"{100 * statistics.median(errors):+.0f} %, {near:.0f} % within 20 %, one of {100 * max(errors):+.0f} %, "
        f"and ranges that held {held_share:.0f} %."
    ) in text
    assert sum(error > 1.0 for error in errors) == 1
