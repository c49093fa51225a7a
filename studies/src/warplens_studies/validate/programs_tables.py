"""The tables of public programs on an H200, for a terminal and for pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .programs import OWN, Row, coverage, models_of, summarise
from .programs_range import cross_validated
from .report import Sections
from .tables import Cell, Table, percent

DATASET = "programs"
#: Models beside our own in the table of all launches.
SHOWN = ("pipeline", "mdm", "roofline")
#: Launches off by more than this have a table of their own, with counters.
FAR = 0.30


def summary_table(rows: Sequence[Row]) -> Table:
    """What is asked of the own model, and what it reaches."""
    found, ranged, chosen = summarise(rows), coverage(rows), cross_validated(rows)
    assert found is not None and ranged is not None
    lines = (
        ("mean error", _share(found.mean, found.mean <= 0.12), "≤ 12 %"),
        ("median error, signed", _signed(found.median_signed, abs(found.median_signed) <= 0.03), "within ±3 %"),
        ("within 20 %", _share(found.near, found.near >= 0.80), "≥ 80 %"),
        ("rank correlation of cycles", Cell(f"{found.rank:.3f}", int(found.rank < 0.97)), "≥ 0.97"),
        ("launches above 100 %", Cell(str(found.above_double), int(found.above_double > 0)), "none"),
        ("launches that the range holds", _share(ranged.held, 0.75 <= ranged.held <= 0.85), "75 to 85 %"),
        *(
            [("the same, chosen on other programs", _share(chosen.held, 0.75 <= chosen.held <= 0.85), "75 to 85 %")]
            if chosen is not None
            else []
        ),
        ("half of the range, median", _share(ranged.half_width, ranged.half_width <= 0.20), "≤ 20 %"),
    )
    programs = len({row.launch.program for row in rows})
    return Table(
        f"{OWN} on {found.launches} launches of {programs} programs",
        ("measure", "found", "asked"),
        tuple((Cell(text), cell, Cell(asked)) for text, cell, asked in lines),
    )


def _share(value: float, good: bool) -> Cell:
    return Cell(f"{100.0 * value:.0f} %", int(not good))


def _signed(value: float, good: bool) -> Cell:
    return Cell(f"{100.0 * value:+.0f} %", int(not good))


def model_table(rows: Sequence[Row]) -> Table:
    """Every model by the same measures."""
    cells = []
    for model in models_of(rows):
        found = summarise(rows, model)
        assert found is not None
        cells.append(
            (
                Cell(model),
                Cell(str(found.launches)),
                percent(found.mean, signed=False),
                percent(found.median, signed=False),
                percent(found.median_signed),
                Cell(f"{100.0 * found.near:.0f}"),
                Cell(str(found.above_double)),
                Cell(f"{found.rank:.2f}"),
            )
        )
    columns = (
        "model",
        "launches",
        "mean, %",
        "median, %",
        "signed\nmedian, %",
        "within\n20 %, %",
        "above\n100 %",
        "rank",
    )
    return Table("error of the cycles, all models", columns, tuple(cells))


def group_table(rows: Sequence[Row], title: str, label: Callable[[Row], str]) -> Table:
    """The own model's errors by something that launches share."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(label(row), []).append(row)
    cells = []
    for name, some in sorted(groups.items(), key=lambda item: -len(item[1])):
        found, ranged = summarise(some), coverage(some)
        if found is None or ranged is None:
            continue
        cells.append(
            (
                Cell(name),
                Cell(str(found.launches)),
                percent(found.mean, signed=False),
                percent(found.median_signed),
                Cell(f"{100.0 * found.near:.0f}"),
                Cell(f"{100.0 * ranged.held:.0f}"),
            )
        )
    columns = ("", "launches", "mean, %", "signed\nmedian, %", "within\n20 %, %", "range\nholds, %")
    return Table(title, columns, tuple(cells))


def group_tables(rows: Sequence[Row]) -> list[Table]:
    return [
        group_table(rows, "by what limits the launch, as predicted", lambda row: row.predicted.limiter),
        group_table(rows, "by suite", lambda row: row.launch.suite),
        group_table(rows, "by how much of the launch the trace holds", _recorded),
    ]


def _recorded(row: Row) -> str:
    return "all blocks" if row.launch.recorded_blocks >= row.launch.blocks else "the first blocks"


def result_table(rows: Sequence[Row]) -> Table:
    """Every launch: measured cycles, and the errors of some models."""
    cells = [
        (
            Cell(row.launch.name),
            Cell(_short(row.launch.kernel)),
            Cell(row.predicted.limiter),
            Cell(f"{row.launch.cycles:,.0f}".replace(",", " ")),
            percent(row.error()),
            Cell("yes" if row.covered else "no", int(not row.covered)),
            *(percent(row.error(model)) for model in SHOWN),
        )
        for row in rows
    ]
    columns = ("launch", "kernel", "limiter", "cycles", f"{OWN},\n%", "in\nrange", *(f"{name},\n%" for name in SHOWN))
    return Table("every launch: error of the cycles", columns, tuple(cells), labels=3)


def _short(kernel: str, most: int = 28) -> str:
    return kernel if len(kernel) <= most else f"{kernel[: most - 1]}…"


def far_table(rows: Sequence[Row]) -> Table:
    """Launches that are far off: the counters beside what was simulated."""
    far = [row for row in rows if abs(row.error() or 0.0) > FAR]
    cells = []
    for row in sorted(far, key=lambda row: row.error() or 0.0):
        measured = row.launch.measured
        cells.append(
            (
                Cell(row.launch.name),
                percent(row.error()),
                Cell(f"{measured.get('l1_hit_percent', 0.0):.0f}"),
                Cell(_hit(row.simulated("l1_miss_ratio"))),
                Cell(f"{measured.get('l2_hit_percent', 0.0):.0f}"),
                Cell(_hit(row.simulated("llc_miss_ratio"))),
                Cell(f"{measured.get('dram_read_bytes', 0.0) / 1e6:.1f}"),
                Cell(f"{(row.simulated('dram_read_bytes') or 0.0) / 1e6:.1f}"),
                Cell(", ".join(f"{name} {value:.1f}" for name, value in stalls(row)[:2])),
            )
        )
    columns = (
        *("launch", "error, %", "L1 hits,\n%", "simulated", "L2 hits,\n%", "simulated"),
        *("DRAM reads,\nMB", "simulated", "stalls per issue"),
    )
    return Table(f"launches off by more than {100.0 * FAR:.0f} %", columns, tuple(cells))


def _hit(miss: float | None) -> str:
    return "–" if miss is None else f"{100.0 * (1.0 - miss):.0f}"


def stalls(row: Row) -> list[tuple[str, float]]:
    """Warps that wait per issued instruction, by reason, the most frequent first."""
    found = {
        name.removeprefix("stall_").replace("_", " "): value
        for name, value in row.launch.measured.items()
        if name.startswith("stall_") and name not in ("stall_selected", "stall_not_selected")
    }
    return sorted(found.items(), key=lambda item: -item[1])


def all_tables(rows: Sequence[Row]) -> list[Table]:
    return [result_table(rows), model_table(rows), *group_tables(rows), far_table(rows), summary_table(rows)]


def sections(rows: Sequence[Row]) -> Sections:
    return {
        "summary": lambda: [summary_table(rows)],
        "models": lambda: [model_table(rows)],
        "groups": lambda: group_tables(rows),
        "far": lambda: [far_table(rows)],
        "results": lambda: [result_table(rows)],
    }
