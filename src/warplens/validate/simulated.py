"""The reference simulator against the third-party simulator's cycle counts: every kernel and configuration."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..api import load_workload, place
from ..simulators.detailed import simulate_detailed
from . import accelsim
from .metrics import cycle_error
from .tables import Cell, Table, percent


def simulator_errors(workers: int = 2) -> dict[tuple[str, str], float]:
    """Signed error of cycles by (configuration, kernel); about two minutes of CPU."""
    workloads = {kernel: load_workload(accelsim.trace_path(kernel)) for kernel in accelsim.kernels()}
    runs = [run for run in accelsim.measurements() if run[0] in accelsim.CONFIGURATIONS]

    def error(run: tuple[str, str]) -> float:
        configuration, kernel = run
        placed, gpu = place(workloads[kernel], accelsim.GPU, accelsim.CONFIGURATIONS[configuration])
        return cycle_error(simulate_detailed(placed, gpu).cycles, accelsim.measurements()[run].cycles)

    error(runs[0])  # compile before threads ask for it at once
    with ThreadPoolExecutor(workers) as threads:  # compiled code holds no lock
        return dict(zip(runs, threads.map(error, runs), strict=True))


def simulator_table(errors: Mapping[tuple[str, str], float] | None = None) -> Table:
    """Kernels down, configurations across, means at the end."""
    found = simulator_errors() if errors is None else errors
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
