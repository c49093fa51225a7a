"""Which term is off: CPI stacks beside the reference, and predictions with one thing changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from warplens.analysis import DEFAULT_ORDER, MissProfile
from warplens.analysis import _cache_records as memory
from warplens.api import place, predict
from warplens.models import MODELS
from warplens.models.prediction import Prediction
from warplens.workload import Workload, resident, workload_of_trace
from warplens.workload.traced import cache_misses

from . import accelsim
from .harness import Validation, traced
from .metrics import ipc_error
from .tables import Cell, Table, percent

#: Models whose CPI stacks are shown.
STACKED = ("gpumech", "gpumech-plus", "mdm-queue", "mdm-mshr", "mdm")
_CATEGORIES = MODELS["mdm"].categories or ()
#: Depths of the memory queue that the sensitivity table shows.
DEPTHS = (1, 4, 6, 8, 10, 12, 16, 64)
#: Kernels whose miss ratios depend on the order of accesses.
SENSITIVE = ("listing1_gs32", "saxpy", "stencil", "graph")

#: Machines on which saxpy has fewer conflict misses in L1, with the configuration of the reference.
_CONFLICTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("base", {}),
    ("", {"l1.ways": 8, "l1.size": "64KiB"}),
    ("", {"l1.ways": 12, "l1.size": "96KiB"}),
    ("mshr64", {"l1.mshrs": 64}),
    ("mshr32", {"l1.mshrs": 32}),
)

_FREE = "1e6GB/s"
_NO_NOC = {"noc.bandwidth": _FREE, "noc.sm_bandwidth": _FREE}
_NO_DRAM = {"dram.bandwidth": _FREE}
_NO_LATENCY = {"llc.latency": "0", "dram.latency": "0"}
_HALF_DRAM = {"dram.bandwidth": "240GB/s"}
_DRAM_BOUND = ("strided32", "strided8", "gather_dram", "graph", "chase_divergent")
_NOC_BOUND = ("strided32_l2", "gather_l2", "listing1_gs32")


@dataclass(frozen=True)
class Experiment:
    """A model on a kernel with one thing changed, still against the reference at `base`."""

    question: str
    kernels: tuple[str, ...]
    model: str
    changes: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    instead_of: str = ""
    """The model whose error at base it is compared with, if different."""
    order: str = DEFAULT_ORDER

    @property
    def change(self) -> str:
        """The change, as typed on the command line."""
        parts = [f"--set {key}={value}" for key, value in self.changes.items()]
        parts += [f"--option {self.model}.{key}={value}" for key, value in self.options.items()]
        parts += [f"--order {self.order}"] if self.order != DEFAULT_ORDER else []
        return " ".join(parts)


EXPERIMENTS = (
    Experiment("G-21's cap takes half of the queue", (*_DRAM_BOUND, "saxpy", "scatter"), "gpumech", _HALF_DRAM),
    Experiment(
        "M-5 adds NoC and latency to the DRAM queue that hides them",
        _DRAM_BOUND,
        "mdm-cal2019",
        {**_NO_NOC, **_NO_LATENCY},
        instead_of="mdm",
    ),
    Experiment(
        "M-5 adds DRAM and latency to the NoC queue that hides them", _NOC_BOUND, "mdm", {**_NO_DRAM, **_NO_LATENCY}
    ),
    Experiment("M-10 looks at the NoC alone", _DRAM_BOUND, "mdm", _NO_NOC),
    Experiment(
        "G-19's waits contain the queue of all requests",
        (*_DRAM_BOUND, *_NOC_BOUND),
        "gpumech-plus",
        options={"dram_requests": "mshr-capped"},
    ),
    Experiment(
        "departure delays come from the NoC alone",
        (*_DRAM_BOUND, "scatter"),
        "mwp-cwp-corrected",
        {"noc.bandwidth": "480GB/s"},
    ),
    Experiment("C alone, without queues", ("saxpy_lowocc", "stencil", "matmul"), "mdm", {**_NO_NOC, **_NO_DRAM}),
    Experiment("Transit adds up the latencies of all loads", ("saxpy_lowocc",), "transit", {**_NO_NOC, **_NO_DRAM}),
    Experiment("Transit adds up the latencies of all loads", ("saxpy_lowocc",), "transit", _NO_LATENCY),
    Experiment("stores ask the NoC for lines", ("copy", "scatter", "saxpy"), "mdm", _NO_NOC),
    Experiment(
        "the equations without the limit of the issue rate",
        ("compute_ilp1", "compute_ilp4_lowocc", "matmul", "stencil"),
        "gpumech",
        options={"clamp": "false"},
    ),
    Experiment("strict round robin thrashes the LLC", ("listing1_gs32",), "gpumech", order="round-robin"),
)


@cache
def _workload(kernel: str, order: str = DEFAULT_ORDER) -> Workload:
    return workload_of_trace(traced(kernel), order=order)


def _predict(
    kernel: str,
    model: str,
    changes: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    order: str = DEFAULT_ORDER,
) -> Prediction:
    placed, gpu = place(_workload(kernel, order), accelsim.GPU, changes)
    return predict(placed, gpu, model, options=options)


def experiment_table() -> Table:
    """Errors at base, and with the change, both against the reference at base."""
    rows = []
    for experiment in EXPERIMENTS:
        for kernel in experiment.kernels:
            reference = float(accelsim.measurements()["base", kernel].cycles)
            before = _predict(kernel, experiment.instead_of or experiment.model)
            after = _predict(kernel, experiment.model, experiment.changes, experiment.options, experiment.order)
            rows.append(
                (
                    Cell(experiment.question),
                    Cell(experiment.model),
                    Cell(experiment.change),
                    Cell(kernel),
                    percent(ipc_error(float(before.cycles), reference)),
                    percent(ipc_error(float(after.cycles), reference)),
                )
            )
    columns = ("what it shows", "model", "change", "kernel", "error at base, %", "with the change, %")
    return Table("predictions with one thing changed", columns, tuple(rows), labels=4)


def stack_table(validation: Validation) -> Table:
    """CPI stacks in cycles of the launch, beside the reference's cycles."""
    rows = []
    for model in STACKED:
        for kernel in validation.kernels:
            found = _predict(kernel, model)
            assert found.stack is not None
            cycles = float(found.cycles)
            reference = float(accelsim.measurements()["base", kernel].cycles)
            parts = {name: float(part) / float(found.cpi) * cycles for name, part in found.stack.items()}
            rows.append(
                (
                    Cell(model),
                    Cell(kernel),
                    Cell(f"{reference:.0f}"),
                    Cell(f"{cycles:.0f}"),
                    *(Cell(f"{parts[name]:.0f}" if name in parts else "–") for name in _CATEGORIES),
                    percent(ipc_error(cycles, reference)),
                )
            )
    columns = ("model", "kernel", "reference", "predicted", *_CATEGORIES, "error, %")
    return Table(f"cycles by category at base, {DEFAULT_ORDER} order", columns, tuple(rows), labels=2)


