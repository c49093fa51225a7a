"""CRISP (Nath & Tullsen, MICRO 2015): scales one measured run to other clocks.

Our reading of the description in mdm-micro2020 §VII. A run at the clock f0
gives four times: loads are outstanding (T_load), computation overlaps with them
(T_under) or does not (T_outside), and stores stall warps (T_store). Memory keeps
its seconds when the clock changes; computation keeps its cycles:

    T(f) = max(T_load, T_under · f0/f) + max(T_outside · f0/f, T_store)

The workload gives the run, from counters, or the detailed simulator runs a
trace and counts, as a mean over the SMs, cycles with loads outstanding (T_load)
and cycles without them in which stores hold warps. Computation is the issue
slots that are used or that wait for arithmetic or a barrier; we spread it evenly
over the time with loads and the time without. Where stores hold warps at f0, the
time outside T_load is theirs (T_store): more computation first fills their stalls.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine import Gpu, distinct, find_parameter, with_overrides
from ..machine.schema import parameters
from ..workload import MeasuredRun, Needs, Workload
from .base import Array, Case, Model, Outcome, option
from .papers import NATH_TULLSEN
from .prediction import Condition

if TYPE_CHECKING:
    from ..simulators.detailed import DetailedResult

#: Categories of issue slots that follow the clock.
_COMPUTING = ("BASE", "DEP", "SYNC")
_FIXED = "the run was measured on one machine; only a changed clock has an effect"


@dataclass(frozen=True)
class Crisp(Model):
    """Time at any clock, scaled from a run measured at one clock."""

    name = "crisp"
    title = "CRISP"
    paper = NATH_TULLSEN
    equations = "M §VII, in words"
    needs = "measured_run"

    simulate: bool = option(False, "runs a trace in the detailed simulator to measure it (slow)")
    clock_hz: float = option(0.0, "clock of that simulation in Hz; 0: the machine's own")

    def check(self, workload: Workload, gpu: Gpu) -> None:
        if not self.simulate or workload.trace is None:
            super().check(workload, gpu)

    def is_slow(self, workload: Workload) -> bool:
        return self.simulate and workload.run is None

    @property
    def requirements(self) -> Needs:
        return Needs()  # the run is given, or measured here

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


@dataclass(frozen=True)
class RunOf:
    """What a simulated run depends on besides the trace: the machine and the requested residents."""

    machine: tuple[tuple[str, Any], ...]
    warps_per_sm: float | None
    blocks_per_sm: float | None


def _simulated(case: Case, clock_hz: float) -> Iterator[tuple[Any, MeasuredRun]]:
    """(rows of the batch, their run); machines that differ only in their clock share a simulation."""
    workload, gpu = case.workload, case.gpu
    launch = workload.launch
    others = [gpu.get(path) for path in parameters() if path != find_parameter("clock").path]
    first, inverse = distinct([*others, launch.warps_per_sm, launch.blocks_per_sm], case.size)
    for group, index in enumerate(first.tolist()):
        machine, own = workload.one_of(gpu, index)
        machine = with_overrides(machine, {"clock": clock_hz or gpu.nominal_clock_hz})
        key = RunOf(tuple(machine.given.items()), own.launch.warps_per_sm, own.launch.blocks_per_sm)
        run = workload.results.once(key, functools.partial(_measured, own, machine))
        yield np.flatnonzero(inverse == group), run


def _measured(workload: Workload, gpu: Gpu) -> MeasuredRun:
    from ..simulators.detailed import simulate_detailed

    return measured_run(simulate_detailed(workload, gpu))


def time_at(clock: Array, f0: Array, load: Array, under: Array, outside: Array, store: Array) -> Array:
    """T(f), in seconds."""
    ratio = f0 / clock
    return np.maximum(load, under * ratio) + np.maximum(outside * ratio, store)


def measured_run(result: DetailedResult) -> MeasuredRun:
    """What CRISP's counters would read after a run of the detailed simulator."""
    computing = sum(result.stack[name] for name in _COMPUTING) / result.cpi
    loading, stalled = result.load_share, result.store_stall_share
    return MeasuredRun(
        clock_hz=result.cycles / result.seconds,
        load_seconds=result.seconds * loading,
        overlapped_seconds=result.seconds * computing * loading,
        outside_seconds=result.seconds * (1.0 - loading - stalled),
        store_seconds=result.seconds * (1.0 - loading) if stalled > 0 else 0.0,
    )


def _changed(case: Case) -> bool:
    return bool(set(case.gpu.overrides) - {"clock"} or case.workload.launch_overrides)
