"""The reference simulator against the third-party simulator's cycle counts: every kernel and configuration."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import accelsim
from .metrics import cycle_error
from .recorded import Simulated, recorded
from .tables import Cell, Table, percent


def simulator_errors(runs: Mapping[tuple[str, str], Simulated] | None = None) -> dict[tuple[str, str], float]:
    """Signed cycle error by (configuration, kernel), by default of the recorded runs."""
    found = recorded() if runs is None else runs
    return {run: cycle_error(found[run].cycles, each.cycles) for run, each in accelsim.measurements().items()}


def simulator_table() -> Table:
    """Kernels down, configurations across."""
    found = simulator_errors()
    configurations = list(accelsim.CONFIGURATIONS)
    rows = [
        (Cell(kernel), *(percent(found[each, kernel]) for each in configurations)) for kernel in accelsim.kernels()
    ]
    return Table("cycle error of the detailed simulator in %", ("kernel", *configurations), tuple(rows))


def mean_table() -> Table:
    """Configurations: mean and largest error."""
    found = simulator_errors()

    def row(label: str, runs: list[tuple[str, str]]) -> tuple[Cell, ...]:
        worst = max(runs, key=lambda run: abs(found[run]))
        mean = float(np.mean([abs(found[run]) for run in runs]))
        return (Cell(label), Cell(f"{100.0 * mean:.1f}"), percent(found[worst]), Cell(f"`{worst[1]}`"))

    rows = [row(each, [run for run in found if run[0] == each]) for each in accelsim.CONFIGURATIONS]
    rows.append(row(f"all {len(found)} runs", list(found)))
    columns = ("configuration", "mean of magnitudes, %", "largest, %", "on")
    return Table("cycle error of the detailed simulator", columns, tuple(rows))
