"""Our own model with other cache results, on the runs of the third-party simulator.

It takes the results of the detailed simulator, results in the access order of the
changed machine, or its own scaled to the misses that the third-party simulator
counted. The detailed simulator's results are recorded
(`scripts/record-simulations changes`).
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from warplens.analysis import MissProfile, instruction_kinds
from warplens.analysis._cache_records import ARRIVALS, COUNTERS, LOAD, records_of, table_of
from warplens.api import place, predict
from warplens.machine import load_gpu
from warplens.simulators.detailed import simulate_detailed
from warplens.traces import LaunchTrace
from warplens.workload import Results, Workload, workload_of_trace
from warplens.workload.traced import cache_misses

from . import accelsim
from .harness import traced
from .recorded import recorded
from .report import write_csv

T = TypeVar("T")
MODEL = "warplens"
PATH = Path(__file__).parent / "data" / "simulated_caches.csv"
#: What the model is given; the first is the model unchanged.
EXCHANGES = {
    "own": "the model",
    "simulated": "with the simulator's caches",
    "order": "with the order of the changed machine",
    "counted": "with the misses that Accel-Sim counted",
    "detailed": "the simulator",
}
#: Recorded columns of a cache simulation: counters, arrivals, and values of the whole launch.
_COUNTERS = tuple(name.upper() for name in COUNTERS.names or ())
_ARRIVALS = ("L1", "L1_LEFT", "LLC", "LLC_LEFT")
_OF_LAUNCH = ("dirty_left", "l1_dirty_left", "busiest_bank", "busiest_channel")


# -- caches that are not the model's own ---------------------------------------------------------


@dataclass(eq=False)
class _GivenCaches(Results):
    """Results of a launch whose caches are given."""

    given: MissProfile | None = field(default=None, repr=False)

    def known(self, trace: LaunchTrace, record: Hashable, kind: type[T]) -> T | None:
        return self.given if kind is MissProfile else super().known(trace, record, kind)  # type: ignore[return-value]


def with_caches(workload: Workload, misses: MissProfile) -> Workload:
    """The same launch with the caches of another simulation."""
    return dataclasses.replace(workload, results=_GivenCaches(memory=workload.results.memory, given=misses))


def as_counted(misses: MissProfile, measured: accelsim.Measured) -> MissProfile:
    """Scale the misses of loads, and of their executions, to the counted totals; proportions stay."""
    counters = records_of(misses.counters.copy(), COUNTERS)
    loads = misses.kinds == LOAD

    def scaled(names: list[str], total: float, limit: Any) -> None:
        """Scale the loads so that the first counter, with the other instructions, has this total."""
        whole = counters[names[0]].sum()
        mine = counters[names[0]][loads].sum()
        factor = max(total - (whole - mine), 0.0) / max(mine, 1.0)
        for name, most in zip(names, limit, strict=True):
            counters[name][loads] = np.minimum(np.rint(counters[name][loads] * factor), most[loads])

    requests, executed = counters["requests"].copy(), counters["executed"]
    counters["l1_hits"] = requests - counters["l1_hits"]  # misses, for now
    counters["worst_llc"] += counters["worst_dram"]  # all requests that leave the SM
    scaled(["l1_hits", "worst_llc"], measured.l1_miss_ratio * requests.sum(), (requests, executed))
    leaving = np.where(loads, counters["l1_hits"], counters["llc_hits"] + counters["llc_misses"])
    scaled(
        ["llc_misses", "dram_reads", "worst_dram"],
        measured.llc_miss_ratio * leaving.sum(),
        (leaving, leaving, counters["worst_llc"]),
    )
    counters["llc_hits"] = leaving - counters["llc_misses"]
    counters["worst_llc"] -= counters["worst_dram"]
    counters["l1_hits"] = requests - counters["l1_hits"]
    counters["worst_l1"][loads] = (executed - counters["worst_llc"] - counters["worst_dram"])[loads]
    return dataclasses.replace(misses, counters=table_of(counters))


def _crowded(misses: MissProfile, own: MissProfile) -> MissProfile:
    """Add queued requests at banks from our own simulation: the detailed simulator does not count them."""
    assert misses.arrivals is not None
    arrivals = records_of(misses.arrivals.copy(), ARRIVALS)
    for name in ("bank_ahead", "channel_ahead"):
        arrivals[name] = own.arrival(name)
    return dataclasses.replace(misses, arrivals=table_of(arrivals))


def exchanged(kernel: str, workload: Workload, configuration: str) -> dict[str, float]:
    """Cycles of a run by exchange."""
    placed, gpu = place(workload, accelsim.GPU, accelsim.CONFIGURATIONS[configuration])
    own = cache_misses(placed, gpu)
    given = {
        "own": placed,
        "simulated": with_caches(placed, _crowded(simulated_caches(kernel, configuration), own)),
        # Without the original machine, times come from the changed machine itself.
        "order": with_caches(placed, cache_misses(placed, dataclasses.replace(gpu, original=None))),
        "counted": with_caches(placed, as_counted(own, accelsim.measurements()[configuration, kernel])),
    }
    found = {name: float(predict(each, gpu, MODEL).cycles) for name, each in given.items()}
    return found | {"detailed": recorded()[configuration, kernel].cycles}


# -- recorded runs -------------------------------------------------------------------------------


def _cache_rows(kernel: str, configuration: str, misses: MissProfile) -> Iterable[dict[str, Any]]:
    """One row per executed static instruction."""
    for static in np.flatnonzero(misses.executed).tolist():
        yield {
            "kernel": kernel,
            "configuration": configuration,
            "static": static,
            **{name: int(misses.column(name.lower())[static]) for name in _COUNTERS},
            **{f"COMING_{name}": float(misses.arrival(name.lower())[static]) for name in _ARRIVALS},
            **{name: getattr(misses, name) for name in _OF_LAUNCH},
        }


@cache
def _recorded_caches() -> Mapping[tuple[str, str], list[dict[str, str]]]:
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    with PATH.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["kernel"], row["configuration"]), []).append(row)
    return found


def simulated_caches(kernel: str, configuration: str) -> MissProfile:
    """Cache results of a run in the detailed simulator."""
    static = traced(kernel).static
    rows = _recorded_caches()[kernel, configuration]
    counters = np.zeros(len(static), dtype=COUNTERS)
    arrivals = np.zeros(len(static), dtype=ARRIVALS)
    for row in rows:
        for name in _COUNTERS:
            counters[name.lower()][int(row["static"])] = int(row[name])
        for name in _ARRIVALS:
            arrivals[name.lower()][int(row["static"])] = float(row[f"COMING_{name}"])
    return MissProfile(
        table_of(counters),
        instruction_kinds(static),
        int(load_gpu(accelsim.GPU).transfer_bytes),
        int(rows[0]["dirty_left"]),
        "simulated",
        recorded()[configuration, kernel].cycles,
        int(rows[0]["l1_dirty_left"]),
        float(rows[0]["busiest_bank"]),
        float(rows[0]["busiest_channel"]),
        table_of(arrivals),
    )


def write(path: Path = PATH) -> None:
    """Simulate all runs and write their cache results."""
    rows: list[dict[str, Any]] = []
    for kernel in accelsim.kernels():
        workload = workload_of_trace(traced(kernel))
        for configuration, changes in accelsim.CONFIGURATIONS.items():
            found = simulate_detailed(*place(workload, accelsim.GPU, changes)).misses
            assert found is not None
            rows += _cache_rows(kernel, configuration, found)
    write_csv(path, rows)
