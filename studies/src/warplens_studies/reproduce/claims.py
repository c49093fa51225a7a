"""Every quantitative claim of the five papers, once, with the rule that it is held to."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: What becomes of a claim: our data give the number; our files repeat it; or neither, for a reason.
RECOMPUTED, RESTATED, NOT_COVERED = RULES = ("recomputed", "restated", "not covered")
#: Examples within a text that are checked by golden tests, and belong to no figure or table.
IN_TESTS = "tests"
CLAIMS = Path(__file__).parent / "claims.csv"


@dataclass(frozen=True)
class PrintedClaim:
    """A number or comparison that a paper's text, figure or table states."""

    paper: str
    """How names of the paper's items begin."""
    section: str
    claim: str
    rule: str
    item: str
    """The recipe that recomputes or restates it."""
    detail: str
    """How the recipe's statements about it begin, the name of the test, or why it is not covered."""


@cache
def printed_claims() -> tuple[PrintedClaim, ...]:
    with CLAIMS.open(encoding="utf-8", newline="") as file:
        return tuple(PrintedClaim(**row) for row in csv.DictReader(file))
