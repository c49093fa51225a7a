"""Runs of the reference simulator on the kernels of the data, recorded: together they take minutes.

`scripts/record-simulations` renews them. Tests simulate some again; the slow tier
simulates all.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warplens.api import load_workload, place
from warplens.models.crisp import measured_run
from warplens.simulators.detailed import simulate_detailed
from warplens.workload import MeasuredRun

from . import accelsim

PATH = Path(__file__).parent / "data" / "simulated.csv"
#: Name of the reference simulator among the models.
NAME = "detailed"

#: Machine of GPUMech's Table I. The table omits two things, assumed here: L2 and DRAM have six parts of 128 KiB and
#: 32 GB/s each, and the network limits nothing, because its latency is part of the L2's (§VI-A).
GPUMECH_GPU = "gpumech2014"
GPUMECH_PARTS = {"llc.banks": 6, "dram.channels": 6, "noc.bandwidth": "2048GB/s"}
WARPS = (8, 16, 32, 48)
MSHRS = (32, 64, 128, 256)
DRAM_GB = (64, 128, 192, 256)

#: SMs and DRAM bandwidths (GB/s) of MDM's Figs. 11 and 12, and a kernel of each kind.
GRID = tuple((sms, bandwidth) for bandwidth in (240, 480, 960) for sms in (14, 28, 56))
GRID_KERNELS = ("saxpy", "graph")
#: (NoC, DRAM) bandwidths (GB/s) of MDM's Fig. 14, and the kernel.
BANDWIDTHS = ((525, 240), (525, 480), (1050, 240), (1050, 480), (1050, 960), (2100, 480), (2100, 960))
BANDWIDTH_KERNEL = "graph"
#: The setting on the machine of CAL 2019, Table 1: four loose round-robin schedulers of width 2.
CAL, CAL_GPU = "cal2019", "mdm2019"
#: The setting at Fig. 13's first clock.
FAST, FAST_HZ = "clock2000", 2e9


@dataclass(frozen=True)
class Setting:
    """A machine, its overrides, and the kernels that are simulated on it."""

    gpu: str
    changes: Mapping[str, Any]
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class Simulated:
    """The recorded values of a run."""

    cycles: float
    cpi: float
    stack: dict[str, float]
    miss_latency: dict[str, float]
    #: CRISP's counters.
    run: dict[str, float]

    @property
    def measured_run(self) -> MeasuredRun:
        return MeasuredRun(**self.run)


def grid_name(sms: int, bandwidth: int) -> str:
    """The setting with this number of SMs and DRAM bandwidth."""
    known = {(28, 480): "base", (14, 480): "sm14", (56, 480): "sm56", (28, 240): "dram240", (28, 960): "dram960"}
    return known.get((sms, bandwidth), f"sm{sms}-dram{bandwidth}")


def bandwidth_name(noc: int, dram: int) -> str:
    """The setting with these NoC and DRAM bandwidths."""
    known = {1050: f"dram{dram}", 480: f"noc{noc}"}
    return "base" if (noc, dram) == (1050, 480) else known.get(noc, known.get(dram, f"noc{noc}-dram{dram}"))


@cache
def settings() -> Mapping[str, Setting]:
    """All settings by name: those of the data first."""
    kernels = tuple(accelsim.kernels())
    found = {name: Setting(accelsim.GPU, changes, kernels) for name, changes in accelsim.CONFIGURATIONS.items()}
    for sms, bandwidth in GRID:
        changes = {"sms": sms, "dram.bandwidth": f"{bandwidth}GB/s"}
        found.setdefault(grid_name(sms, bandwidth), Setting(accelsim.GPU, changes, GRID_KERNELS))
    for noc, dram in BANDWIDTHS:
        changes = {
            "noc.bandwidth": f"{noc}GB/s",
            "noc.sm_bandwidth": f"{noc / 24}GB/s",
            "dram.bandwidth": f"{dram}GB/s",
        }
        found.setdefault(bandwidth_name(noc, dram), Setting(accelsim.GPU, changes, (BANDWIDTH_KERNEL,)))
    found[CAL] = Setting(CAL_GPU, {}, kernels)
    # 4096 MSHRs (§VII); the SM's NoC queue limits misses in flight.
    found[FAST] = Setting(accelsim.GPU, {"clock": FAST_HZ}, kernels)
    found["streaming"] = Setting(accelsim.GPU, {"l1.streaming": "true", "l1.mshrs": 4096}, kernels)
    varied: dict[str, dict[str, Any]] = {"rr": {}, "gto": {"scheduler": "gto"}}
    varied |= {f"warps{n}": {"max_warps": n} for n in WARPS if n != 32}
    varied |= {f"mshr{n}": {"l1.mshrs": n} for n in MSHRS if n != 32}
    varied |= {f"dram{n}": {"dram.bandwidth": f"{n}GB/s"} for n in DRAM_GB if n != 192}
    for name, changes in varied.items():
        found[f"gpumech-{name}"] = Setting(GPUMECH_GPU, GPUMECH_PARTS | changes, kernels)
    return found


@cache
def recorded() -> Mapping[tuple[str, str], Simulated]:
    """The recorded runs by (setting, kernel)."""
    found = {}
    with PATH.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            parts: dict[str, dict[str, float]] = {"stack": {}, "latency": {}, "run": {}}
            for column, value in row.items():
                kind, _, name = column.partition(" ")
                if kind in parts:
                    parts[kind][name] = float(value)
            found[row["setting"], row["kernel"]] = Simulated(
                float(row["cycles"]), float(row["cpi"]), parts["stack"], parts["latency"], parts["run"]
            )
    return found


def simulate_again(runs: Iterable[tuple[str, str]], workers: int = 2) -> dict[tuple[str, str], Simulated]:
    """The same runs, simulated now."""
    chosen = list(runs)
    workloads = {kernel: load_workload(accelsim.trace_path(kernel)) for kernel in {kernel for _, kernel in chosen}}

    def one(run: tuple[str, str]) -> Simulated:
        setting = settings()[run[0]]
        placed, gpu = place(workloads[run[1]], setting.gpu, setting.changes)
        result = simulate_detailed(placed, gpu)
        counted = vars(measured_run(result))
        return Simulated(result.cycles, result.cpi, result.stack, result.miss_latency, counted)

    first = {run: one(run) for run in chosen[:1]}  # compile before the threads start
    with ThreadPoolExecutor(workers) as threads:  # compiled code releases the lock
        return first | dict(zip(chosen[1:], threads.map(one, chosen[1:]), strict=True))


def write(path: Path = PATH) -> None:
    """Simulate everything and write the results, with nine digits."""
    runs = [(name, kernel) for name, setting in settings().items() for kernel in setting.kernels]
    found = simulate_again(runs)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        example = found[runs[0]]
        columns = [f"{kind} {name}" for kind, part in _parts(example) for name in part]
        writer.writerow(["setting", "kernel", "cycles", "cpi", *columns])
        for run, each in found.items():
            values = [each.cycles, each.cpi, *(value for _, part in _parts(each) for value in part.values())]
            writer.writerow([*run, *(f"{value:.9g}" for value in values)])


def _parts(run: Simulated) -> tuple[tuple[str, dict[str, float]], ...]:
    return ("stack", run.stack), ("latency", run.miss_latency), ("run", run.run)
