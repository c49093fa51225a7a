"""What the machines that ship were validated on, and how well the model warplens did."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data" / "accuracy.csv"


@dataclass(frozen=True)
class Validation:
    """Predictions of one machine beside measurements; the page of the documentation has every one of them."""

    on: str
    cases: int
    median_error_percent: float
    rank_correlation: float
    clock: str
    page: str


def validations(name: str) -> list[Validation]:
    """What a machine was validated on; nothing where nobody has measured kernels on it."""
    return _all().get(name, [])


@cache
def _all() -> dict[str, list[Validation]]:
    found: dict[str, list[Validation]] = {}
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            numbers = float(row["median_error_percent"]), float(row["rank_correlation"])
            each = Validation(row["on"], int(row["cases"]), *numbers, row["clock"], row["page"])
            found.setdefault(row["gpu"], []).append(each)
    return found
