"""Our own model against both simulators: the effect of each mechanism, and the suite's kernels.

The cycles of the detailed simulator are recorded (`scripts/record-simulations`).
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from warplens.api import place, predict
from warplens.errors import InputError
from warplens.machine import Gpu, load_gpu, with_overrides
from warplens.models.warplens_model import WITHOUT
from warplens.simulators.detailed import simulate_detailed
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.workload import Workload, workload_of_trace

from . import accelsim
from .changes import Change, change_table, changes_of, exchange_table, experiment_table
from .exchanges import MODEL, exchanged
from .harness import traced
from .metrics import ipc_error
from .recorded import GPUMECH_GPU, GPUMECH_PARTS
from .report import Sections
from .tables import Cell, Table, percent

DATASET = "network"
PATH = Path(__file__).parent / "data" / "suite_simulated.csv"
SIZE = "small"

#: Machines on which the suite is simulated. In the detailed simulator a load waits if another sector of its line is
#: in flight, which no GPU does. The H200 here therefore has no sectors, and nothing of `_NOT_SIMULATED`.
MACHINES: dict[str, tuple[str, dict[str, Any]]] = {
    "accelsim-mdm": (accelsim.GPU, {}),
    "gpumech2014": (GPUMECH_GPU, GPUMECH_PARTS),
    "h200, whole lines": ("h200", {"l1.sector": 128}),
}
_NOT_SIMULATED = {
    "l1": ("lines_per_cycle", "banked", "hashed", "merge_lines", "reply_cycles", "reserving", "write_allocate"),
    "llc": ("fetch_bytes", "dirty_bytes", "spread_cycles"),
    "noc": (
        *("write_bandwidth_bytes_per_s", "sm_write_bandwidth_bytes_per_s", "request_cycles", "sm_request_cycles"),
        "miss_lookups",
        *("store_cycles", "sm_store_cycles", "atomic_cycles", "sm_atomic_cycles"),
    ),
    "dram": ("write_factor", "spread_cycles"),
}
_NOT_SIMULATED_OF_WARPS = (
    *("branch_cycles", "taken_branch_cycles", "predicate_latency_cycles"),
    *("swap_lane_cycles", "swap_word_cycles", "swap_port_cycles"),
)
#: The simulator executes PTX without reordering, and has no launch overhead.
OPTIONS = {"assembler": False, "launch_overhead": False}

#: What each part of the ablation leaves out.
MECHANISMS = {
    "none": "nothing",
    "network": "the queueing network (largest busy time only)",
    "arrivals": "waits for lines in flight",
    "sets": "L1 ways reserved by misses",
    "banks": "uneven LLC banks and DRAM channels",
    "conflicts": "L1 bank conflicts",
    "queue": "the memory queue of the L1",
    "mshrs": "MSHRs",
    "places": "reuse of MSHRs and ways as soon as they are free",
    "scheduler": "greedy scheduling (all warps take turns)",
    "crowds": "short-term crowding of banks and channels",
    "stores": "separate limits for stores and atomics",
    "write-backs": "write-backs to DRAM",
    "imbalance": "imbalance between blocks",
}


# -- the suite against the detailed simulator -------------------------------------------------


@cache
def simulated() -> Mapping[tuple[str, str], float]:
    """Recorded cycles by (kernel, machine)."""
    with PATH.open(encoding="utf-8") as file:
        return {(row["kernel"], row["machine"]): float(row["cycles"]) for row in csv.DictReader(file)}


def suite_workload(kernel: str) -> Workload:
    return workload_of_trace(run_on_cpu(SUITE[kernel], SIZE, record=True).trace)


@cache
def machine_of(name: str) -> Gpu:
    """One of the machines, without what the detailed simulator does not model."""
    gpu = load_gpu(MACHINES[name][0])
    parts: dict[str, Any] = {
        section: dataclasses.replace(getattr(gpu, section), **dict.fromkeys(leaves))
        for section, leaves in _NOT_SIMULATED.items()
    }
    parts |= dict.fromkeys(_NOT_SIMULATED_OF_WARPS)
    return with_overrides(dataclasses.replace(gpu, **parts), MACHINES[name][1])


def simulate_suite(kernel: str) -> dict[str, float]:
    """Cycles of one kernel on every machine that it fits on."""
    workload = suite_workload(kernel)
    found = {}
    for name in MACHINES:
        try:
            found[name] = float(simulate_detailed(*place(workload, machine_of(name))).cycles)
        except InputError:
            continue  # no block of it fits
    return found


def write(path: Path = PATH) -> None:
    """Simulate the suite on all machines and write the results."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", "machine", "cycles"])
        for kernel in SUITE:
            writer.writerows((kernel, name, f"{cycles:.9g}") for name, cycles in simulate_suite(kernel).items())


