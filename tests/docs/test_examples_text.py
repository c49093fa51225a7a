"""The text about the examples' machine code says what its data say."""

from __future__ import annotations

import csv
import statistics

from .pages import DOCS, ROOT

FOLDER = ROOT / "benchmarks" / "h200"


def rows(name: str) -> dict[tuple[str, str], dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return {(row["kind"], row["example"]): row for row in csv.DictReader(file)}


def test_the_text_says_what_the_traces_lack() -> None:
    measured, traced = rows("examples.csv"), rows("traced_examples.csv")
    errors = {key: float(traced[key]["cycles"]) / float(row["elapsed_cycles"]) - 1.0 for key, row in measured.items()}
    text = (DOCS / "validation/examples.md").read_text(encoding="utf-8")
    assert f"{100 * statistics.mean(map(abs, errors.values())):.1f} % in cycles from machine code" in text
    copying = [("cuda", f"{name}{size}") for name in ("warp_specialised", "attention") for size in ("", "-large")]
    shares = [float(traced[key]["l2_sectors"]) / float(measured[key]["l2_sectors"]) for key in copying]
    small, large, other, other_large = (f"{100 * share:.0f} %" for share in shares)
    assert f"those of `warp_specialised` have {small} (large: {large})" in text
    assert other == small and f"`attention` as many (large: {other_large})" in text
    fast = sorted(-100 * errors[key] for key in copying)
    assert f"These four are {fast[0]:.0f} to {fast[-1]:.0f} % too fast" in text
    rest = [abs(error) for key, error in errors.items() if key not in copying]
    assert f"the other {len(rest)} are off by {100 * statistics.mean(rest):.0f} %" in text
