"""The reference simulator against the third-party simulator's cycle counts: every kernel and configuration."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import accelsim
from .metrics import cycle_error
from .recorded import Simulated, recorded
from .tables import Cell, Table, percent


def simulator_errors(runs: Mapping[tuple[str, str], Simulated] | None = None) -> dict[tuple[str, str], float]:
    """Signed error of cycles by (configuration, kernel); of the recorded runs unless others are given."""
    found = recorded() if runs is None else runs
    return {run: cycle_error(found[run].cycles, each.cycles) for run, each in accelsim.measurements().items()}


def simulator_table() -> Table:
    """Kernels down, configurations across, means at the end."""
    found = simulator_errors()
    configurations = list(accelsim.CONFIGURATIONS)
    kernels = accelsim.kernels()
    rows = [(Cell(kernel), *(percent(found[each, kernel]) for each in configurations)) for kernel in kernels]
    means = [float(np.mean([abs(found[each, kernel]) for kernel in kernels])) for each in configurations]
    rows.append((Cell("mean of magnitudes"), *(Cell(f"{100.0 * mean:.1f}") for mean in means)))
    whole = float(np.mean([abs(error) for error in found.values()]))
    rows.append(
        (Cell(f"all {len(found)} runs"), Cell(f"{100.0 * whole:.1f}"), *(Cell("") for _ in configurations[1:]))
    )
    return Table("cycle error of the reference simulator, %", ("kernel", *configurations), tuple(rows))
