"""The suite executed on the CPU against an H200 that ran the same PTX: results, instructions, loads (data/h200)."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warplens.analysis import collect_events
from warplens.errors import InputError
from warplens.suite.catalog import SUITE
from warplens.suite.checking import compare_arrays
from warplens.suite.execution import SuiteRun, run_on_cpu
from warplens.suite.kernel import SuiteKernel
from warplens.traces import CLASS_NAMES, LaunchTrace

FOLDER = Path(__file__).parent / "data" / "h200"
#: MDM §I: more divergent loads per thousand instructions make a kernel memory-divergent.
DIVERGENT_DPKI = 10.0
LINE_BYTES, SECTOR_BYTES = 128, 32
#: Coalesced accesses of 16 bytes per thread take four lines; loads of more lines are scattered, not just unaligned.
SCATTERED_LINES = 4
#: Forbids NVRTC and the driver to contract a product and a sum into one operation.
WITHOUT_CONTRACTION = "-fmad=false"
#: PTX instructions whose result the PTX manual specifies only within an error.
_LOOSE = (".approx", "mma.")


@dataclass(frozen=True)
class Hardware:
    """Results and counts of one kernel on an H200."""

    kernel: str
    inputs_sha256: str
    outputs_sha256: str
    uncontracted_sha256: str
    """Hash of the results with `-fmad=false`; empty if that was not run."""
    registers_per_thread: int
    warp_instructions: int
    thread_instructions: int
    load_requests: int
    load_sectors: int


@cache
def hardware(size: str) -> Mapping[str, Hardware]:
    """Results of the H200 at a size, by kernel; lines that begin with # give the provenance."""
    with (FOLDER / f"suite_{size}.csv").open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["kernel"]: _row(row) for row in rows}


def _row(row: Mapping[str, Any]) -> Hardware:
    values: dict[str, Any] = {key: value if key in _TEXTS else int(value) for key, value in row.items()}
    return Hardware(**values)


_TEXTS = ("kernel", "inputs_sha256", "outputs_sha256", "uncontracted_sha256")


@cache
def provenance(size: str) -> Mapping[str, str]:
    """GPU, driver, compiler, date and commands of the measurement."""
    with (FOLDER / f"suite_{size}.csv").open(encoding="utf-8") as file:
        lines = [line[1:].split(":", 1) for line in file if line.startswith("#")]
    return {key.strip(): value.strip() for key, value in lines}


def fingerprint(arrays: Iterable[Any]) -> str:
    """SHA-256 of the SHA-256 of every array's bytes; other arguments are left out."""
    parts = [hashlib.sha256(a.tobytes()).hexdigest() for a in arrays if isinstance(a, np.ndarray)]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


# -- ours ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loads:
    """Loads of a trace as the coalescer sees them."""

    requests: int
    """Warp instructions that load from global memory, asynchronous copies included."""
    sectors: int
    lines: int
    divergent: int
    """Loads that touch more than one line."""
    scattered: int
    """Loads that touch more than four."""


def count_loads(trace: LaunchTrace) -> Loads:
    is_load = np.isin(np.array(CLASS_NAMES)[trace.static.class_id], ("load_global", "async_copy"))

    def touched(piece_bytes: int) -> Any:
        """Pieces of memory that each load touches; loads of no lane touch none."""
        found = [
            np.diff(events.line_start)[is_load[events.event_static]]
            for events in collect_events(trace, piece_bytes, lambda name: 1.0)
        ]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    lines = touched(LINE_BYTES)
    return Loads(
        requests=int(np.count_nonzero(lines)),
        sectors=int(touched(SECTOR_BYTES).sum()),
        lines=int(lines.sum()),
        divergent=int(np.count_nonzero(lines > 1)),
        scattered=int(np.count_nonzero(lines > SCATTERED_LINES)),
    )


