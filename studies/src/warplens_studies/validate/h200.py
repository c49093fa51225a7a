"""The models against an H200: the suite's kernels, measured with Nsight Compute, beside their predictions.

Models predict from traces of SASS, recorded on the H200, and from traces of PTX,
executed on the CPU (`h200_profiles` makes the predictions).
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warplens import machine
from warplens.errors import FileError
from warplens.machine import Gpu, load_gpu
from warplens.models import GENERAL_MODELS as MODELS

from .metrics import cycle_error, mape, mape_shape, rank_correlation, to_be_ranked

FOLDER = Path(__file__).parent / "data" / "h200"
MACHINE = "h200"
MACHINE_FILE = Path(machine.__file__).parent / "data" / f"{MACHINE}.toml"
#: Sources of the traces, and sizes of the suite; pages that show one show the first.
SOURCES = ("sass", "ptx")
SIZES = ("medium", "large")
#: Shorter kernels are left out of the means: launch overhead dominates them.
LEAST_NS = 20_000.0
#: The name of the bound from measured counters, beside the models' names.
BOUND = "counters"
SIMULATED = (
    "warp_instructions",
    "warps_per_sm",
    "l1_hit_ratio",
    "l2_hit_ratio",
    "l2_bytes",
    "dram_read_bytes",
    "dram_write_bytes",
    "bank_cycles",
)

#: Columns of our own model's range.
RANGE = ("cycles_low", "cycles_high")

#: A kernel and its resident blocks per SM; 0 for as many as fit.
Setting = tuple[str, int]


# -- measured ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Medians over the repeats of one launch."""

    kernel: str
    resident_blocks: int
    repeats: int
    least_cycles: float
    most_cycles: float
    """Fewest and most elapsed cycles of the repeats."""
    elapsed_cycles: float
    active_cycles: float
    duration_ns: float
    warp_instructions: float
    l1_hit_percent: float
    l2_hit_percent: float
    l2_bytes: float
    dram_read_bytes: float
    dram_write_bytes: float
    occupancy_percent: float

    @property
    def ipc(self) -> float:
        return self.warp_instructions / self.elapsed_cycles

    @property
    def spread(self) -> float:
        """Spread of the elapsed cycles: (most - least) / median."""
        return (self.most_cycles - self.least_cycles) / self.elapsed_cycles

    def differs(self, other: Measured) -> bool:
        """Whether every repeat of one is faster than every repeat of the other."""
        return self.most_cycles < other.least_cycles or other.most_cycles < self.least_cycles


_MEDIANS = list(Measured.__dataclass_fields__)[5:]