def kernel_table(validation: Validation) -> Table:
    """What each kernel is, in numbers of its launch and trace."""
    rows = []
    for kernel in validation.kernels:
        workload = _workload(kernel)
        _, gpu = place(workload, accelsim.GPU)
        launch, residency = workload.launch, resident(workload.launch, gpu)
        warps = float(residency.total_warps)
        instructions = sum(group.instructions for group in traced(kernel).groups())
        cells = [Cell(kernel), Cell(f"{launch.blocks:.0f} × {launch.threads_per_block}")]
        cells += [Cell(f"{float(residency.warps_per_sm):.0f}"), Cell(f"{float(residency.runs):.2f}")]
        cells += [Cell(f"{instructions / warps:.0f}")]
        for kind in (memory.LOAD, memory.STORE):
            count, lines = _accesses(cache_misses(workload, gpu), kind)
            cells += [Cell(f"{count / warps:.1f}"), Cell(f"{lines / count:.1f}" if count else "–")]
        rows.append((*cells, Cell(f"{validation.dpki[kernel]:.0f}")))
    columns = (
        "kernel",
        "blocks × threads",
        "warps an SM",
        "fills",
        "instructions a warp",
        "loads a warp",
        "lines a load",
        "stores a warp",
        "lines a store",
        "DPKI",
    )
    return Table("the kernels", columns, tuple(rows))


def _accesses(found: MissProfile, kind: int) -> tuple[float, float]:
    """(Executions, lines) of the loads or the stores of a launch."""
    executed = np.where(found.kinds == kind, found.executed, 0)
    return float(executed.sum()), float(executed @ found.per_execution("lines"))


def conflict_table() -> Table:
    """L1 miss ratio of saxpy with more ways, or with fewer lines in flight."""
    rows = []
    for configuration, changes in _CONFLICTS:
        ours = _ratios("saxpy", changes)[0]
        reference = accelsim.measurements()[configuration, "saxpy"].l1_miss_ratio if configuration else None
        change = " ".join(f"`--set {key}={value}`" for key, value in changes.items()) or "none"
        rows.append((Cell(change), Cell(f"{ours:.3f}"), Cell("–" if reference is None else f"{reference:.3f}")))
    return Table("L1 miss ratio of saxpy", ("change", "ours", "reference"), tuple(rows))


def depth_table() -> Table:
    """Miss ratios of order-sensitive kernels by depth of the memory queue, and the errors of all kernels."""
    measured = accelsim.measurements()
    reference = [measured["base", kernel] for kernel in SENSITIVE]
    rows = [
        (
            Cell("reference"),
            *(Cell(f"{each.l1_miss_ratio:.3f} / {each.llc_miss_ratio:.3f}") for each in reference),
            *(Cell("") for _ in range(4)),
        )
    ]
    for depth in DEPTHS:
        found = {
            (configuration, kernel): _ratios(kernel, {"l1.queue": depth, **changes})
            for configuration, changes in accelsim.CONFIGURATIONS.items()
            for kernel in accelsim.kernels()
        }
        at_base = [found["base", kernel] for kernel in SENSITIVE]
        cells = [Cell(str(depth)), *(Cell(f"{l1:.3f} / {llc:.3f}") for l1, llc in at_base)]
        for configurations in (("base",), tuple(accelsim.CONFIGURATIONS)):
            for level, name in enumerate(("l1_miss_ratio", "llc_miss_ratio")):
                off = [
                    abs(ratios[level] - getattr(measured[key], name))
                    for key, ratios in found.items()
                    if key[0] in configurations
                ]
                cells.append(Cell(f"{np.mean(off):.4f}"))
        rows.append(tuple(cells))
    columns = (
        "depth",
        *(f"{kernel} L1 / LLC" for kernel in SENSITIVE),
        *(f"mean difference {level}, {where}" for where in ("base", "all") for level in ("L1", "LLC")),
    )
    return Table("miss ratios over the depth of the memory queue", columns, tuple(rows))


def _ratios(kernel: str, changes: Mapping[str, Any]) -> tuple[float, float]:
    placed, gpu = place(_workload(kernel), accelsim.GPU, changes)
    found = cache_misses(placed, gpu)
    return found.l1_miss_ratio, found.llc_miss_ratio
