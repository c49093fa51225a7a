"""Every kernel × every model × every configuration against a reference, as plain rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from warplens.analysis import DEFAULT_ORDER
from warplens.api import load_workloads, place, predict
from warplens.errors import MissingInputError
from warplens.models import GENERAL_MODELS as MODELS
from warplens.traces import LaunchTrace
from warplens.workload import analyse, workload_of_trace
from warplens.workload.traced import cache_misses

from . import accelsim, recorded
from .bounds import Bounds, bounds_of
from .metrics import cycle_error, ipc_error, log_error

#: The papers' order and the project's own; tables show the models with both.
ORDERS = ("round-robin", DEFAULT_ORDER)
#: Further orders, shown only in the comparison of caches.
MORE_ORDERS = ("oldest-8", "oldest-24")
#: Models shown with an option set, beside their default form.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{name}[mshr-capped]": (name, {"dram_requests": "mshr-capped"})
    for name in ("gpumech", "gpumech-plus", "mdm-mshr")
}
#: Divergent loads per thousand warp instructions above which a kernel is memory-divergent (MDM §I).
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

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class SkippedRow:
    """A model that could not run on a kernel, and why."""

    order: str
    configuration: str
    kernel: str
    model: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Validation:
    """All predictions, miss ratios and bounds. Names are in the order of tables."""

    dataset: str
    kernels: tuple[str, ...]
    configurations: tuple[str, ...]
    orders: tuple[str, ...]
    models: tuple[str, ...]
    rows: tuple[Row, ...]
    misses: tuple[MissRow, ...]
    bounds: tuple[Bounds, ...]
    dpki: dict[str, float]
    skipped: tuple[SkippedRow, ...] = ()

    @property
    def main_configuration(self) -> str:
        """The configuration of detailed tables: `base` if it was run."""
        return "base" if "base" in self.configurations else self.configurations[0]

    @property
    def main_order(self) -> str:
        return DEFAULT_ORDER if DEFAULT_ORDER in self.orders else self.orders[0]

    @property
    def miss_orders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.order for row in self.misses))

    def divergent(self, kernel: str) -> bool:
        return self.dpki[kernel] > DIVERGENT_DPKI

    def errors(self, order: str, configuration: str) -> dict[tuple[str, str], float]:
        """Signed IPC errors by (kernel, model)."""
        return {
            (row.kernel, row.model): row.ipc_error
            for row in self.rows
            if (row.order, row.configuration) == (order, configuration)
        }

    def mean_error(
        self, model: str, *, order: str, configuration: str = "base", divergent: bool | None = None
    ) -> float | None:
        """Mean |IPC error| (M-11) over all kernels, the divergent ones or the others; None if there are none."""
        errors = [
            abs(row.ipc_error)
            for row in self.rows
            if (row.model, row.order, row.configuration) == (model, order, configuration)
            and (divergent is None or row.divergent == divergent)
        ]
        return float(np.mean(errors)) if errors else None


def model_names() -> list[str]:
    """All models, each followed by its variants, and the reference simulator."""
    variants = {model: [key for key, (base, _) in VARIANTS.items() if base == model] for model in MODELS}
    return [*(name for model in MODELS for name in (model, *variants[model])), recorded.NAME]


def validate_accelsim(
    *,
    kernels: Sequence[str] | None = None,
    configurations: Iterable[str] | None = None,
    orders: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    workers: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Validation:
    """Run the models on all kernels and configurations of the data; `progress` is called after each kernel.

    Without `orders`, the usual ones run, and further ones for the caches.
    """
    chosen = list(kernels or accelsim.kernels())
    settings = list(configurations or accelsim.CONFIGURATIONS)
    named = list(models or model_names())
    model_orders = list(orders or ORDERS)
    cache_orders = [*model_orders, *(() if orders else MORE_ORDERS)]

    def one(kernel: str) -> _Part:
        part = _validate_kernel(kernel, settings, model_orders, cache_orders, named)
        if progress is not None:
            progress(kernel)
        return part

    # The compiled loops release the interpreter lock, so threads share the work.
    pool = ThreadPoolExecutor(workers or os.cpu_count() or 1)
    try:
        parts = dict(zip(chosen, pool.map(one, chosen), strict=True))
    finally:
        pool.shutdown(cancel_futures=True)
    places = {name: index for names in (cache_orders, settings, chosen, named) for index, name in enumerate(names)}

    def place_of(row: Row | MissRow | SkippedRow) -> tuple[int, ...]:
        return places[row.order], places[row.configuration], places[row.kernel]

    return Validation(
        dataset="accelsim",
        kernels=tuple(chosen),
        configurations=tuple(settings),
        orders=tuple(model_orders),
        models=tuple(named),
        rows=tuple(sorted((row for part in parts.values() for row in part.rows), key=place_of)),
        misses=tuple(sorted((row for part in parts.values() for row in part.misses), key=place_of)),
        bounds=tuple(part.bounds for part in parts.values()),
        dpki={kernel: part.dpki for kernel, part in parts.items()},
        skipped=tuple(sorted((row for part in parts.values() for row in part.skipped), key=place_of)),
    )


@dataclass(frozen=True)
class _Part:
    rows: list[Row]
    misses: list[MissRow]
    bounds: Bounds
    dpki: float
    skipped: list[SkippedRow]


def traced(kernel: str) -> LaunchTrace:
    """The trace of one kernel of the data."""
    (workload,) = load_workloads(accelsim.trace_path(kernel))
    return workload.require_trace("a validation")


def _validate_kernel(
    kernel: str,
    settings: Sequence[str],
    model_orders: Sequence[str],
    cache_orders: Sequence[str],
    models: Sequence[str],
) -> _Part:
    trace = traced(kernel)
    own = workload_of_trace(trace)
    _, base = place(own, accelsim.GPU)
    facts = analyse(own, base).traced
    assert facts is not None
    divergence = facts.divergent_loads_per_kilo_instruction
    rows: list[Row] = []
    misses: list[MissRow] = []
    skipped: list[SkippedRow] = []
    for order in cache_orders:
        workload = workload_of_trace(trace, order=order)
        for setting in settings:
            reference = accelsim.measurements()[setting, kernel]
            placed, gpu = place(workload, accelsim.GPU, accelsim.CONFIGURATIONS[setting])
            found = cache_misses(placed, gpu)
            ratios = (found.l1_miss_ratio, reference.l1_miss_ratio, found.llc_miss_ratio, reference.llc_miss_ratio)
            misses.append(MissRow(order, setting, kernel, *ratios))
            for name in models if order in model_orders else ():
                try:
                    if name == recorded.NAME:  # it has its own caches, so the order does not matter
                        cycles = recorded.recorded()[setting, kernel].cycles
                    else:
                        base_name, options = VARIANTS.get(name, (name, {}))
                        cycles = float(predict(placed, gpu, base_name, options=options).cycles)
                except MissingInputError as error:
                    skipped.append(SkippedRow(order, setting, kernel, name, str(error)))
                    continue
                divergent = divergence > DIVERGENT_DPKI
                rows.append(Row(order, setting, kernel, divergent, name, cycles, float(reference.cycles)))
    reference_cycles = float(accelsim.measurements()["base", kernel].cycles)
    return _Part(rows, misses, bounds_of(kernel, own, base, reference_cycles), divergence, skipped)