def lines(path: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """A CSV file's comments (`# key: text`) and rows."""
    try:
        text = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from None
    comments = [line[1:].split(":", 1) for line in text if line.startswith("#")]
    rows = list(csv.DictReader(line for line in text if not line.startswith("#")))
    return {key.strip(): value.strip() for key, value in comments}, rows


@cache
def measurements(size: str = SIZES[0]) -> Mapping[Setting, Measured]:
    groups: dict[Setting, list[dict[str, str]]] = {}
    for row in lines(FOLDER / "suite_measured.csv")[1]:
        if row["size"] == size:
            groups.setdefault((row["kernel"], int(row["resident_blocks"])), []).append(row)
    found = {}
    for setting, rows in groups.items():
        cycles = [float(row["elapsed_cycles"]) for row in rows]
        medians: dict[str, Any] = {name: statistics.median(float(row[name]) for row in rows) for name in _MEDIANS}
        found[setting] = Measured(*setting, len(rows), min(cycles), max(cycles), **medians)
    return found


def provenance() -> dict[str, str]:
    """GPU, driver, clocks and commands of the measurement."""
    return lines(FOLDER / "suite_measured.csv")[0]


def bound_parts(measured: Measured, gpu: Gpu) -> dict[str, float]:
    """Fewest cycles that issue, L2 and DRAM need, from the counters."""
    seconds = {
        "L2": measured.l2_bytes / gpu.require("noc.bandwidth_bytes_per_s", "the bound from counters"),
        "DRAM": (measured.dram_read_bytes + measured.dram_write_bytes)
        / gpu.require("dram.bandwidth_bytes_per_s", "the bound from counters"),
    }
    issue = measured.warp_instructions / (float(gpu.issue_rate) * float(gpu.sms))
    return {"issue": issue} | {name: float(value) * float(gpu.clock_hz) for name, value in seconds.items()}


# -- predicted -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Predicted:
    """Predictions of one launch, and its cache simulation."""

    kernel: str
    resident_blocks: int
    warp_instructions: float
    warps_per_sm: float
    l1_hit_ratio: float
    l2_hit_ratio: float
    l2_bytes: float
    dram_read_bytes: float
    dram_write_bytes: float
    bank_cycles: float
    """Cycles for which the accesses of an SM hold the banks of its shared memory."""
    cycles: Mapping[str, float] = field(default_factory=dict)
    """Cycles by model; a model that cannot run is missing."""
    cycles_low: float = math.nan
    cycles_high: float = math.nan
    """The range that `warplens` gives."""
    source: str = SOURCES[0]
    size: str = SIZES[0]

    def to_dict(self) -> dict[str, Any]:
        names = ("source", "size", "kernel", "resident_blocks", *SIMULATED, *RANGE)
        own = {name: getattr(self, name) for name in names}
        return own | {model: self.cycles.get(model, "") for model in MODELS}


# -- compared ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """One model over the kernels that run longer than 20 µs."""

    model: str
    kernels: int
    mape: float
    median: float
    within: tuple[int, int, int]
    """Kernels within 10, 20 and 30 %."""
    mape_active: float
    mape_all: float
    """MAPE over all kernels, including short ones."""
    rank_ipc: float

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


@dataclass(frozen=True)
class Sweep:
    """One model over the occupancies of one kernel; errors of speed, as Lemeire §6.3 defines them."""

    model: str
    kernel: str
    levels: int
    mape: float
    mape_shape: float
    rank: float
    concordance: float
    """Concordant minus discordant pairs, over the pairs of occupancies that the repeats distinguish."""
    span: float
    """Slowest over fastest median, minus 1."""
    noise: float
    """The largest spread of repeats."""

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


@dataclass(frozen=True)
class H200Validation:
    """Measured and predicted launches side by side."""

    measured: Mapping[Setting, Measured]
    predicted: Mapping[Setting, Predicted]
    gpu: Gpu
    source: str = SOURCES[0]
    size: str = SIZES[0]

    @property
    def kernels(self) -> list[str]:
        return [kernel for kernel, blocks in self.predicted if not blocks]

    @property
    def long_kernels(self) -> list[str]:
        return [kernel for kernel in self.kernels if self.measured[kernel, 0].duration_ns > LEAST_NS]

    @property
    def swept(self) -> list[str]:
        return list(dict.fromkeys(kernel for kernel, blocks in self.predicted if blocks))

    @property
    def models(self) -> list[str]:
        """The models that ran on at least one kernel, and the bound from counters."""
        ran = {name for row in self.predicted.values() for name in row.cycles}
        return [*(name for name in MODELS if name in ran), BOUND]

    def cycles(self, model: str, kernel: str, blocks: int = 0) -> float | None:
        if model == BOUND:
            return max(bound_parts(self.measured[kernel, blocks], self.gpu).values())
        return self.predicted[kernel, blocks].cycles.get(model)

    def error(self, model: str, kernel: str, *, active: bool = False) -> float | None:
        """T_model / T_measured - 1."""
        cycles, measured = self.cycles(model, kernel), self.measured[kernel, 0]
        return (
            None
            if cycles is None
            else cycle_error(cycles, measured.active_cycles if active else measured.elapsed_cycles)
        )

    def ipc(self, model: str, kernel: str) -> float | None:
        cycles = self.cycles(model, kernel)
        counted = self.measured[kernel, 0] if model == BOUND else self.predicted[kernel, 0]
        return None if cycles is None else counted.warp_instructions / cycles

    def summary(self, model: str) -> Summary:
        def errors(kernels: Sequence[str], active: bool = False) -> list[float]:
            found = (self.error(model, kernel, active=active) for kernel in kernels)
            return [abs(each) for each in found if each is not None]

        own = errors(self.long_kernels)
        ipc = [
            (value, self.measured[k, 0].ipc) for k in self.long_kernels if (value := self.ipc(model, k)) is not None
        ]
        return Summary(
            model,
            len(own),
            _mean(own),
            statistics.median(own) if own else math.nan,
            (_within(own, 0.1), _within(own, 0.2), _within(own, 0.3)),
            _mean(errors(self.long_kernels, active=True)),
            _mean(errors(self.kernels)),
            rank_correlation(*map(to_be_ranked, zip(*ipc, strict=True))) if ipc else math.nan,
        )

    def levels(self, kernel: str) -> list[int]:
        """Measured numbers of resident blocks, up to the first that reaches the limit."""
        found = [blocks for name, blocks in self.predicted if name == kernel and blocks]
        warps = {blocks: self.predicted[kernel, blocks].warps_per_sm for blocks in found}
        return [blocks for i, blocks in enumerate(found) if i == 0 or warps[blocks] > warps[found[i - 1]]]

    def sweep(self, model: str, kernel: str) -> Sweep | None:
        levels = self.levels(kernel)
        cycles = [self.cycles(model, kernel, blocks) for blocks in levels]
        if None in cycles:
            return None
        predicted = [1.0 / each for each in cycles if each is not None]
        rows = [self.measured[kernel, blocks] for blocks in levels]
        real = [1.0 / row.elapsed_cycles for row in rows]
        warps = [self.predicted[kernel, blocks].warps_per_sm for blocks in levels]
        pairs = [(i, j) for i in range(len(rows)) for j in range(i) if rows[i].differs(rows[j])]
        ranked = to_be_ranked(predicted)
        agree = [np.sign(ranked[i] - ranked[j]) * np.sign(real[i] - real[j]) for i, j in pairs]
        return Sweep(
            model,
            kernel,
            len(levels),
            mape(predicted, real),
            mape_shape(warps, predicted, real),
            rank_correlation(ranked, real),
            _mean(agree),
            max(real) / min(real) - 1.0,
            max(row.spread for row in rows),
        )

    def sweeps(self, model: str) -> list[Sweep]:
        found = (self.sweep(model, kernel) for kernel in self.swept)
        return [each for each in found if each is not None]

    def rows(self) -> list[dict[str, Any]]:
        """Every launch and model, for a file."""
        return [
            {
                "source": self.source,
                "size": self.size,
                "kernel": kernel,
                "resident_blocks": blocks,
                "warps_per_sm": self.predicted[kernel, blocks].warps_per_sm,
                "model": model,
                "predicted_cycles": cycles,
                "measured_cycles": self.measured[kernel, blocks].elapsed_cycles,
                "measured_active_cycles": self.measured[kernel, blocks].active_cycles,
                "error": cycle_error(cycles, self.measured[kernel, blocks].elapsed_cycles),
            }
            for kernel, blocks in self.predicted
            for model in self.models
            if (cycles := self.cycles(model, kernel, blocks)) is not None
        ]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _within(values: Sequence[float], limit: float) -> int:
    return sum(value <= limit for value in values)


def compare(predicted: Iterable[Predicted]) -> dict[tuple[str, str], H200Validation]:
    """Predictions beside measurements, by source and size."""
    groups: dict[tuple[str, str], dict[Setting, Predicted]] = {}
    for row in predicted:
        groups.setdefault((row.source, row.size), {})[row.kernel, row.resident_blocks] = row
    gpu = load_gpu(MACHINE)
    return {key: H200Validation(measurements(key[1]), rows, gpu, *key) for key, rows in groups.items()}