@dataclass(frozen=True)
class SuiteRow:
    """One kernel on the CPU and on the H200."""

    kernel: str
    size: str
    matches_reference: bool
    """Whether our result equals NumPy's, within the kernel's tolerance."""
    identical: bool
    """Whether our result equals the H200's, bit for bit."""
    elements: int
    """Number of elements of the arrays that the kernel changed."""
    differing_elements: int | None
    """Elements of the results that differ from the H200's; None if the H200's are not kept."""
    max_ulps: float | None
    """Largest difference, as `ArgumentComparison.max_ulps` counts it."""
    identical_without_contraction: bool | None
    approximate_instructions: tuple[str, ...]
    warp_instructions: int
    thread_instructions: int
    loads: Loads
    hardware: Hardware

    @property
    def instruction_ratio(self) -> float:
        """Our PTX instructions per machine instruction of the H200."""
        return self.warp_instructions / self.hardware.warp_instructions

    @property
    def sector_ratio(self) -> float:
        return self.loads.sectors / self.hardware.load_sectors

    @property
    def dpki(self) -> float:
        return 1000.0 * self.loads.divergent / self.warp_instructions

    @property
    def scattered_dpki(self) -> float:
        """Like DPKI, for loads that touch more than four lines."""
        return 1000.0 * self.loads.scattered / self.warp_instructions

    @property
    def lines_per_load(self) -> float:
        return self.loads.lines / max(self.loads.requests, 1)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "size": self.size,
            "matches_reference": self.matches_reference,
            "identical": self.identical,
            "differing_elements": self.differing_elements,
            "max_ulps": self.max_ulps,
            "identical_without_contraction": self.identical_without_contraction,
            "approximate_instructions": " ".join(self.approximate_instructions),
            "warp_instructions": self.warp_instructions,
            "h200_warp_instructions": self.hardware.warp_instructions,
            "thread_instructions": self.thread_instructions,
            "h200_thread_instructions": self.hardware.thread_instructions,
            "load_requests": self.loads.requests,
            "h200_load_requests": self.hardware.load_requests,
            "load_sectors": self.loads.sectors,
            "h200_load_sectors": self.hardware.load_sectors,
            "dpki": self.dpki,
            "scattered_dpki": self.scattered_dpki,
            "lines_per_load": self.lines_per_load,
        }


def compare_with_h200(kernel: SuiteKernel, size: str) -> SuiteRow:
    """Execute a kernel here and compare it with the H200."""
    measured = hardware(size)[kernel.name]
    run = run_on_cpu(kernel, size, record=True)
    if fingerprint((*run.launch.arguments, *run.launch.constants.values())) != measured.inputs_sha256:
        raise InputError(
            f"{kernel.name}: the inputs differ from those that the H200 was given (NumPy {np.__version__} draws "
            "other random numbers); measure it again with benchmarks/h200/compare_suite.py"
        )
    identical = fingerprint(run.arguments) == measured.outputs_sha256
    differing, ulps = (0, 0.0) if identical else _difference(run)
    uncontracted = None
    if measured.uncontracted_sha256:
        plain = run_on_cpu(replace(kernel, options=(*kernel.options, WITHOUT_CONTRACTION)), size)
        uncontracted = fingerprint(plain.arguments) == measured.uncontracted_sha256
    static = run.execution.static
    loose = sorted({str(name) for name in static.opcode if any(part in str(name) for part in _LOOSE)})
    return SuiteRow(
        kernel=kernel.name,
        size=size,
        matches_reference=run.ok,
        identical=identical,
        elements=sum(
            after.size
            for before, after in zip(run.launch.arguments, run.arguments, strict=True)
            if isinstance(after, np.ndarray) and before.tobytes() != after.tobytes()
        ),
        differing_elements=differing,
        max_ulps=ulps,
        identical_without_contraction=uncontracted,
        approximate_instructions=tuple(loose),
        warp_instructions=run.execution.instructions,
        thread_instructions=run.execution.thread_instructions,
        loads=count_loads(run.trace),
        hardware=measured,
    )


def _difference(run: SuiteRun) -> tuple[int | None, float | None]:
    """Elements that differ from the H200's, and the largest difference, if its arrays are kept."""
    path = FOLDER / f"suite_{run.size}.npz"
    kept: Mapping[str, Any] = np.load(path) if path.exists() else {}
    names = {i: f"{run.kernel.name}.{i}" for i, a in enumerate(run.arguments) if isinstance(a, np.ndarray)}
    theirs = {i: kept[name].reshape(run.arguments[i].shape) for i, name in names.items() if name in kept}
    complete = [theirs.get(i, a) for i, a in enumerate(run.arguments)]
    if fingerprint(complete) != hardware(run.size)[run.kernel.name].outputs_sha256:
        return None, None  # this array did not differ when the H200's were copied
    found = [compare_arrays(i, run.arguments[i], array) for i, array in theirs.items()]
    return sum(each.mismatches for each in found), max(each.max_ulps for each in found)


@dataclass(frozen=True)
class SuiteValidation:
    """All kernels at one size."""

    size: str
    rows: tuple[SuiteRow, ...]


def validate_suite(
    size: str = "small", kernels: Sequence[str] | None = None, progress: Callable[[str], None] | None = None
) -> SuiteValidation:
    """Compare the named kernels, or all, with the H200; calls `progress` after each."""
    rows = []
    for name in SUITE if kernels is None else kernels:
        rows.append(compare_with_h200(SUITE[name], size))
        if progress is not None:
            progress(name)
    return SuiteValidation(size, tuple(rows))
