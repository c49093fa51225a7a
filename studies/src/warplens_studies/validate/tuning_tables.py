"""Tables and pictures of measured tuning spaces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warplens.machine import load_gpu
from warplens.reports.style import LINE_COLOURS, pyplot, save
from warplens.tuning.agreement import TRIALS

from .report import Sections
from .signs import CLASSES, Signs, signs
from .tables import Cell, Table
from .tuning import TuningRow, agreements
from .tuning_budget import TRIALS as CHOSEN
from .tuning_budget import Search
from .tuning_limits import Limits

DATASET = "tuning"
PICTURE = "tuning-scatter.png"
#: What is asked: median error, rank correlation, and speed of the best of ten.
MOST_ERROR, LEAST_SPEARMAN, LEAST_SPEED = 0.20, 0.90, 0.95
#: What is asked of pairs: those below 2 % called the same, those 10 to 30 % and those further apart in order.
LEAST_SAME, LEAST_RIGHT, LEAST_FAR_RIGHT = 0.80, 0.90, 0.97


def clock_mhz(gpu: str, clock: str) -> int:
    return round(getattr(load_gpu(gpu).clocks, f"{clock}_hz") / 1e6)


def _percent(value: float | None, poor: bool = False) -> Cell:
    return Cell("–" if value is None else f"{100.0 * value:.0f}", int(poor))


def _asked(share: float | None, least: float) -> Cell:
    return _percent(share, share is not None and share < least)


def _number(value: float | None, poor: bool = False) -> Cell:
    return Cell("–" if value is None else f"{value:.2f}", int(poor))


def _labels(name: str, gpu: str, clock: str) -> tuple[Cell, Cell, Cell]:
    return Cell(name), Cell(f"`{gpu}`"), Cell(f"{clock}, {clock_mhz(gpu, clock)} MHz")


_HEADS = ("kernel", "GPU", "clock")


def error_table(rows: Sequence[TuningRow]) -> Table:
    """How far predictions are off; what falls short of what is asked is poor."""
    cells = [
        (
            *_labels(*key),
            Cell(str(each.configurations)),
            _percent(each.median_error, (each.median_error or 0.0) > MOST_ERROR),
            _percent(each.mean_error),
            _number(each.factor),
            _percent(each.median_error_after_factor),
        )
        for key, each in agreements(rows).items()
    ]
    columns = ("configurations", "median error, %", "mean error, %", "predicted / measured", "after one factor, %")
    note = (
        "predicted / measured: median; after one factor: median error once all predictions are divided by it; "
        f"compiled by {' and '.join(sorted({row.compiler for row in rows}))}"
    )
    return Table("errors of predictions from source", (*_HEADS, *columns), tuple(cells), labels=3, note=note)


def order_table(rows: Sequence[TuningRow]) -> Table:
    """How well predictions order configurations, and the speed of those that they choose."""
    cells = []
    for key, each in agreements(rows).items():
        best = each.best_of or {}
        speeds = [_percent(best.get(n), n == 10 and best.get(n, 0.0) < LEAST_SPEED) for n in TRIALS]
        spearman = _number(each.spearman, (each.spearman or 0.0) < LEAST_SPEARMAN)
        cells.append((*_labels(*key), spearman, _number(each.kendall), _percent(each.pairs_in_order), *speeds))
    columns = ("Spearman", "Kendall", "pairs in order, %", *(f"best of {n}, %" for n in TRIALS))
    note = (
        "pairs: those whose measured times differ by 10 % or more; best of N: speed of the fastest of the "
        "predicted best N over that of the fastest of the sample"
    )
    return Table("order of configurations", (*_HEADS, *columns), tuple(cells), labels=3, note=note)


def sign_table(rows: Sequence[TuningRow]) -> Table:
    """Whether predictions know which of two configurations is faster, as a gate has to; clocks apart."""
    groups: dict[tuple[str, str, str], list[TuningRow]] = {}
    for row in rows:
        groups.setdefault((row.name, row.gpu, row.clock), []).append(row)
    cells = []
    for key, group in groups.items():
        launches = [row.launch or row.configuration for row in group]
        times, timings = [row.measured_ms for row in group], [row.timing for row in group]
        near, apart, far = signs(times, timings, launches).values()
        shares = [_asked(near.share(near.same), LEAST_SAME)]
        for each, least in ((apart, LEAST_RIGHT), (far, LEAST_FAR_RIGHT)):
            shares += [_asked(each.share(each.right), least), _percent(each.share(each.wrong))]
        cells.append((*_labels(*key), *shares))
    near_, apart_, far_ = CLASSES
    columns = [f"{near_}: called the same, %"]
    columns += [f"{name}: {what}, %" for name in (apart_, far_) for what in ("right sign", "told wrongly")]
    note = "told wrongly: a gate that allows for the uncertainty of the pair calls the slower one faster"
    return Table("which of two configurations is faster", (*_HEADS, *columns), tuple(cells), labels=3, note=note)


def worst_table(rows: Sequence[TuningRow], most: int = 12) -> Table:
    """The configurations that are predicted worst, at each GPU's last clock."""
    last = {(row.name, row.gpu): row.clock for row in rows}
    mine = [row for row in rows if last[row.name, row.gpu] == row.clock]
    mine.sort(key=lambda row: -max(row.predicted_ms / row.measured_ms, row.measured_ms / row.predicted_ms))
    cells = [
        (
            Cell(f"`{row.gpu}`"),
            Cell(row.configuration.replace("filter_height=15 filter_width=15 ", "")),
            Cell(row.limiter),
            Cell(f"{row.measured_ms:.3g}"),
            Cell(f"{row.predicted_ms:.3g}"),
            Cell(f"{row.predicted_ms / row.measured_ms:.2f}"),
        )
        for row in mine[:most]
    ]
    columns = ("GPU", "configuration", "busiest", "measured, ms", "predicted, ms", "ratio")
    return Table("predicted worst", columns, tuple(cells), labels=3)


