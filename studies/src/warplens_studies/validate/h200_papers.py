"""Models on an H200 by the measures of their papers, beside what the papers report for the GPUs of their time.

An error of cycles is at most 100 % where a model is too fast; an error of IPC
has no limit there. So a model compares with its paper by its paper's measure only.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from .h200 import H200Validation
from .metrics import cycle_error, geometric_mean, ipc_error
from .tables import Cell, Table, percent

IPC, CPI, SPEED = "IPC error (M-11), mean", "CPI error, geometric mean", "MAPE over occupancies (L §6.3)"


@dataclass(frozen=True)
class Stated:
    """A mean error in % that a paper reports for real hardware, and how it is taken."""

    model: str
    measure: str
    percent: float
    hardware: str
    source: str = "sass"
    """Whether the paper's instructions are the GPU's own or PTX."""


_LEMEIRE = "K620, GTX 1060, RTX 2070"
STATED = (
    Stated("mwp-cwp", CPI, 13.3, "four GPUs of 2006 to 2008", "ptx"),
    Stated("gpumech", IPC, 164, "GTX 1080"),
    Stated("gpumech", IPC, 260, "GTX 1080", "ptx"),
    Stated("mdm", IPC, 40, "GTX 1080"),
    # Means of the last rows of Tables 10 to 12. The table's WFG and corrected MWP-CWP look swapped for the RTX 2070.
    Stated("volkov", SPEED, 52.9, _LEMEIRE),
    Stated("mwp-cwp", SPEED, 59.1, _LEMEIRE),
    Stated("mwp-cwp-corrected", SPEED, 50.4, _LEMEIRE),
    Stated("wfg", SPEED, 81.9, _LEMEIRE),
    Stated("wfg-corrected", SPEED, 32.3, _LEMEIRE),
    Stated("pipeline", SPEED, 24.3, _LEMEIRE),
)


def by_measure(found: H200Validation, model: str, measure: str) -> float:
    """The error of a model by a paper's measure, as a fraction."""
    if measure == SPEED:
        return statistics.fmean(sweep.mape for sweep in found.sweeps(model))
    of = ipc_error if measure == IPC else cycle_error
    errors = [
        abs(of(cycles, found.measured[kernel, 0].elapsed_cycles))
        for kernel in found.long_kernels
        if (cycles := found.cycles(model, kernel)) is not None
    ]
    return statistics.fmean(errors) if measure == IPC else geometric_mean(errors)


def papers_table(found: Mapping[tuple[str, str], H200Validation], size: str) -> Table:
    """Every model whose paper reports an error on hardware: ours by the same measure, and theirs."""
    rows = [
        (
            Cell(each.model),
            Cell(each.measure),
            Cell(each.source.upper()),
            percent(by_measure(own, each.model, each.measure), signed=False),
            Cell(f"{each.percent:g}"),
            Cell(each.hardware),
        )
        for each in STATED
        if (own := found.get((each.source, size))) is not None
        and each.model in own.models
        and (own.swept or each.measure != SPEED)
    ]
    columns = ("model", "the paper's measure", "from", "on the H200, %", "in the paper, %", "the paper's hardware")
    return Table(f"each model by its paper's measure, size {size}", columns, tuple(rows))
