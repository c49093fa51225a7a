"""Kernels that stand for the papers' benchmarks: predictions, references, and errors that figures share.

Three sets: kernels of public programs and the suite's stand-ins for the benchmarks of MDM's Table IV, both on our
reference simulator, and small kernels of the validation data, on our simulator and on Accel-Sim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from warplens.api import place, predict
from warplens.errors import InputError
from warplens.models import Prediction
from warplens.simulators.detailed import DetailedResult, simulate_detailed
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.workload import Workload, analyse, workload_of_trace

from ..validate import accelsim
from ..validate.harness import DIVERGENT_DPKI, VARIANTS, traced
from ..validate.metrics import ipc_error
from ..validate.recorded import recorded
from .applications import applications
from .drawing import grouped_bars
from .machines import machine_of
from .suite_tables import SIZE, TABLE_IV

OURS, THEIRS = "reference simulator", "Accel-Sim"
#: Kernels of public programs and the suite's stand-ins, on our reference simulator.
PROGRAMS, STANDINS = "simulated programs", "simulated stand-ins"
#: What panels show, by reference.
SETS = {
    PROGRAMS: "Public programs, our reference simulator",
    STANDINS: "The suite's stand-ins, our reference simulator",
    OURS: "Small kernels, our reference simulator",
    THEIRS: "Small kernels, Accel-Sim",
}
STAND_IN = "the 16 kernels of the validation data stand for the paper's benchmarks, and our simulator for its"
OF_SUITE = (
    "stand-ins are the suite's kernels for the benchmarks of MDM's Table IV, with small inputs, on a fourteenth (for "
    "GPUMech an eighth) of the machine: two SMs, and their share of NoC, L2 and DRAM"
)
OF_PROGRAMS = (
    "programs are public ones (validation/whole-programs.md lists them) with small inputs: of each kernel the "
    "longest launch, on the same part of the machine as stand-ins; it is divergent where more than 10 loads per "
    "thousand instructions touch more than four lines"
)
RECORDED = "simulated cycles are the recorded ones (scripts/record-simulations)"


@cache
def workload(kernel: str, selection: str = "clustering") -> Workload:
    trace = run_on_cpu(SUITE[kernel], SIZE, record=True).trace if kernel in SUITE else traced(kernel)
    return workload_of_trace(trace, selection=selection)


@cache
def predicted(model: str, setting: str, kernel: str, selection: str = "clustering") -> Prediction:
    """The prediction of a model or variant for a kernel in a setting of `validate.recorded`."""
    name, options = VARIANTS.get(model, (model, {}))
    placed, gpu = place(workload(kernel, selection), machine_of(setting, kernel in SUITE))
    return predict(placed, gpu, name, options=options)


def cycles_of(model: str, setting: str, kernel: str) -> float:
    if kernel in applications():
        return applications()[kernel].runs[setting].predicted[model]
    return float(predicted(model, setting, kernel).cycles)


def reference_cycles(source: str, setting: str, kernel: str) -> float:
    if source == OURS:
        return recorded()[setting, kernel].cycles
    if source == PROGRAMS:
        return applications()[kernel].runs[setting].cycles
    if source == STANDINS:
        return simulated_cycles(setting, kernel)
    return float(accelsim.measurements()[setting, kernel].cycles)


@cache
def simulated(setting: str, kernel: str) -> DetailedResult | None:
    """A stand-in on our reference simulator; None where no block of it fits on an SM."""
    try:
        return simulate_detailed(*place(workload(kernel), machine_of(setting, part=True)))
    except InputError:
        return None


def simulated_cycles(setting: str, kernel: str) -> float:
    """Cycles of a stand-in on our reference simulator, or 0."""
    result = simulated(setting, kernel)
    return 0.0 if result is None else float(result.cycles)


def kernels_of(source: str, kind: str = "all", where: Sequence[str] = ("base",)) -> list[str]:
    """Kernels of a source that are divergent (`MD`), are not (`NMD`), or both, and fit in all settings."""
    if source == PROGRAMS:
        return [
            each.name
            for each in applications().values()
            if kind in ("all", "MD" if each.divergent else "NMD") and each.runs.keys() >= set(where)
        ]
    if source != STANDINS:
        return {"MD": divergent_kernels, "NMD": other_kernels, "all": accelsim.kernels}[kind]()
    names = [kernel for own, kernels in TABLE_IV.values() if kind in (own, "all") for kernel in kernels]
    return [kernel for kernel in names if all(simulated_cycles(setting, kernel) for setting in where)]


@cache
def divergence(kernel: str) -> float:
    """Divergent loads per thousand warp instructions."""
    placed, gpu = place(workload(kernel), accelsim.GPU)
    traced_facts = analyse(placed, gpu).traced
    assert traced_facts is not None
    return traced_facts.divergent_loads_per_kilo_instruction


def divergent_kernels() -> list[str]:
    return [kernel for kernel in accelsim.kernels() if divergence(kernel) > DIVERGENT_DPKI]


def other_kernels() -> list[str]:
    return [kernel for kernel in accelsim.kernels() if divergence(kernel) <= DIVERGENT_DPKI]


def error(model: str, setting: str, kernel: str, source: str) -> float:
    """Signed IPC error (M-11); positive if the model is too fast."""
    return ipc_error(cycles_of(model, setting, kernel), reference_cycles(source, setting, kernel))


def mean_error(model: str, setting: str, source: str, kernels: Sequence[str]) -> float:
    """Mean |IPC error|, in percent."""
    return 100.0 * float(np.mean([abs(error(model, setting, kernel, source)) for kernel in kernels]))


def percentages(values: Sequence[float], unit: str = "%") -> str:
    return ", ".join(f"{value:.0f}" for value in values) + f" {unit}"


def error_panels(
    plt: Any,
    groups: Mapping[str, Sequence[str]],
    found: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    xlabel: str,
    colours: Sequence[str],
    log: bool = False,
) -> Any:
    """One panel per reference: grouped bars of mean errors in percent, with their numbers."""
    figure, axes = plt.subplots(len(found), 1, figsize=(8.6, 0.4 + 2.3 * len(found)), squeeze=False)
    for axis, (source, series) in zip(axes[:, 0], found.items(), strict=True):
        if log:
            axis.set_yscale("log")
        grouped_bars(axis, groups[source], series, colours=colours, label="%.0f")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.margins(y=0.12)
        axis.set_ylabel("mean |IPC error|, %")
        axis.set_title(SETS.get(source, source), loc="left", fontsize=9)
    axes[-1, 0].set_xlabel(xlabel)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    return figure
