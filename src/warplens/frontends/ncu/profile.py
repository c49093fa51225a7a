"""Reports of Nsight Compute: `.ncu-rep` through NVIDIA's library, or the output of `ncu --csv`."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import FileError, InputError, MissingPackageError, install_command
from .stalls import stall_shares

#: Larger files are rejected: a report of counters has a few megabytes at most.
LARGEST_BYTES = 1 << 30
#: A report of 1 GiB is read within this time.
MOST_REPORT_SECONDS = 300
_EXPORT = "or export the report with ncu --import … --csv --page raw"
_UNITS = {
    **{f"{prefix}{unit}": factor for prefix, factor in (("", 1.0), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
       for unit in ("byte", "byte/second", "byte/s", "inst", "cycle", "hz", "warp", "sector", "request")},
    **{unit: factor for names, factor in (
        (("nsecond", "ns"), 1e-9), (("usecond", "us", "\u00b5s"), 1e-6),
        (("msecond", "ms"), 1e-3), (("second", "s"), 1.0)) for unit in names},
}  # fmt: skip
_TRIPLE = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?")


@dataclass(frozen=True)
class KernelProfile:
    """One profiled launch; metrics by name, in bytes, seconds, per cent or counts."""

    kernel: str
    launch: int
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    metrics: Mapping[str, float]
    origin: str

    def _first(self, *names: str) -> float | None:
        return next((self.metrics[name] for name in names if name in self.metrics), None)

    @property
    def cycles(self) -> float | None:
        """Elapsed cycles of the SMs."""
        return self._first("sm__cycles_elapsed.max", "smsp__cycles_elapsed.max", "gpc__cycles_elapsed.max")

    @property
    def active_cycles(self) -> float | None:
        """Cycles in which an SM had work, on average over SMs."""
        return self._first("sm__cycles_active.avg", "smsp__cycles_active.avg")

    @property
    def seconds(self) -> float | None:
        return self._first("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max")

    @property
    def instructions(self) -> float | None:
        """Warp instructions."""
        return self._first("smsp__inst_executed.sum", "sm__inst_executed.sum")

    @property
    def ipc(self) -> float | None:
        """Warp instructions per elapsed cycle over the whole GPU."""
        if self.instructions is None or not self.cycles:
            return None
        return self.instructions / self.cycles

    @property
    def dram_bytes(self) -> float | None:
        parts = [self._first(f"dram__bytes_{way}.sum") for way in ("read", "write")]
        return self._first("dram__bytes.sum") if None in parts else sum(each for each in parts if each is not None)

    @property
    def global_bytes(self) -> float | None:
        """Bytes that global loads and stores moved between L1 and the cores."""
        sectors = [
            self._first(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{way}.sum", f"l1tex__t_sectors_op_{way}.sum")
            for way in ("ld", "st")
        ]
        return None if None in sectors else 32.0 * sum(each for each in sectors if each is not None)

    @property
    def dram_share(self) -> float | None:
        """R of the Pipeline model: bytes of DRAM over bytes of global accesses (Lemeire §6.3)."""
        if self.dram_bytes is None or not self.global_bytes:
            return None
        return self.dram_bytes / self.global_bytes

    @property
    def l1_hit_ratio(self) -> float | None:
        value = self._first("l1tex__t_sector_hit_rate.pct")
        return None if value is None else value / 100.0

    @property
    def l2_hit_ratio(self) -> float | None:
        value = self._first("lts__t_sector_hit_rate.pct")
        return None if value is None else value / 100.0

    @property
    def stalls(self) -> dict[str, float] | None:
        """Shares of warp stalls, in groups that CPI stacks have too."""
        return stall_shares(self.metrics)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "launch": self.launch,
            "cycles": self.cycles,
            "active_cycles": self.active_cycles,
            "seconds": self.seconds,
            "instructions": self.instructions,
            "ipc": self.ipc,
            "dram_bytes": self.dram_bytes,
            "dram_share": self.dram_share,
            "l1_hit_ratio": self.l1_hit_ratio,
            "l2_hit_ratio": self.l2_hit_ratio,
            "stalls": self.stalls,
        }


def read_profiles(path: str | Path) -> list[KernelProfile]:
    """The launches of a report, in order: `.ncu-rep`, or the CSV of `ncu --csv` (any page, wide or long)."""
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise InputError(f"{path}: is larger than {LARGEST_BYTES >> 30} GiB; profile fewer launches")
        if path.suffix == ".ncu-rep":
            return _of_report(path)
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileError(f"{path}: is neither a .ncu-rep file nor text; export it with ncu --import … --csv") from None
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    return _of_csv(text, str(path))


def profiles_by_kernel(profiles: Iterable[KernelProfile]) -> dict[str, KernelProfile]:
    """The first profiled launch of each kernel, by its name without return type and parameters."""
    found: dict[str, KernelProfile] = {}
    for each in profiles:
        found.setdefault(each.kernel.partition("(")[0].removeprefix("void ").strip(), each)
    return found


# -- CSV ------------------------------------------------------------------------------------------------


def _of_csv(text: str, path: str) -> list[KernelProfile]:
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith(('"ID"', "ID,"))), None)
    if first is None:
        raise InputError(f'{path}: has no line with column names ("ID", …); was it written by ncu --csv?')
    try:
        rows = list(csv.reader((line for line in lines[first:] if not line.startswith("==")), strict=True))
    except csv.Error as error:
        raise InputError(f"{path}: is not valid CSV after line {first + 1}: {error}") from None
    head = rows[0]
    records = [dict(zip(head, row, strict=False)) for row in rows[1:] if len(row) == len(head)]
    found = list(_long(records, path) if "Metric Name" in head else _wide(records, path))
    if not found:
        raise InputError(f"{path}: names no kernel; did ncu profile any launch?")
    return found


def _long(records: list[dict[str, str]], path: str) -> Iterator[KernelProfile]:
    """A row per metric."""
    launches: dict[str, list[dict[str, str]]] = {}
    for record in records:
        launches.setdefault(record.get("ID", ""), []).append(record)
    for number, rows in enumerate(launches.values()):
        metrics = {}
        for row in rows:
            value = _number(row.get("Metric Value", ""), row.get("Metric Unit", ""))
            if value is not None:
                metrics[row["Metric Name"]] = value
        yield _profile(rows[0], number, metrics, path)


def _wide(records: list[dict[str, str]], path: str) -> Iterator[KernelProfile]:
    """A row per launch, after one of units."""
    units: dict[str, str] = {}
    number = 0
    for record in records:
        if not record.get("ID", "").strip():
            units = record
            continue
        metrics = {}
        for name, value in record.items():
            parsed = _number(value, units.get(name, "")) if "__" in name else None
            if parsed is not None:
                metrics[name] = parsed
        yield _profile(record, number, metrics, path)
        number += 1


def _profile(row: Mapping[str, str], number: int, metrics: Mapping[str, float], path: str) -> KernelProfile:
    return KernelProfile(
        row.get("Kernel Name", "").strip() or f"launch {number}",
        number,
        _triple(row.get("Grid Size", "")),
        _triple(row.get("Block Size", "")),
        metrics,
        path,
    )


def _triple(text: str) -> tuple[int, int, int] | None:
    match = _TRIPLE.search(text)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def _number(text: str, unit: str) -> float | None:
    """A value in base units; None if it is not a number."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return value * _factor(unit)


