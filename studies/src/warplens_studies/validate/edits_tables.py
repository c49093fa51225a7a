"""The tables of small edits against an H200, for a terminal and for pages."""

from __future__ import annotations

from collections.abc import Sequence

from .edits import NONE, REAL, EditRow, summarise
from .report import Sections
from .tables import Cell, Table

DATASET = "edits"


def _percent(part: float, level: int = 0) -> Cell:
    return Cell(f"{100.0 * part:+.1f}", level)


def _level(row: EditRow) -> int:
    """Real changes that are missed, and alarms without a change, are poor; wrong signs bad."""
    if row.is_real:
        return 0 if row.sign_right else 1 if row.outcome == "same" else 2
    return 2 if row.is_none and row.alarms else 0


def result_table(rows: Sequence[EditRow]) -> Table:
    """Every edit: times, and the change as measured and as predicted."""
    cells = [
        (
            Cell(row.edit),
            Cell(row.kernel),
            Cell(row.what),
            Cell(f"{row.before_us:.1f}"),
            Cell(f"{row.after_us:.1f}"),
            Cell(f"{row.predicted_before_us:.1f}"),
            Cell(f"{row.predicted_after_us:.1f}"),
            _percent(row.measured_change),
            _percent(row.change, _level(row)),
            Cell(f"{100.0 * row.change_low:+.0f} to {100.0 * row.change_high:+.0f}"),
            Cell(row.outcome, _level(row)),
        )
        for row in rows
    ]
    columns = (
        *("edit", "kernel", "what", "before,\nµs", "after,\nµs", "predicted\nbefore, µs", "predicted\nafter, µs"),
        *("change, %", "predicted\nchange, %", "range, %", "verdict"),
    )
    return Table("small edits: time after over time before, less one", columns, tuple(cells), labels=3)


def _share(count: int, of: int, least: float) -> Cell:
    share = count / of if of else 0.0
    return Cell(f"{count} of {of} ({100.0 * share:.0f} %)", 0 if share >= least else 1)


def summary_table(rows: Sequence[EditRow]) -> Table:
    """How often the gate is right, and what is asked of it."""
    found = summarise(rows)
    real, none = f"{100.0 * REAL:.0f} %", f"{100.0 * NONE:.0f} %"
    lines = (
        (f"of changes of {real} and more, caught with the right sign", _share(found.caught, found.real, 0.9), "90 %"),
        ("of those, told with the wrong sign", Cell(str(found.wrong), int(found.wrong > 0)), "0"),
        (f"alarms where the change is below {none}", Cell(str(found.alarms), int(found.alarms > 0)), "0"),
        (f"of changes below {none}, called the same", _share(found.called_same, found.none, 0.8), "80 %"),
        ("the measured change lies in the range", _share(found.in_range, found.edits, 0.0), "–"),
        ("median error of the change, % of the time", Cell(f"{100.0 * found.median_error:.1f}"), "–"),
    )
    rows_of = tuple((Cell(text), cell, Cell(asked)) for text, cell, asked in lines)
    return Table("verdicts of the gate", ("statement", "found", "asked"), rows_of)


def all_tables(rows: Sequence[EditRow]) -> list[Table]:
    return [result_table(rows), summary_table(rows)]


def sections(rows: Sequence[EditRow]) -> Sections:
    return {"summary": lambda: [summary_table(rows)], "results": lambda: [result_table(rows)]}
