"""CRISP (Nath & Tullsen, MICRO 2015): one measured run, and how its parts follow the clock.

Our reading, after the description in mdm-micro2020 §VII. From a run at the
clock f0 come the time with loads outstanding (T_load), the computation under
it (T_under) and outside (T_outside), and the time in which stores hold warps
up (T_store). Times of memory keep their seconds, computation its cycles:

    T(f) = max(T_load, T_under · f0/f) + max(T_outside · f0/f, T_store)

The run is given in the workload, from counters; or the detailed simulator runs
a trace. It counts no cycles with loads outstanding, so T_load is the part of
its time in which the NoC carries something, and computation (issue slots that
are used, or that wait for arithmetic or a barrier) is taken to lie evenly under
it and outside. It does not tell stores that hold warps up from loads that do:
such time is part of T_load, and T_store is 0.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine import Gpu, distinct, find_parameter, with_overrides
from ..machine.schema import parameters
from ..workload import MeasuredRun, Workload
from .base import Array, Case, Model, Outcome, option
from .papers import NATH_TULLSEN
from .prediction import Condition

if TYPE_CHECKING:
    from ..simulators.detailed import DetailedResult
    from ..workload.traced import TracedWorkload

#: Categories of issue slots that go with the clock.
_COMPUTING = ("BASE", "DEP", "SYNC")
_FIXED = "the run was measured on one machine: of all that is changed, the clock alone counts"


@dataclass(frozen=True)
class Crisp(Model):
    """Time at other clocks, from a run that was measured at one."""

    name = "crisp"
    title = "CRISP"
    paper = NATH_TULLSEN
    equations = "M §VII, in words"
    needs = "measured_run"

    simulate: bool = option(False, "measure a trace with the detailed simulator, which takes its time")
    clock_hz: float = option(0.0, "clock at which it does so; 0: the machine's own")

    def check(self, workload: Workload, gpu: Gpu) -> None:
        if not self.simulate or getattr(workload, "trace", None) is None:
            super().check(workload, gpu)

    def evaluate(self, case: Case) -> Outcome:
        clock = case.array(case.gpu.clock_hz)
        terms = {name: np.empty(case.size) for name in ("f0", "T_load", "T_under", "T_outside", "T_store")}
        given = case.workload.run
        runs = [(slice(None), given)] if given is not None else _simulated(case, self.clock_hz)
        for rows, run in runs:
            parts = run.clock_hz, run.load_seconds, run.overlapped_seconds, run.outside_seconds, run.store_seconds
            for term, part in zip(terms.values(), parts, strict=True):
                term[rows] = part
            instructions = run.instructions_per_warp
        seconds = time_at(clock, *terms.values())
        return Outcome(
            instructions_per_warp=instructions,
            cycles=seconds * clock,
            terms=terms,
            conditions=(Condition(_FIXED),) if given is not None and _changed(case) else (),
        )


def _simulated(case: Case, clock_hz: float) -> Iterator[tuple[Any, MeasuredRun]]:
    """(rows of the batch, their run): one simulation for machines that differ in their clock alone."""
    workload: TracedWorkload = case.workload  # type: ignore[assignment]
    launch, gpu = workload.launch, case.gpu
    others = [gpu.get(path) for path in parameters() if path != find_parameter("clock").path]
    first, inverse = distinct([*others, launch.warps_per_sm, launch.blocks_per_sm], case.size)
    for group, index in enumerate(first.tolist()):
        machine, own = workload.one_of(gpu, index)
        machine = with_overrides(machine, {"clock": clock_hz or gpu.nominal_clock_hz})
        key = ("run", *machine.given.values(), own.launch.warps_per_sm, own.launch.blocks_per_sm)
        run = workload.once(key, functools.partial(_measured, own, machine))
        yield np.flatnonzero(inverse == group), run


def _measured(workload: TracedWorkload, gpu: Gpu) -> MeasuredRun:
    from ..simulators.detailed import simulate_detailed

    return measured_run(simulate_detailed(workload, gpu))


def time_at(clock: Array, f0: Array, load: Array, under: Array, outside: Array, store: Array) -> Array:
    """T(f), in seconds."""
    ratio = f0 / clock
    return np.maximum(load, under * ratio) + np.maximum(outside * ratio, store)


def measured_run(result: DetailedResult) -> MeasuredRun:
    """What CRISP would have counted in a run of the detailed simulator."""
    bins = max(1, int(np.ceil(result.cycles / result.bin_cycles)))
    outstanding = np.count_nonzero(result.noc_bytes_over_time[:bins]) / bins
    computing = sum(result.stack[name] for name in _COMPUTING) / result.cpi
    return MeasuredRun(
        clock_hz=result.cycles / result.seconds,
        load_seconds=result.seconds * outstanding,
        overlapped_seconds=result.seconds * computing * outstanding,
        outside_seconds=result.seconds * (1.0 - outstanding),
    )


def _changed(case: Case) -> bool:
    return bool(set(case.gpu.overrides) - {"clock"} or case.workload.launch_overrides)