def _factor(unit: str) -> float:
    """Factor to base units, whatever follows the slash: a `Kbyte/block` is 1000 bytes."""
    return _UNITS.get(unit.strip(), _UNITS.get(unit.partition("/")[0].strip(), 1.0))


# -- reports ---------------------------------------------------------------------------------------------


def _of_report(path: Path) -> list[KernelProfile]:
    answer = _read_apart(path)
    if answer.get("missing"):
        raise MissingPackageError(
            f"{path}: reading .ncu-rep needs the package ncu-report: {install_command('profiles')}, {_EXPORT}"
        )
    if "error" in answer:
        raise InputError(f"{path}: Nsight Compute's library cannot read it: {answer['error']}")
    if not answer["launches"]:
        raise InputError(f"{path}: names no kernel; did ncu profile any launch?")
    return [_of_launch(each, number, str(path)) for number, each in enumerate(answer["launches"])]


def _read_apart(path: Path) -> dict[str, Any]:
    """What `report.py` prints in a process that has the same packages: a crash of the library ends only that one."""
    program = [sys.executable, "-P", str(Path(__file__).with_name("report.py")), str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(program, env=environment, capture_output=True, timeout=MOST_REPORT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"it did not end in {MOST_REPORT_SECONDS} s"}
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"error": f"it crashed (status {done.returncode}); {_EXPORT}"}
    return dict(found)


def _of_launch(found: dict[str, Any], number: int, path: str) -> KernelProfile:
    metrics = {name: value * _factor(unit) for name, (value, unit) in found["metrics"].items()}

    def extent(what: str) -> tuple[int, int, int] | None:
        values = [metrics.get(f"launch__{what}_dim_{axis}") for axis in "xyz"]
        return None if None in values else (int(values[0] or 1), int(values[1] or 1), int(values[2] or 1))

    return KernelProfile(found["kernel"], number, extent("grid"), extent("block"), metrics, path)