# -- results -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkValidation:
    """IPC errors: of the suite by (kernel, machine), of Accel-Sim's kernels by (mechanism, configuration, kernel).

    And cycles of these kernels with parts of the model exchanged, by (exchange, configuration, kernel).
    """

    suite: Mapping[tuple[str, str], float]
    ablation: Mapping[tuple[str, str, str], float]
    exchanged: Mapping[tuple[str, str, str], float]

    def to_dict(self) -> dict[str, Any]:
        return {
            "suite": [{"kernel": k, "machine": m, "ipc_error": e} for (k, m), e in self.suite.items()],
            "ablation": [
                {"without": w, "configuration": c, "kernel": k, "ipc_error": e}
                for (w, c, k), e in self.ablation.items()
            ],
            "exchanged": [
                {"exchange": x, "configuration": c, "kernel": k, "cycles": cycles}
                for (x, c, k), cycles in self.exchanged.items()
            ],
        }

    def changes(self, without: str = "none") -> list[Change]:
        """Changes of the cycles with a mechanism left out."""
        return changes_of(
            {
                (configuration, kernel): accelsim.measurements()[configuration, kernel].cycles / (1.0 + error)
                for (mechanism, configuration, kernel), error in self.ablation.items()
                if mechanism == without
            }
        )


def validate_network(
    kernels: Sequence[str] | None = None, progress: Callable[[int, int], None] | None = None
) -> NetworkValidation:
    """Run the model on the suite and on Accel-Sim's kernels, or on the named ones."""
    ours = [name for name in SUITE if kernels is None or name in kernels]
    theirs = [name for name in accelsim.kernels() if kernels is None or name in kernels]
    suite: dict[tuple[str, str], float] = {}
    ablation: dict[tuple[str, str, str], float] = {}
    other: dict[tuple[str, str, str], float] = {}
    steps = len(ours) + len(theirs)

    def step(done: int) -> None:
        if progress is not None:
            progress(done, steps)

    for done, kernel in enumerate(ours, 1):
        workload = suite_workload(kernel)
        for name in MACHINES:
            if (kernel, name) in simulated():
                predicted = predict(*place(workload, machine_of(name)), MODEL, options=OPTIONS)
                suite[kernel, name] = ipc_error(float(predicted.cycles), simulated()[kernel, name])
        step(done)
    for done, kernel in enumerate(theirs, len(ours) + 1):
        workload = workload_of_trace(traced(kernel))
        for configuration, changes in accelsim.CONFIGURATIONS.items():
            placed, machine = place(workload, accelsim.GPU, changes)
            reference = float(accelsim.measurements()[configuration, kernel].cycles)
            for without in WITHOUT:
                predicted = predict(placed, machine, MODEL, options={"without": without})
                ablation[without, configuration, kernel] = ipc_error(float(predicted.cycles), reference)
            other |= {
                (name, configuration, kernel): cycles
                for name, cycles in exchanged(kernel, workload, configuration).items()
            }
        step(done)
    return NetworkValidation(suite, ablation, other)


# -- tables -----------------------------------------------------------------------------------


def _mean(errors: Sequence[float]) -> float | None:
    return float(np.mean(np.abs(errors))) if errors else None