def twin_table(limits: Limits) -> Table:
    """How well a card predicts itself: the time of a twin in place of a prediction."""
    cells = []
    for row in limits.twins:
        told = row.agreement
        best = (told.best_of or {}).get(10)
        near, apart, far = row.signs or (Signs(), Signs(), Signs())
        cells.append(
            (
                *(Cell(row.name), Cell(f"`{row.gpu}`"), Cell(str(row.configurations))),
                *(_percent(row.far), _percent(told.median_error), _number(told.spearman), _percent(best)),
                _percent(near.share(near.same)),
                *(_percent(each.share(each.right)) for each in (apart, far)),
            )
        )
    near_, apart_, far_ = CLASSES
    columns = (
        *("kernel", "GPU", "configurations", "30 % apart, %", "median error, %", "Spearman", "best of 10, %"),
        *(f"{near_}: the same, %", f"{apart_}: right sign, %", f"{far_}: right sign, %"),
    )
    names = " and ".join(sorted({row.parameter for row in limits.twins}))
    note = f"twins differ in {names} alone; first row of a GPU: the sample that is predicted, second: all"
    return Table("how well a card predicts itself", columns, tuple(cells), labels=2, note=note)


def search_table(limits: Limits) -> Table:
    """What the search of `warplens tune` finds, with measured times in place of predictions."""
    cells = [
        (
            *(Cell(row.name), Cell(f"`{row.gpu}`"), Cell(str(row.launches)), Cell(str(row.of))),
            *(_percent(row.best), _percent(row.tenth), _number(row.left.spearman), _percent(row.left.median_error)),
        )
        for row in limits.steps
    ]
    columns = (
        *("kernel", "GPU", "launches", "of", "best found, %", "tenth best found, %"),
        *("Spearman of estimates", "their median error, %"),
    )
    note = "found: speed over that of the best (tenth best) of all; estimates: of the launches that are left"
    return Table("a search with measured times in place of predictions", columns, tuple(cells), labels=2, note=note)


def budget_table(searches: Sequence[Search]) -> Table:
    """What a search with predictions finds within its budget."""
    cells = [
        (
            *_labels(row.name, row.gpu, row.clock),
            Cell(f"{row.budget_seconds / 60:g} min, {row.workers} cores"),
            Cell(str(row.configurations)),
            Cell(str(row.predicted)),
            *(_percent(row.best_of[count]) for count in CHOSEN),
        )
        for row in searches
    ]
    columns = ("budget", "configurations", "predicted", *(f"best {count}, %" for count in CHOSEN))
    note = "best N: speed of the fastest measured among the predicted best N over that of the fastest of all"
    return Table("what a budget finds", (*_HEADS, *columns), tuple(cells), labels=4, note=note)


def all_tables(rows: Sequence[TuningRow], limits: Limits, searches: Sequence[Search] = ()) -> list[Table]:
    own = [error_table(rows), order_table(rows), sign_table(rows), worst_table(rows)]
    own += [table(limits) for table, some in ((twin_table, limits.twins), (search_table, limits.steps)) if some]
    return own + ([budget_table(searches)] if searches else [])


def sections(rows: Sequence[TuningRow], limits: Limits, searches: Sequence[Search] = ()) -> Sections:
    return {
        "budget": lambda: [budget_table(searches)],
        "twins": lambda: [twin_table(limits)],
        "search": lambda: [search_table(limits)],
        "errors": lambda: [error_table(rows)],
        "order": lambda: [order_table(rows)],
        "signs": lambda: [sign_table(rows)],
        "worst": lambda: [worst_table(rows)],
    }


def draw_all(rows: Sequence[TuningRow], folder: Path) -> list[Path]:
    """tuning-scatter.png: predicted against measured times, a panel for every GPU and clock."""
    found = agreements(rows)
    plt = pyplot()
    figure, axes = plt.subplots(1, len(found), figsize=(3.0 * len(found), 3.2), squeeze=False)
    for number, (key, each, axis) in enumerate(zip(found, found.values(), axes.flat, strict=True)):
        mine = [row for row in rows if (row.name, row.gpu, row.clock) == key]
        _panel(axis, mine, LINE_COLOURS[number % len(LINE_COLOURS)])
        axis.set_title(f"{key[1]}, {key[2]} clock\nSpearman {each.spearman or 0.0:.2f}", fontsize=9)
    figure.supxlabel("measured, ms; grey: within 20 %", fontsize=8)
    figure.supylabel("predicted, ms", fontsize=8)
    save(figure, folder / PICTURE)
    return [folder / PICTURE]


def _panel(axis: Any, rows: Sequence[TuningRow], colour: str) -> None:
    times = [time for row in rows for time in (row.measured_ms, row.predicted_ms)]
    ends = (min(times) / 1.2, max(times) * 1.2)
    ticks = [tick for tick in (0.25, 0.5, 1, 2, 4, 8, 16, 32) if ends[0] <= tick <= ends[1]]
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axis.minorticks_off()
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.fill_between(ends, [0.8 * e for e in ends], [1.2 * e for e in ends], color="#dddddd", linewidth=0)
    axis.plot(ends, ends, color="#333333", linewidth=0.9)
    axis.plot([r.measured_ms for r in rows], [r.predicted_ms for r in rows], ".", markersize=3, color=colour)
