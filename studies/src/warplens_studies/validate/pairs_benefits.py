"""GPUPerf's benefits on the pairs: is the one that speaks of a pair's cause the largest, and how good is it?"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from warplens.explanation import Opinion

from .pairs import PairRow, off_by
from .tables import Cell, Table


@dataclass(frozen=True)
class BenefitSummary:
    """Counts of pairs. All but `pairs` and `elsewhere` are of those with a benefit that speaks of their cause."""

    pairs: int
    fitting: int
    agreeing: int
    """The benefit is large enough to count."""
    first: int
    """And it is the largest."""
    rule_first: int
    """Our rule is the first."""
    elsewhere: int
    """No benefit speaks of the cause, but another one counts."""
    median_error: float
    """Median factor between the gain of the benefit and the measured one."""
    rule_median_error: float
    """The same of our rule."""


def is_first(row: PairRow) -> bool:
    return row.benefit is not None and row.benefit.agrees and row.benefit == row.first_benefit


def speedup(found: Opinion | None) -> float | None:
    return None if found is None else 1.0 / (1.0 - min(found.gain, 0.999))


def summarise_benefits(rows: Sequence[PairRow]) -> BenefitSummary:
    fitting = [(row, row.benefit) for row in rows if row.benefit is not None]
    others = [row.first_benefit for row in rows if row.benefit is None and row.first_benefit is not None]
    return BenefitSummary(
        pairs=len(rows),
        fitting=len(fitting),
        agreeing=sum(found.agrees for _, found in fitting),
        first=sum(is_first(row) for row, _ in fitting),
        rule_first=sum(row.rank == 1 for row, _ in fitting),
        elsewhere=sum(found.agrees for found in others),
        median_error=statistics.median(
            [off_by(speedup(found), row.measured_speedup) for row, found in fitting] or [1.0]
        ),
        rule_median_error=statistics.median([row.error for row, _ in fitting] or [1.0]),
    )


def benefit_summary_table(rows: Sequence[PairRow]) -> Table:
    found = summarise_benefits(rows)
    lines = (
        (
            "one of them speaks of the pair's cause",
            f"{found.fitting} of {found.pairs}",
            f"{found.pairs} of {found.pairs}",
        ),
        ("of those, it is at least 10 % of the time", f"{found.agreeing} of {found.fitting}", "–"),
        (
            "of those, it is the largest (of ours: first)",
            f"{found.first} of {found.fitting}",
            f"{found.rule_first} of {found.fitting}",
        ),
        (
            "median factor between its gain and the measured one",
            f"{found.median_error:.2f}",
            f"{found.rule_median_error:.2f}",
        ),
        (
            "none speaks of the cause, but another is at least 10 %",
            f"{found.elsewhere} of {found.pairs - found.fitting}",
            "–",
        ),
    )
    return Table(
        "benefits of GPUPerf on the faulty kernels",
        ("statement", "benefits of GPUPerf", "our advice"),
        tuple(tuple(map(Cell, line)) for line in lines),
    )


def benefit_table(rows: Sequence[PairRow]) -> Table:
    """Every pair: the benefit that speaks of its cause, and the largest."""
    cells = [
        (
            Cell(row.pair),
            Cell(row.rule),
            *_told(row.benefit),
            Cell(f"{row.measured_speedup:.2f}"),
            Cell("–" if row.benefit is None else f"{speedup(row.benefit):.2f}"),
            Cell("–" if row.predicted_speedup is None else f"{row.predicted_speedup:.2f}"),
            *_told(row.first_benefit),
        )
        for row in rows
    ]
    columns = (
        *("pair", "rule", "benefit\non it", "part,\n%", "gain", "GPUPerf's\ngain", "our\ngain"),
        *("largest\nbenefit", "its\npart, %"),
    )
    return Table("benefits of GPUPerf, pair by pair", columns, tuple(cells), labels=2)


def _told(found: Opinion | None) -> tuple[Cell, Cell]:
    return (Cell("–"), Cell("–")) if found is None else (Cell(found.benefit), Cell(f"{100.0 * found.gain:.0f}"))
