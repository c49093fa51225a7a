"""The tables of a validation, for a terminal or a page: headings, cells, and the grade of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import recorded
from .bounds import PARTS
from .harness import MissRow, Validation

#: |IPC error| above which a cell is poor, and bad.
POOR, BAD = 0.3, 1.0
#: Difference of miss ratios above which a cell is poor, and bad.
POOR_MISS, BAD_MISS = 0.05, 0.2
#: Models that take cache misses and queues from a trace have one table, the others another.
_INTERVAL_FAMILY = ("gpumech", "mdm")
#: Memory-divergent kernels, the others, and all of them.
_CLASSES: dict[str, bool | None] = {"MD": True, "NMD": False, "all": None}


@dataclass(frozen=True)
class Cell:
    """Text, and a grade: 1 for a poor number, 2 for a bad one."""

    text: str
    level: int = 0


@dataclass(frozen=True)
class Table:
    """Columns after the first `labels` hold numbers. A heading may have line breaks, for narrow columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int = 1
    note: str = ""


def percent(value: float | None, *, signed: bool = True) -> Cell:
    """An error as a whole percentage."""
    if value is None:
        return Cell("–")
    text = f"{100.0 * value:+.0f}" if signed else f"{100.0 * value:.0f}"
    return Cell("0" if text in ("+0", "-0") else text, (abs(value) > POOR) + (abs(value) > BAD))


def _heading(model: str) -> str:
    """A model's name with line breaks at its hyphens."""
    return model.replace("-", "-\n").replace("[", "\n[")


def _families(models: Sequence[str]) -> list[tuple[str, ...]]:
    """Split models into tables of moderate width, each with the reference simulator."""
    simulator = tuple(name for name in models if name == recorded.NAME)
    interval = tuple(name for name in models if name.startswith(_INTERVAL_FAMILY))
    others = tuple(name for name in models if name not in (*interval, *simulator))
    return [(*family, *simulator) for family in (interval, others) if family] or [simulator]


def _kind(validation: Validation, kernel: str) -> str:
    return "MD" if validation.divergent(kernel) else "NMD"


def error_tables(validation: Validation, order: str) -> list[Table]:
    """Kernels × models on the main configuration: GPUMech's and MDM's family, then the others."""
    configuration = validation.main_configuration
    errors = validation.errors(order, configuration)
    tables = []
    for models in _families(validation.models):
        rows = [
            (
                Cell(kernel),
                Cell(_kind(validation, kernel)),
                *(percent(errors.get((kernel, model))) for model in models),
            )
            for kernel in validation.kernels
        ]
        for label, divergent in (("mean of MD", True), ("mean of NMD", False), ("mean of all", None)):
            means = (
                validation.mean_error(model, order=order, configuration=configuration, divergent=divergent)
                for model in models
            )
            rows.append((Cell(label), Cell(""), *(percent(mean, signed=False) for mean in means)))
        tables.append(
            Table(
                f"IPC error in % at {configuration}, caches in {order} order",
                ("kernel", "", *map(_heading, models)),
                tuple(rows),
                labels=2,
                note="positive: the model is too fast; means are of |error| (M-11)",
            )
        )
    return tables


def mean_table(validation: Validation) -> Table:
    """Models × orders: means over divergent, other and all kernels."""
    configuration = validation.main_configuration
    groups = _CLASSES.items()
    rows = [
        (
            Cell(model),
            *(
                percent(
                    validation.mean_error(model, order=order, configuration=configuration, divergent=divergent),
                    signed=False,
                )
                for order in validation.orders
                for _, divergent in groups
            ),
        )
        for model in validation.models
    ]
    columns = [f"{order},\n{label}" for order in validation.orders for label, _ in groups]
    return Table(f"mean |IPC error| in % at {configuration}", ("model", *columns), tuple(rows))


def configuration_table(validation: Validation, order: str, *, divergent: bool | None = None) -> Table:
    """Models × configurations: mean |error| over the kernels."""
    rows = [
        (
            Cell(model),
            *(
                percent(
                    validation.mean_error(model, order=order, configuration=configuration, divergent=divergent),
                    signed=False,
                )
                for configuration in validation.configurations
            ),
        )
        for model in validation.models
    ]
    which = "all" if divergent is None else "the divergent" if divergent else "the other"
    return Table(
        f"mean |IPC error| in % over {which} kernels, caches in {order} order",
        ("model", *validation.configurations),
        tuple(rows),
    )


def wide_error_table(validation: Validation) -> Table:
    """Every order, configuration and kernel in a row, every model in a column."""
    rows = []
    for order in validation.orders:
        for configuration in validation.configurations:
            errors = validation.errors(order, configuration)
            rows += [
                (
                    *map(Cell, (order, configuration, kernel, _kind(validation, kernel))),
                    *(percent(errors.get((kernel, model))) for model in validation.models),
                )
                for kernel in validation.kernels
            ]
    columns = ("order", "configuration", "kernel", "class", *validation.models)
    return Table("IPC error of every model in %; positive is too fast", columns, tuple(rows), labels=4)


