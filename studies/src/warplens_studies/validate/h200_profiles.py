"""Predictions of the suite on an H200, from bundled profiles of SASS traced there and of PTX.

A profile holds what the models need of a trace (`warplens.workload.profiled`), so every
prediction can be repeated anywhere. That takes minutes, so predictions are kept too,
with a fingerprint of the machine's values.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from warplens._version import __version__
from warplens.analysis.banks import conflict_degrees
from warplens.api import predict
from warplens.errors import FileError, InputError, MissingInputError
from warplens.machine import Gpu, load_gpu, with_overrides
from warplens.models import GENERAL_MODELS as MODELS
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.traces import LaunchTrace
from warplens.workload import Workload, analyse
from warplens.workload.launch import resident
from warplens.workload.profiled import profile_of_trace, read_profiles
from warplens.workload.traced import representative_of

from .h200 import (
    FOLDER,
    MACHINE,
    MACHINE_FILE,
    RANGE,
    SIMULATED,
    SIZES,
    SOURCES,
    H200Validation,
    Predicted,
    compare,
    lines,
    measurements,
)
from .report import csv_text

PROFILES = FOLDER / "profiles"
PREDICTIONS = FOLDER / "predictions.csv"
#: Dynamic shared memory limits the residents; the L1 keeps the rest of their common 256 KiB (NVIDIA H100 white
#: paper).
SWEEP_L1_BYTES = 256 * 1024 - 228 * 1024


# -- profiles ------------------------------------------------------------------------------


def levels_of(kernel: str, size: str) -> list[int]:
    """Measured numbers of resident blocks, after 0 (as many as fit)."""
    return sorted(blocks for name, blocks in measurements(size) if name == kernel) or [0]


def profile_launch(trace: LaunchTrace, kernel: str, size: str, *, swept: bool = True) -> Workload:
    """A profile for every model, with each measured number of resident blocks, or only with all that fit."""
    workload = profile_of_trace(trace)
    for blocks in levels_of(kernel, size) if swept else (0,):
        predict_launch(workload, kernel, blocks)
    return workload


def execute_kernel(kernel: str, size: str) -> Workload:
    """The profile of a kernel's PTX, executed on the CPU."""
    return profile_launch(run_on_cpu(SUITE[kernel], size, record=True).trace, kernel, size)


def profiles_file(source: str, size: str) -> Path:
    return PROFILES / f"{source}_{size}.xz"


@cache
def shipped_profiles(source: str, size: str) -> tuple[dict[str, Workload], dict[str, str]]:
    """(profiles by kernel, where they come from)."""
    path = profiles_file(source, size)
    return read_profiles(path) if path.exists() else ({}, {})


# -- predictions ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _BankCount:
    """What the bank cycles depend on: the trace alone."""

    kept_as: ClassVar[str] = "banks"


@dataclass(frozen=True)
class _BankPasses:
    """Cycles for which the accesses of a launch hold the banks of shared memory, all SMs together."""

    total: int


def _bank_cycles(workload: Workload, machine: Gpu) -> float:
    trace = workload.require_trace("the banks")

    def count() -> _BankPasses:
        return _BankPasses(sum(int(conflict_degrees(group, trace.static)[1].sum()) for group in trace.groups()))

    found = workload.results.get(trace, _BankCount(), _BankPasses, count)
    blocks = representative_of(workload, machine).recorded_blocks
    return found.total * trace.header.blocks / max(blocks, 1) / float(machine.sms)


def placed_launch(workload: Workload, blocks: int) -> tuple[Workload, Gpu]:
    """A launch with `blocks` residents per SM (0: as many as fit), and the machine with the remaining L1."""
    machine = load_gpu(MACHINE)
    if not blocks:
        return workload, machine
    machine = replace(machine, l1=replace(machine.l1, unified_bytes=None))
    fitting = float(np.max(resident(workload.launch, machine).blocks_per_sm))
    placed = workload.with_overrides({"launch.blocks_per_sm": min(float(blocks), fitting)})
    return placed, with_overrides(machine, {"l1.size_bytes": SWEEP_L1_BYTES})


