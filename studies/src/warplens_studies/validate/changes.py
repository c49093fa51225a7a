"""Parameter changes whose effect our own model gets wrong, and the mechanism that is missing.

Each is shown with the model's caches exchanged for others (`exchanges`). If the error
remains with the right caches, they are not the cause: then the detailed simulator and
the model run with a mechanism switched off. The simulator's runs are recorded
(`scripts/record-simulations changes`).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warplens.api import place, predict
from warplens.simulators.detailed import simulate_detailed
from warplens.workload import workload_of_trace

from . import accelsim
from .exchanges import EXCHANGES, MODEL
from .harness import traced
from .metrics import ipc_error
from .recorded import recorded
from .report import write_csv
from .tables import Cell, Table, percent

PATH = Path(__file__).parent / "data" / "switched.csv"
#: Smallest change that counts, and the tolerance of the predicted change.
LEAST_CHANGE, NEAR = 0.03, 0.10
#: A smaller predicted change has no sign.
NOTHING = 0.001
#: Largest acceptable IPC error.
LARGE = 0.3
#: Cycles by (configuration, kernel).
Cycles = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Switch:
    """A mechanism of the detailed simulator, and machine overrides that disable it."""

    words: str
    changes: Mapping[str, Any]


SWITCHES = {
    "banks": Switch("ports of the banks that are never waited for", {"noc.bandwidth": "16TB/s"}),
    "ports": Switch("ports of the SMs that are never waited for", {"noc.sm_bandwidth": "16TB/s"}),
    "channels": Switch("one DRAM channel of the same bandwidth", {"dram.channels": 1, "dram.queue": 64 * 24}),
    "bank-queues": Switch("banks that never wait for DRAM", {"llc.mshrs": 4096, "dram.queue": 4096}),
    "memory": Switch(
        "no bandwidth that is waited for",
        {"noc.bandwidth": "16TB/s", "noc.sm_bandwidth": "16TB/s", "dram.bandwidth": "16TB/s"},
    ),
    "latency": Switch(
        "a latency of computation of 10 cycles instead of 4",
        {f"instructions.{name}.latency": 10 for name in ("comp", "int32", "fp32")},
    ),
}
#: (Kernel, configuration, switch): what shows the mechanism behind a change.
EXPERIMENTS = (
    ("chase_divergent", "mshr32", "channels"),
    ("chase_divergent", "mshr256", "bank-queues"),
    ("chase_divergent", "noc525", "ports"),
    ("compute_ilp4_lowocc", "sm14", "latency"),
    ("compute_ilp4_lowocc", "sm56", "latency"),
    ("copy", "noc525", "ports"),
    ("matmul", "noc525", "banks"),
    ("matmul", "sm56", "banks"),
    ("saxpy", "sm56", "channels"),
    ("stencil", "noc525", "banks"),
    ("stencil", "sm14", "memory"),
    ("stencil", "sm56", "banks"),
    ("stencil", "lrr", "banks"),
)


@dataclass(frozen=True)
class Change:
    """Relative change of the cycles from base to a configuration."""

    configuration: str
    kernel: str
    real: float
    predicted: float

    @property
    def right(self) -> bool:
        """The same sign, and within the tolerance."""
        same_sign = self.predicted * self.real > 0.0 and abs(self.predicted) >= NOTHING
        return same_sign and abs(self.predicted - self.real) <= NEAR


def changes_of(cycles: Cycles) -> list[Change]:
    """All configurations that change the third-party simulator's cycles."""
    found = []
    for (configuration, kernel), predicted in cycles.items():
        reference = accelsim.measurements()
        real = reference[configuration, kernel].cycles / reference["base", kernel].cycles - 1.0
        if abs(real) > LEAST_CHANGE:
            found.append(Change(configuration, kernel, real, predicted / cycles["base", kernel] - 1.0))
    return found


# -- mechanisms that are switched off ------------------------------------------------------------


def _runs(kernel: str, configuration: str, switch: str) -> list[tuple[Any, Any]]:
    """(workload, machine) with a mechanism switched off: at base, and with the configuration."""
    workload = workload_of_trace(traced(kernel))
    return [
        place(workload, accelsim.GPU, {**accelsim.CONFIGURATIONS[name], **SWITCHES[switch].changes})
        for name in ("base", configuration)
    ]


