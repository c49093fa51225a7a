"""The kernels of the validation data as benchmarks: predictions, both references, and errors that figures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from warplens.api import place, predict
from warplens.models import Prediction
from warplens.workload import Workload, analyse, workload_of_trace

from ..validate import accelsim
from ..validate.harness import DIVERGENT_DPKI, VARIANTS, traced
from ..validate.metrics import ipc_error
from ..validate.recorded import recorded, settings
from .drawing import grouped_bars

OURS, THEIRS = "reference simulator", "Accel-Sim"
STAND_IN = "the 16 kernels of the validation data stand for the paper's benchmarks, and our simulator for its"
RECORDED = "simulated cycles are the recorded ones (scripts/record-simulations)"


@cache
def workload(kernel: str, selection: str = "clustering") -> Workload:
    return workload_of_trace(traced(kernel), selection=selection)


@cache
def predicted(model: str, setting: str, kernel: str, selection: str = "clustering") -> Prediction:
    """The prediction of a model or variant for a kernel in a setting of `validate.recorded`."""
    chosen = settings()[setting]
    name, options = VARIANTS.get(model, (model, {}))
    placed, gpu = place(workload(kernel, selection), chosen.gpu, chosen.changes)
    return predict(placed, gpu, name, options=options)


def cycles_of(model: str, setting: str, kernel: str) -> float:
    return float(predicted(model, setting, kernel).cycles)


def reference_cycles(source: str, setting: str, kernel: str) -> float:
    if source == OURS:
        return recorded()[setting, kernel].cycles
    return float(accelsim.measurements()[setting, kernel].cycles)


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
        axis.set_title(f"Against {source}", loc="left", fontsize=9)
    axes[-1, 0].set_xlabel(xlabel)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    return figure