def predict_launch(workload: Workload, kernel: str, blocks: int) -> Predicted:
    """Every model on one launch, with `blocks` residents per SM (0: as many as fit)."""
    bank_cycles = _bank_cycles(workload, load_gpu(MACHINE))
    placed, machine = placed_launch(workload, blocks)
    cycles, bounds = {}, dict.fromkeys(RANGE, math.nan)
    for name in MODELS:
        try:
            prediction = predict(placed, machine, name)
        except InputError:
            continue
        cycles[name] = float(prediction.cycles)
        bounds = {end: float(prediction.terms.get(end, bounds[end])) for end in RANGE}
    facts = analyse(placed, machine)
    assert facts.traced is not None and facts.total_instructions is not None
    misses = facts.traced.misses
    scale = facts.traced.trace.header.blocks / max(facts.traced.recorded_blocks, 1)
    return Predicted(
        kernel,
        blocks,
        facts.total_instructions,
        float(np.max(resident(placed.launch, machine).warps_per_sm)),
        1.0 - misses.l1_miss_ratio,
        1.0 - misses.llc_miss_ratio,
        float(misses.llc_accesses * misses.transfer_bytes) * scale,
        float(misses.dram_read_bytes) * scale,
        float(misses.dram_write_bytes) * scale,
        bank_cycles,
        cycles,
        bounds["cycles_low"],
        bounds["cycles_high"],
    )


def predict_all(
    kernels: Sequence[str],
    sources: Sequence[str] = SOURCES,
    sizes: Sequence[str] = SIZES,
    progress: Callable[[int, int], None] | None = None,
) -> list[Predicted]:
    """Every measured launch of the kernels from the profiles that ship; `progress(done, all)` counts launches."""
    jobs = [
        (source, size, kernel, blocks)
        for source in sources
        for size in sizes
        for kernel in kernels
        if kernel in shipped_profiles(source, size)[0]
        for blocks in levels_of(kernel, size)
    ]
    found = []
    for done, (source, size, kernel, blocks) in enumerate(jobs):
        try:
            row = predict_launch(shipped_profiles(source, size)[0][kernel], kernel, blocks)
            found.append(replace(row, source=source, size=size))
        except MissingInputError:  # the profile was made without sweeps
            pass
        if progress is not None:
            progress(done + 1, len(jobs))
    return found


# -- kept ----------------------------------------------------------------------------------


def _values(table: Any) -> Any:
    """The values of a machine file, without its texts, power and host: what predicted cycles can depend on."""
    if isinstance(table, dict):
        words = ("source", "sources", "description", "power", "host")
        return {key: _values(value) for key, value in table.items() if key not in words}
    return table


def fingerprint(machine_file: Path = MACHINE_FILE) -> str:
    """SHA-256 of the values of the machine file, without sources and descriptions."""
    values = _values(tomllib.loads(machine_file.read_text(encoding="utf-8")))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def write_predictions(rows: Iterable[Predicted], machine: str) -> Path:
    """Replace the predictions that come with the package; `machine` is the fingerprint they belong to."""
    head = f"# made by: warplens validate h200 --fresh\n# version: {__version__}\n# machine: {machine}\n"
    try:
        PREDICTIONS.write_text(head + csv_text(row.to_dict() for row in rows), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{PREDICTIONS}: cannot be written ({error}); --fresh needs a source checkout") from None
    return PREDICTIONS


def kept_predictions() -> list[Predicted]:
    """The predictions that ship with the package, even if they are stale."""
    found = []
    for row in lines(PREDICTIONS)[1]:
        cycles = {name: float(row[name]) for name in MODELS if row.get(name)}
        words: dict[str, Any] = {name: row[name] for name in ("kernel", "source", "size")}
        numbers: dict[str, Any] = {name: float(row[name]) for name in (*SIMULATED, *RANGE)}
        found.append(Predicted(resident_blocks=int(row["resident_blocks"]), cycles=cycles, **words, **numbers))
    return found


def kept_comparison(source: str = SOURCES[0], size: str = SIZES[0]) -> H200Validation:
    """The kept predictions from one source, at one size, beside what was measured."""
    return compare(row for row in kept_predictions() if (row.source, row.size) == (source, size))[source, size]


def stale() -> str:
    """Why the kept predictions do not belong to this machine file and these models; empty if they do."""
    if not PREDICTIONS.exists():
        return f"{PREDICTIONS.name} is missing"
    comments, rows = lines(PREDICTIONS)
    if comments.get("version") != __version__:
        return f"{PREDICTIONS.name} is of version {comments.get('version')}"
    if comments.get("machine") != fingerprint():
        return f"{PREDICTIONS.name} is of another {MACHINE_FILE.name}"
    missing = [name for name in MODELS if not rows or name not in rows[0]]
    return f"{PREDICTIONS.name} lacks {', '.join(missing)}" if missing else ""
