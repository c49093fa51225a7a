"""The models against an H200: the suite's kernels, measured with Nsight Compute, predicted from their PTX traces.

Executing the kernels and simulating their caches takes minutes, so what was
predicted is kept in data/h200 with a fingerprint of the machine's values.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import statistics
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..errors import FileError, InputError
from ..machine import Gpu, load_gpu, with_overrides
from ..models import GENERAL_MODELS as MODELS
from ..models import get_model
from ..simulators.detailed.stream import stream_groups
from ..suite.catalog import SUITE
from ..suite.execution import run_on_cpu
from ..workload.launch import resident
from ..workload.traced import TracedWorkload, workload_of_trace
from .metrics import cycle_error, mape, mape_shape, rank_correlation
from .report import csv_text

FOLDER = Path(__file__).parent / "data" / "h200"
MACHINE = "h200"
MACHINE_FILE = Path(__file__).parents[1] / "machine" / "data" / f"{MACHINE}.toml"
SIZE = "medium"
#: Kernels that end sooner are left out of the means: launching takes a large part of their time.
LEAST_NS = 20_000.0
#: The name of the bound from measured counters, beside the models' names.
BOUND = "counters"
#: Residents are limited by asking for all shared memory, and the L1 keeps what is left of their common 256 KiB
#: (NVIDIA H100 white paper).
SWEEP_L1_BYTES = 256 * 1024 - 228 * 1024
_SIMULATED = (
    "warp_instructions",
    "warps_per_sm",
    "l1_hit_ratio",
    "l2_hit_ratio",
    "l2_bytes",
    "dram_read_bytes",
    "dram_write_bytes",
    "bank_cycles",
)

#: A kernel and the thread blocks that an SM may hold; 0 for as many as fit.
Setting = tuple[str, int]


# -- measured ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Medians over the repeats of one launch."""

    kernel: str
    resident_blocks: int
    repeats: int
    spread: float
    """Of the elapsed cycles: (largest - least) / median."""
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


_MEDIANS = list(Measured.__dataclass_fields__)[4:]