def suite_table(found: NetworkValidation) -> Table:
    """Errors of every suite kernel on every machine."""
    rows = [
        (Cell(kernel), *(percent(found.suite.get((kernel, name))) for name in MACHINES))
        for kernel in dict.fromkeys(kernel for kernel, _ in found.suite)
    ]
    return Table("IPC error against the detailed simulator in %", ("kernel", *MACHINES), tuple(rows))


def suite_mean_table(found: NetworkValidation) -> Table:
    """Machines: mean and largest error over the suite's kernels."""

    def row(label: str, errors: Mapping[str, float]) -> tuple[Cell, ...]:
        worst = max(errors, key=lambda kernel: abs(errors[kernel]), default="–")
        mean = percent(_mean(list(errors.values())), signed=False)
        return Cell(label), Cell(str(len(errors))), mean, percent(errors.get(worst)), Cell(worst)

    by_machine = {name: {k: e for (k, m), e in found.suite.items() if m == name} for name in MACHINES}
    rows = [row(name, errors) for name, errors in by_machine.items()]
    rows.append(row("all", {f"{kernel} on {machine}": error for (kernel, machine), error in found.suite.items()}))
    columns = ("machine", "kernels", "mean of magnitudes, %", "largest, %", "on")
    return Table("IPC error against the detailed simulator", columns, tuple(rows))


def ablation_table(found: NetworkValidation) -> Table:
    """What becomes of the errors when one mechanism is left out."""
    rows = []
    for without, words in MECHANISMS.items():
        every = [error for (mechanism, _, _), error in found.ablation.items() if mechanism == without]
        base = [
            error for (mechanism, name, _), error in found.ablation.items() if (mechanism, name) == (without, "base")
        ]
        changes = found.changes(without)
        right = sum(each.right for each in changes)
        rows.append(
            (
                Cell(words),
                percent(_mean(base), signed=False),
                percent(_mean(every), signed=False),
                Cell(f"{100.0 * max(map(abs, every), default=0.0):.0f}"),
                Cell(str(sum(abs(error) > 0.3 for error in every))),
                Cell(f"{right} of {len(changes)}"),
            )
        )
    columns = (
        "left out",
        "mean at base, %",
        "mean of all, %",
        "largest, %",
        "above 30 %",
        "changes within 10 points",
    )
    return Table("what each mechanism buys, against Accel-Sim", columns, tuple(rows))


def kernel_table(found: NetworkValidation) -> Table:
    """Errors at base of every kernel with each mechanism left out."""
    rows = [
        (Cell(kernel), *(percent(found.ablation[without, "base", kernel]) for without in MECHANISMS))
        for kernel in dict.fromkeys(kernel for _, _, kernel in found.ablation)
    ]
    return Table("IPC error at base in %, with a mechanism left out", ("kernel", *MECHANISMS), tuple(rows))


def map_table(found: NetworkValidation) -> Table:
    """Errors of every kernel and configuration."""
    names = list(accelsim.CONFIGURATIONS)
    rows = [
        (Cell(kernel), *(percent(found.ablation["none", name, kernel]) for name in names))
        for kernel in dict.fromkeys(kernel for _, _, kernel in found.ablation)
    ]
    return Table("IPC error against Accel-Sim in %", ("kernel", *names), tuple(rows))


def sections(found: NetworkValidation) -> Sections:
    tables = {
        "ablation": ablation_table,
        "kernels": kernel_table,
        "map": map_table,
        "suite": suite_table,
        "suite-means": suite_mean_table,
    }
    of_changes = {"exchanges": exchange_table, "changes": change_table, "experiments": experiment_table}
    made = {name: partial(_one, make, found) for name, make in tables.items()}
    return made | {name: partial(_one, make, found.exchanged) for name, make in of_changes.items()}


def _one(make: Callable[[Any], Table], found: Any) -> list[Table]:
    return [make(found)]


def all_tables(found: NetworkValidation) -> list[Table]:
    return [table for make in sections(found).values() for table in make()]