def wide_mean_table(validation: Validation) -> Table:
    """Every order, class of kernels and model in a row, every configuration in a column."""
    rows = [
        (
            *map(Cell, (order, label, model)),
            *(
                percent(
                    validation.mean_error(model, order=order, configuration=configuration, divergent=divergent),
                    signed=False,
                )
                for configuration in validation.configurations
            ),
        )
        for order in validation.orders
        for label, divergent in _CLASSES.items()
        for model in validation.models
    ]
    columns = ("order", "kernels", "model", *validation.configurations)
    return Table("mean |IPC error| in % on every configuration", columns, tuple(rows), labels=3)


def wide_miss_table(validation: Validation) -> Table:
    """Every configuration and kernel in a row: miss ratios of the reference and of each order."""
    found: dict[tuple[str, str], dict[str, MissRow]] = {}
    for row in validation.misses:
        found.setdefault((row.configuration, row.kernel), {})[row.order] = row
    orders = validation.miss_orders
    rows = []
    for run, by_order in found.items():
        cells = [*map(Cell, run)]
        for level in ("l1", "llc"):
            cells.append(Cell(f"{getattr(by_order[orders[0]], f'{level}_reference'):.3f}"))
            cells += [Cell(f"{getattr(by_order[order], level):.3f}") for order in orders]
        rows.append(tuple(cells))
    columns = [f"{level} {name}" for level in ("L1", "LLC") for name in ("reference", *orders)]
    return Table("miss ratios on every configuration", ("configuration", "kernel", *columns), tuple(rows), labels=2)


def _ratio(value: float, reference: float) -> Cell:
    off = abs(value - reference)
    return Cell(f"{value:.3f}", (off > POOR_MISS) + (off > BAD_MISS))


def miss_table(validation: Validation) -> Table:
    """Kernels × orders on the main configuration: miss ratios of both levels beside the reference's."""
    configuration = validation.main_configuration
    orders = validation.miss_orders
    found = {(row.order, row.kernel): row for row in validation.misses if row.configuration == configuration}
    rows = []
    for kernel in validation.kernels:
        reference = found[orders[0], kernel]
        rows.append(
            (
                Cell(kernel),
                Cell(f"{reference.l1_reference:.3f}"),
                *(_ratio(found[order, kernel].l1, reference.l1_reference) for order in orders),
                Cell(f"{reference.llc_reference:.3f}"),
                *(_ratio(found[order, kernel].llc, reference.llc_reference) for order in orders),
            )
        )
    columns = [f"{level}\n{name}" for level in ("L1", "LLC") for name in ("reference", *orders)]
    return Table(f"miss ratios at {configuration} (L1 with stores)", ("kernel", *columns), tuple(rows))


def miss_difference_table(validation: Validation) -> Table:
    """Orders: mean and largest difference of miss ratios from the reference, at the main configuration and at all."""
    rows = []
    for order in validation.miss_orders:
        cells = [Cell(order)]
        for level in ("l1", "llc"):
            for configurations in ((validation.main_configuration,), validation.configurations):
                off = [
                    abs(getattr(row, level) - getattr(row, f"{level}_reference"))
                    for row in validation.misses
                    if row.order == order and row.configuration in configurations
                ]
                mean = float(np.mean(off))
                cells.append(Cell(f"{mean:.3f} ({max(off):.2f})", (mean > POOR_MISS) + (mean > BAD_MISS)))
        rows.append(tuple(cells))
    places = (validation.main_configuration, "all configurations")
    columns = [f"{level}, {place}" for level in ("L1", "LLC") for place in places]
    title = "mean (and largest) difference of miss ratios from the reference's"
    return Table(title, ("order", *columns), tuple(rows))


def bound_table(validation: Validation) -> Table:
    """Kernels × parts of the machine: fewest cycles, and the largest of them over the reference."""
    rows = [
        (
            Cell(each.kernel),
            Cell(f"{each.reference_cycles:.0f}"),
            *(Cell(f"{getattr(each, name):.0f}") for name in PARTS.values()),
            Cell(each.largest),
            Cell(f"{100.0 * each.share:.0f}"),
            Cell(f"{each.busiest_bank:.2f}"),
            Cell(f"{each.in_step:.0f}"),
            Cell(f"{each.estimate:.0f}"),
        )
        for each in validation.bounds
    ]
    return Table(
        "least cycles by part of the machine at base, and the reference's",
        (
            "kernel",
            "reference",
            *PARTS,
            "largest",
            "% of\nreference",
            "busiest bank\n/ mean",
            "banks\nin step",
            "progress\nestimate",
        ),
        tuple(rows),
    )


def traffic_table(validation: Validation) -> Table:
    """DRAM traffic of the kernels that write, in lines."""
    rows = [
        (
            Cell(each.kernel),
            *(Cell(f"{n:.0f}") for n in (each.dram_lines_read, each.dram_lines_written, each.dirty_lines_left)),
        )
        for each in validation.bounds
        if each.dram_lines_written or each.dirty_lines_left
    ]
    return Table("DRAM traffic in lines", ("kernel", "read", "written back", "dirty at the end"), tuple(rows))


def all_tables(validation: Validation) -> list[Table]:
    """The tables that the command prints."""
    tables = [table for order in validation.orders for table in error_tables(validation, order)]
    tables.append(mean_table(validation))
    if len(validation.configurations) > 1:
        tables += [configuration_table(validation, order) for order in validation.orders]
    tables.append(miss_table(validation))
    if len(validation.configurations) > 1:
        tables.append(miss_difference_table(validation))
    return [*tables, bound_table(validation)]