def simulate_switched(kernel: str, configuration: str, switch: str) -> float:
    """The change of the simulated cycles without a mechanism."""
    base, changed = (simulate_detailed(*run).cycles for run in _runs(kernel, configuration, switch))
    return changed / base - 1.0


def predict_switched(kernel: str, configuration: str, switch: str) -> float:
    """The change of the model's cycles without a mechanism."""
    base, changed = (float(predict(*run, MODEL).cycles) for run in _runs(kernel, configuration, switch))
    return changed / base - 1.0


@cache
def switched() -> Mapping[tuple[str, str, str], float]:
    """Recorded changes of the simulated cycles by experiment."""
    with PATH.open(encoding="utf-8") as file:
        return {
            (row["kernel"], row["configuration"], row["switch"]): float(row["change"]) for row in csv.DictReader(file)
        }


def write(path: Path = PATH) -> None:
    """Run all experiments and write the results."""
    keys = ("kernel", "configuration", "switch")
    rows = [{**dict(zip(keys, each, strict=True)), "change": simulate_switched(*each)} for each in EXPERIMENTS]
    write_csv(path, rows)


# -- tables --------------------------------------------------------------------------------------


def _of(exchanged: Mapping[tuple[str, str, str], float], name: str) -> dict[tuple[str, str], float]:
    return {(configuration, kernel): c for (n, configuration, kernel), c in exchanged.items() if n == name}


def exchange_table(exchanged: Mapping[tuple[str, str, str], float]) -> Table:
    """Errors with other caches."""
    rows = []
    for name, words in EXCHANGES.items():
        cycles = _of(exchanged, name)
        errors = [ipc_error(c, accelsim.measurements()[run].cycles) for run, c in cycles.items()]
        changes = changes_of(cycles)
        rows.append(
            (
                Cell(words),
                Cell(f"{100.0 * sum(map(abs, errors)) / max(len(errors), 1):.1f}"),
                Cell(f"{100.0 * max(map(abs, errors), default=0.0):.0f}"),
                Cell(str(sum(abs(error) > LARGE for error in errors))),
                Cell(f"{sum(each.right for each in changes)} of {len(changes)}"),
            )
        )
    columns = ("", "mean of all, %", "largest, %", "above 30 %", "changes within 10 points")
    return Table("what other caches make of the errors", columns, tuple(rows))


def change_table(exchanged: Mapping[tuple[str, str, str], float]) -> Table:
    """Parameter changes that the model gets wrong, and the same with other caches."""
    found = {
        name: {(each.kernel, each.configuration): each for each in changes_of(_of(exchanged, name))}
        for name in EXCHANGES
    }
    rows = [
        (
            *map(Cell, run),
            Cell(percent(own.real).text),
            *(_marked(found[name][run]) for name in EXCHANGES),
        )
        for run, own in found["own"].items()
        if not own.right
    ]
    columns = ("kernel", "configuration", "Accel-Sim", *EXCHANGES.values())
    title = "changes in % that are off by more than 10 points or have another sign"
    return Table(title, columns, tuple(rows), labels=2, note="in italics what is off")


def _marked(change: Change) -> Cell:
    return Cell(percent(change.predicted).text, 0 if change.right else 1)


def experiment_table(exchanged: Mapping[tuple[str, str, str], float]) -> Table:
    """Changes with and without a mechanism."""
    rows = []
    for kernel, configuration, switch in EXPERIMENTS:
        if ("own", configuration, kernel) not in exchanged:
            continue
        by_simulator, by_model, real = (
            cycles[configuration, kernel] / cycles["base", kernel] - 1.0
            for cycles in (
                {run: each.cycles for run, each in recorded().items()},
                _of(exchanged, "own"),
                {run: each.cycles for run, each in accelsim.measurements().items()},
            )
        )
        rows.append(
            (
                *map(Cell, (kernel, configuration, SWITCHES[switch].words)),
                *(
                    Cell(percent(value).text)
                    for value in (
                        real,
                        by_simulator,
                        switched()[kernel, configuration, switch],
                        by_model,
                        predict_switched(kernel, configuration, switch),
                    )
                ),
            )
        )
    columns = (
        *("kernel", "configuration", "switched"),
        *("Accel-Sim", "simulator", "simulator, switched", "model", "model, switched"),
    )
    return Table("changes in % with and without a mechanism", columns, tuple(rows), labels=3)
