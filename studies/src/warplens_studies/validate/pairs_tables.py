"""The tables of advice against an H200, for a terminal and for pages."""

from __future__ import annotations

from collections.abc import Sequence

from .pairs import LEAST_GAIN, NEAR, PairRow, summarise
from .pairs_benefits import benefit_summary_table, benefit_table
from .report import Sections
from .tables import Cell, Table

DATASET = "pairs"


def _time(us: float) -> Cell:
    return Cell(f"{us:.1f}" if us < 100.0 else f"{us:.0f}")


def _speedup(value: float | None, level: int = 0) -> Cell:
    return Cell("–" if value is None else f"{value:.2f}", level)


def _level(error: float) -> int:
    """Off by more than the bound is poor, by more than its square bad."""
    return (error > NEAR) + (error > NEAR**2)


def result_table(rows: Sequence[PairRow]) -> Table:
    """Every pair: times, the gain of the fitting rule, and Nsight Compute's estimate."""
    cells = [
        (
            Cell(row.pair),
            Cell(row.rule),
            _time(row.fault_us),
            _time(row.cure_us),
            _time(row.predicted_fault_us),
            _time(row.predicted_cure_us),
            Cell("–" if row.rank is None else str(row.rank), 0 if row.found else 2),
            _speedup(row.measured_speedup),
            _speedup(row.predicted_speedup, _level(row.error)),
            Cell(f"{(row.predicted_speedup or 1.0) / row.measured_speedup:.2f}", _level(row.error)),
            _speedup(row.ncu_speedup, _level(row.ncu_error)),
            Cell(f"{100.0 * row.gain_on_cure:.0f}", 0 if row.silent_on_cure else 2),
        )
        for row in rows
    ]
    columns = (
        *("pair", "rule", "fault,\nµs", "cure,\nµs", "predicted\nfault, µs", "predicted\ncure, µs", "rank"),
        *("gain", "predicted\ngain", "ratio", "Nsight\nCompute", "left on\ncure, %"),
    )
    return Table(
        "gain of each pair: time with the fault over time without it",
        columns,
        tuple(cells),
        labels=2,
        note="rank: place of the fitting rule in the advice; ratio: predicted over measured gain",
    )


def _share(count: int, of: int, least: float) -> Cell:
    share = count / of if of else 0.0
    return Cell(f"{count} of {of} ({100.0 * share:.0f} %)", 0 if share >= least else 1)


def summary_table(rows: Sequence[PairRow]) -> Table:
    """How often the advice is right, and what is asked of it."""
    found = summarise(rows)
    ahead = found.median_error < found.ncu_median_error
    lines = (
        ("the fitting rule is first or second", _share(found.found, found.pairs, 0.90), "90 %"),
        ("of those, the gain has the right sign", _share(found.sign_right, found.found, 0.95), "95 %"),
        (f"of those, the gain is within a factor of {NEAR}", _share(found.near, found.found, 0.75), "75 %"),
        (
            f"on the cure the rule is silent or below {100.0 * LEAST_GAIN:.0f} %",
            _share(found.silent_on_cure, found.pairs, 1.0),
            "all",
        ),
        (
            "median factor between predicted and measured gain",
            Cell(f"{found.median_error:.2f}", int(not ahead)),
            f"below {found.ncu_median_error:.2f}",
        ),
        (
            "the same of Nsight Compute's estimates",
            Cell(f"{found.ncu_median_error:.2f}"),
            "–",
        ),
        (
            f"Nsight Compute's estimates within a factor of {NEAR}",
            _share(found.ncu_near, found.ncu_estimates, 0.0),
            "–",
        ),
        ("median factor between predicted and measured time", Cell(f"{found.time_error:.2f}"), "–"),
    )
    return Table(
        "advice on the faulty kernels",
        ("statement", "found", "asked"),
        tuple((Cell(text), cell, Cell(asked)) for text, cell, asked in lines),
    )


def miss_table(rows: Sequence[PairRow]) -> Table:
    """Pairs that fall short: what comes first in the place of the fitting rule."""
    short = [row for row in rows if not row.found or row.error > NEAR or not row.silent_on_cure]
    cells = [
        (
            Cell(row.pair),
            Cell(row.rule),
            Cell("" if row.found else "not found" if row.rank is None else f"rank {row.rank}"),
            Cell(row.first_rule),
            Cell(f"{row.error:.2f}" if row.error > NEAR else ""),
            Cell(f"{100.0 * row.gain_on_cure:.0f} %" if not row.silent_on_cure else ""),
        )
        for row in short
    ]
    columns = ("pair", "rule", "place", "first rule", "gain off by", "left on cure")
    return Table("pairs that fall short", columns, tuple(cells), labels=4)


def all_tables(rows: Sequence[PairRow]) -> list[Table]:
    return [
        result_table(rows),
        summary_table(rows),
        miss_table(rows),
        benefit_table(rows),
        benefit_summary_table(rows),
    ]


def sections(rows: Sequence[PairRow]) -> Sections:
    return {
        "summary": lambda: [summary_table(rows)],
        "results": lambda: [result_table(rows)],
        "short": lambda: [miss_table(rows)],
        "benefits": lambda: [benefit_summary_table(rows)],
        "benefit": lambda: [benefit_table(rows)],
    }
