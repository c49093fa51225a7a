"""Every kernel × every model × every configuration against a reference, as plain rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import load_workloads, place
from ..models import MODELS, get_model
from ..workload.traced import TracedWorkload
from . import accelsim
from .metrics import cycle_error, ipc_error, log_error

#: The order the papers use, and the project's own.
ORDERS = ("round-robin", "progress")
#: Models shown with an option set, beside their default form.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpumech[mshr-capped]": ("gpumech", {"dram_requests": "mshr-capped"}),
}
#: Divergent loads per thousand warp instructions above which a kernel is memory-divergent (MDM §IV).
DIVERGENT_DPKI = 10.0


@dataclass(frozen=True)
class Row:
    """One prediction beside its reference."""

    order: str
    configuration: str
    kernel: str
    divergent: bool
    model: str
    predicted_cycles: float
    reference_cycles: float

    @property
    def ipc_error(self) -> float:
        return ipc_error(self.predicted_cycles, self.reference_cycles)

    def to_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "ipc_error": self.ipc_error,
            "cycle_error": cycle_error(self.predicted_cycles, self.reference_cycles),
            "log_error": log_error(self.predicted_cycles, self.reference_cycles),
        }


@dataclass(frozen=True)
class MissRow:
    """Miss ratios of the cache simulation beside those of the reference."""

    order: str
    configuration: str
    kernel: str
    l1: float
    l1_reference: float
    llc: float
    llc_reference: float


@dataclass(frozen=True)
class Validation:
    """The whole table, and what the caches did."""

    rows: tuple[Row, ...]
    misses: tuple[MissRow, ...]
    dpki: dict[str, float]

    def mean_error(
        self, model: str, *, order: str, configuration: str = "base", divergent: bool | None = None
    ) -> float:
        """Mean |IPC error| (M-11) over kernels, all or only the divergent or the other ones."""
        errors = [
            abs(row.ipc_error)
            for row in self.rows
            if (row.model, row.order, row.configuration) == (model, order, configuration)
            and (divergent is None or row.divergent == divergent)
        ]
        return float(np.mean(errors))


def dpki(workload: TracedWorkload, gpu: Any) -> float:
    """Loads that touch more than one line, per thousand warp instructions of the launch."""
    assert workload.trace is not None
    instructions = sum(group.instructions for group in workload.trace.groups())
    return 1000.0 * workload.misses(gpu).divergent_loads / instructions


def validate_accelsim(
    *,
    kernels: Sequence[str] | None = None,
    configurations: Iterable[str] | None = None,
    orders: Sequence[str] = ORDERS,
    models: Sequence[str] | None = None,
    workers: int = 2,
    progress: Callable[[str], None] | None = None,
) -> Validation:
    """Run the models on all kernels and configurations of the data."""
    chosen = list(kernels or accelsim.kernels())
    settings = list(configurations or accelsim.CONFIGURATIONS)
    named = list(models or (*MODELS, *VARIANTS))

    def one(kernel: str) -> tuple[list[Row], list[MissRow], float]:
        result = _validate_kernel(kernel, settings, orders, named)
        if progress is not None:
            progress(kernel)
        return result

    # The compiled loops release the interpreter lock, so threads use all cores.
    with ThreadPoolExecutor(workers) as pool:
        parts = dict(zip(chosen, pool.map(one, chosen), strict=True))
    return Validation(
        tuple(row for rows, _, _ in parts.values() for row in rows),
        tuple(row for _, rows, _ in parts.values() for row in rows),
        {kernel: value for kernel, (_, _, value) in parts.items()},
    )


def _validate_kernel(
    kernel: str, settings: Sequence[str], orders: Sequence[str], models: Sequence[str]
) -> tuple[list[Row], list[MissRow], float]:
    rows: list[Row] = []
    misses: list[MissRow] = []
    divergence = 0.0
    for order in orders:
        (workload,) = load_workloads(accelsim.trace_path(kernel), order=order)
        assert isinstance(workload, TracedWorkload)
        _, base = place(workload, accelsim.GPU)
        divergence = dpki(workload, base)
        for setting in settings:
            reference = accelsim.measurements()[setting, kernel]
            placed, gpu = place(workload, accelsim.GPU, accelsim.CONFIGURATIONS[setting])
            assert isinstance(placed, TracedWorkload)
            profile = placed.misses(gpu)
            misses.append(
                MissRow(
                    order,
                    setting,
                    kernel,
                    profile.l1_miss_ratio,
                    reference.l1_miss_ratio,
                    profile.llc_miss_ratio,
                    reference.llc_miss_ratio,
                )
            )
            for name in models:
                base_name, options = VARIANTS.get(name, (name, {}))
                prediction = get_model(base_name, options).predict(placed, gpu)
                rows.append(
                    Row(
                        order,
                        setting,
                        kernel,
                        divergence > DIVERGENT_DPKI,
                        name,
                        float(prediction.cycles),
                        float(reference.cycles),
                    )
                )
    return rows, misses, divergence