def _lines(path: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """A CSV file's comments (`# key: text`) and rows."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from None
    comments = [line[1:].split(":", 1) for line in lines if line.startswith("#")]
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    return {key.strip(): value.strip() for key, value in comments}, rows


@cache
def measurements(size: str = SIZE) -> Mapping[Setting, Measured]:
    groups: dict[Setting, list[dict[str, str]]] = {}
    for row in _lines(FOLDER / "suite_measured.csv")[1]:
        if row["size"] == size:
            groups.setdefault((row["kernel"], int(row["resident_blocks"])), []).append(row)
    found = {}
    for setting, rows in groups.items():
        cycles = [float(row["elapsed_cycles"]) for row in rows]
        spread = (max(cycles) - min(cycles)) / statistics.median(cycles)
        medians: dict[str, Any] = {name: statistics.median(float(row[name]) for row in rows) for name in _MEDIANS}
        found[setting] = Measured(*setting, len(rows), spread, **medians)
    return found


def provenance() -> dict[str, str]:
    """GPU, driver, clocks and commands of the measurement."""
    return _lines(FOLDER / "suite_measured.csv")[0]


def bound_parts(measured: Measured, gpu: Gpu) -> dict[str, float]:
    """Cycles that issue, L2 and DRAM need at least, from the counters."""
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
    """What the models say of one launch, and what the cache simulation found."""

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
    """Cycles that the banks of an SM's shared memory need for its accesses, one after the other."""
    cycles: Mapping[str, float] = field(default_factory=dict)
    """By model; a model that cannot run is missing."""

    def to_dict(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("kernel", "resident_blocks", *_SIMULATED)}
        return own | {model: self.cycles.get(model, "") for model in MODELS}


def predict_kernel(kernel: str, size: str = SIZE, levels: Sequence[int] = (0,)) -> list[Predicted]:
    """Execute a kernel on the CPU and run every model on its trace, with each number of resident blocks."""
    trace = run_on_cpu(SUITE[kernel], size, record=True).trace
    workload = workload_of_trace(trace)
    machine = load_gpu(MACHINE)
    line_bytes = int(machine.require("l1.line_bytes", "bank conflicts"))
    passes = sum(int(part.shared_degree.sum()) for part in stream_groups(trace, line_bytes))
    bank_cycles = passes / float(machine.sms)
    return [_predict(kernel, workload, machine, blocks, bank_cycles) for blocks in levels]


def _predict(kernel: str, workload: TracedWorkload, machine: Gpu, blocks: int, bank_cycles: float) -> Predicted:
    if blocks:
        fitting = float(np.max(resident(workload.launch, machine).blocks_per_sm))
        workload = workload.with_overrides({"launch.blocks_per_sm": min(float(blocks), fitting)})
        machine = with_overrides(machine, {"l1.size_bytes": SWEEP_L1_BYTES})
    cycles = {}
    for name in MODELS:
        try:
            cycles[name] = float(get_model(name).predict(workload, machine).cycles)
        except InputError:
            continue
    misses = workload.misses(machine)
    return Predicted(
        kernel,
        blocks,
        workload.total_instructions,
        float(np.max(resident(workload.launch, machine).warps_per_sm)),
        1.0 - misses.l1_miss_ratio,
        1.0 - misses.llc_miss_ratio,
        float(misses.llc_accesses * misses.transfer_bytes),
        float(misses.dram_read_bytes),
        float(misses.dram_write_bytes),
        bank_cycles,
        cycles,
    )


def levels_of(kernel: str) -> list[int]:
    """Residents that were measured, 0 first, for as many as fit."""
    return sorted(blocks for name, blocks in measurements() if name == kernel)


def _values(table: Any) -> Any:
    """A machine file without its words: what a prediction can depend on."""
    if isinstance(table, dict):
        words = ("source", "sources", "description")
        return {key: _values(value) for key, value in table.items() if key not in words}
    return table


def fingerprint(machine_file: Path = MACHINE_FILE) -> str:
    """SHA-256 of the values of the machine file, without sources and descriptions."""
    values = _values(tomllib.loads(machine_file.read_text(encoding="utf-8")))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def predictions_file(swept: bool) -> Path:
    return FOLDER / f"predictions_{'sweeps' if swept else SIZE}.csv"


def write_predictions(rows: Iterable[Predicted], machine: str) -> list[Path]:
    """Replace the predictions that come with the package; `machine` is the fingerprint they belong to."""
    rows = list(rows)
    head = f"# made by: warplens validate h200 --fresh\n# version: {__version__}\n# machine: {machine}\n"
    paths = []
    for swept in (False, True):
        path = predictions_file(swept)
        text = csv_text(row.to_dict() for row in rows if bool(row.resident_blocks) == swept)
        try:
            path.write_text(head + text, encoding="utf-8")
        except OSError as error:
            raise FileError(f"{path}: cannot be written ({error}); --fresh needs a source checkout") from None
        paths.append(path)
    return paths


def kept_predictions() -> list[Predicted]:
    """What comes with the package, whatever machine it belongs to."""
    found = []
    for swept in (False, True):
        for row in _lines(predictions_file(swept))[1]:
            cycles = {name: float(row[name]) for name in MODELS if row.get(name)}
            simulated = {name: float(row[name]) for name in _SIMULATED}
            found.append(Predicted(row["kernel"], int(row["resident_blocks"]), **simulated, cycles=cycles))
    return found


def stale() -> str:
    """Why the kept predictions are not those of this machine file and these models; empty where they are."""
    for swept in (False, True):
        path = predictions_file(swept)
        if not path.exists():
            return f"{path.name} is missing"
        comments, rows = _lines(path)
        if comments.get("version") != __version__:
            return f"{path.name} is of version {comments.get('version')}"
        if comments.get("machine") != fingerprint():
            return f"{path.name} is of another {MACHINE_FILE.name}"
        missing = [name for name in MODELS if not rows or name not in rows[0]]
        if missing:
            return f"{path.name} lacks {', '.join(missing)}"
    return ""


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
    """Over all kernels, short ones too."""
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

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


@dataclass(frozen=True)
class H200Validation:
    """Measured and predicted launches side by side."""

    measured: Mapping[Setting, Measured]
    predicted: Mapping[Setting, Predicted]
    gpu: Gpu

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
            rank_correlation(*zip(*ipc, strict=True)) if ipc else math.nan,
        )

    def levels(self, kernel: str) -> list[int]:
        """Measured residents, up to the first that holds all blocks that fit."""
        found = [blocks for name, blocks in self.predicted if name == kernel and blocks]
        warps = {blocks: self.predicted[kernel, blocks].warps_per_sm for blocks in found}
        return [blocks for i, blocks in enumerate(found) if i == 0 or warps[blocks] > warps[found[i - 1]]]

    def sweep(self, model: str, kernel: str) -> Sweep | None:
        levels = self.levels(kernel)
        cycles = [self.cycles(model, kernel, blocks) for blocks in levels]
        if None in cycles:
            return None
        predicted = [1.0 / each for each in cycles if each is not None]
        real = [1.0 / self.measured[kernel, blocks].elapsed_cycles for blocks in levels]
        warps = [self.predicted[kernel, blocks].warps_per_sm for blocks in levels]
        return Sweep(
            model,
            kernel,
            len(levels),
            mape(predicted, real),
            mape_shape(warps, predicted, real),
            rank_correlation(predicted, real),
        )

    def sweeps(self, model: str) -> list[Sweep]:
        found = (self.sweep(model, kernel) for kernel in self.swept)
        return [each for each in found if each is not None]

    def rows(self) -> list[dict[str, Any]]:
        """Every launch and model, for a file."""
        return [
            {
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


def compare(predicted: Iterable[Predicted]) -> H200Validation:
    """Predictions beside what was measured."""
    return H200Validation(
        measurements(), {(row.kernel, row.resident_blocks): row for row in predicted}, load_gpu(MACHINE)
    )


def predict_all(
    kernels: Sequence[str] | None = None, progress: Callable[[str], None] | None = None
) -> list[Predicted]:
    """Every measured launch of the kernels, or of all; `progress` is told each kernel that is done."""
    found: list[Predicted] = []
    for kernel in SUITE if kernels is None else kernels:
        found += predict_kernel(kernel, levels=levels_of(kernel))
        if progress is not None:
            progress(kernel)
    return found
