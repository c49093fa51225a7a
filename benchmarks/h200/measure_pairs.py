"""Measures the pairs of examples/pairs on a GPU: results against NumPy, times, and what Nsight Compute advises.

On the machine with the GPU (CuPy and ncu; clocks are left as they are, caches are flushed before each launch):

    python3 benchmarks/h200/measure_pairs.py measure $OUT/pairs.json

runs three stages, each in separate processes, and writes its results after each: results and event times, times by
ncu, ncu's rules for the faults. A kernel that fails is left out with the reason. `--pairs NAME,NAME` measures some.
The pages of ncu's reports go beside the output. Then, here, to make the committed table (later files replace pairs of
earlier ones):

    python benchmarks/h200/measure_pairs.py collect \\
        studies/src/warplens_studies/validate/data/h200/pairs.json pairs.json more.json
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import io
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from launching import Prepared, SuiteLaunch, uploaded

from warplens.frontends.cuda.arguments import ArrayArgument, ScalarArgument
from warplens.frontends.cuda.dtypes import DTYPES

FOLDER = Path(__file__).parents[2] / "examples" / "pairs"
sys.path.insert(0, str(FOLDER))
from references import expected, largest_error  # noqa: E402

KERNELS = ("fault", "cure")
REPEATS = 5
FLUSH_BYTES = 256 << 20
#: Seconds for each stage; a process that ncu watches leaves nothing when it is killed, so it ends itself.
MOST_SECONDS = {"check": 110.0, "time": 80.0, "rules": 280.0}
METRICS = {
    "duration_ns": "gpu__time_duration.sum",
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "active_cycles": "sm__cycles_active.avg",
    "warp_instructions": "smsp__inst_executed.sum",
    "registers": "launch__registers_per_thread",
}
SECTIONS = (
    *("SpeedOfLight", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "MemoryWorkloadAnalysis_Chart"),
    *("ComputeWorkloadAnalysis", "InstructionStats", "SchedulerStats", "WarpStateStats", "SourceCounters"),
    *("Occupancy", "LaunchStats", "WorkloadDistribution"),
)
#: Metrics of the sections that are kept, for a look at why a kernel takes its time.
SHOWN = (
    *("Compute (SM) Throughput", "Memory Throughput", "L1/TEX Hit Rate", "L2 Hit Rate", "Achieved Occupancy"),
    *("DRAM Throughput", "L1/TEX Cache Throughput", "L2 Cache Throughput", "Theoretical Occupancy"),
)


# -- in the process that launches --------------------------------------------------------------


def _table(pair: str, kernel: str) -> dict[str, Any]:
    """The `[cuda]` table of a workload file. The reader of warplens needs packages that this machine lacks."""
    return tomllib.loads((FOLDER / f"{pair}-{kernel}.toml").read_text("utf-8"))["cuda"]


def _built(row: dict[str, Any]) -> Any:
    """An argument or a constant, as a row describes it."""
    row = dict(row)
    dtype = DTYPES[row.pop("dtype")]
    if "shape" not in row:
        return ScalarArgument(dtype.type(row["value"])).build()
    if "function" in row:
        file, row["function"] = row["function"].split(":")
        row["path"] = FOLDER / file
    return ArrayArgument(dtype, tuple(row.pop("shape")), **row).build()


def _inputs(pair: str, kernel: str) -> SuiteLaunch:
    """A launch as its workload file describes it."""
    table = _table(pair, kernel)
    return SuiteLaunch(
        tuple((*table["grid"], 1, 1)[:3]),
        tuple((*table["block"], 1, 1)[:3]),
        tuple(_built(row) for row in table["arguments"]),
        table.get("dynamic_shared_memory_bytes", 0),
        {name: _built(row) for name, row in table.get("constants", {}).items()},
    )


def _prepared(pair: str, kernel: str, launch: SuiteLaunch) -> Prepared:
    options = _table(pair, kernel).get("options", ())
    source = (FOLDER / f"{pair}.cu").read_text(encoding="utf-8")
    made = uploaded(f"{pair}-{kernel}", launch, source, kernel, ("-lineinfo", *options))
    made.function.max_dynamic_shared_size_bytes = launch.dynamic_shared_memory_bytes
    return made


def _each(jobs: list[list[str]], most_seconds: float, make: Any) -> Iterator[tuple[str, str, Any]]:
    """(pair, kernel, what `make` gives for them), made ahead in threads, until the time is up."""
    began = time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        ahead: dict[int, Any] = {}
        for place, (pair, kernel) in enumerate(jobs):
            if time.monotonic() - began > most_seconds:
                print("time is up: the rest is left out", file=sys.stderr)
                break
            for next_place in range(place, min(place + 8, len(jobs))):
                if next_place not in ahead:
                    ahead[next_place] = pool.submit(make, *jobs[next_place])
            yield pair, kernel, ahead.pop(place).result()
            print(f"{time.monotonic() - began:6.1f} s {pair} {kernel}", file=sys.stderr, flush=True)
        for future in ahead.values():
            future.cancel()


def _events(kernel: Prepared) -> list[float]:
    """Seconds of launches with cold caches, by events."""
    import cupy

    flush = cupy.empty(FLUSH_BYTES, cupy.uint8)
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    launch, found = kernel.launch, []
    for _ in range(REPEATS + 1):
        arguments = [a.copy() if isinstance(a, cupy.ndarray) else a for a in kernel.inputs]
        flush.fill(1)
        start.record()
        kernel.function(launch.grid, launch.block, arguments, shared_mem=launch.dynamic_shared_memory_bytes)
        stop.record()
        stop.synchronize()
        found.append(cupy.cuda.get_elapsed_time(start, stop) / 1000.0)
    return found[1:]


def _checked(kernel: Prepared, wanted: np.ndarray[Any, Any]) -> dict[str, Any]:
    """How far the result is from NumPy's, the time by events, and what the machine code uses."""
    import cupy

    launch = kernel.launch
    arguments = [a.copy() if isinstance(a, cupy.ndarray) else a for a in kernel.inputs]
    kernel.function(launch.grid, launch.block, arguments, shared_mem=launch.dynamic_shared_memory_bytes)
    return {
        "error": largest_error(arguments[-1].get(), wanted),
        "seconds_by_events": statistics.median(_events(kernel)),
        "registers": kernel.function.num_regs,
        "local_bytes_per_thread": kernel.function.local_size_bytes,
        "shared_bytes": kernel.function.shared_size_bytes + launch.dynamic_shared_memory_bytes,
    }


def check(jobs: list[list[str]], output: Path, most_seconds: float) -> None:
    """Add a line to `output` before and after each kernel; what ends the process shows by the first alone."""

    def make(pair: str, kernel: str) -> tuple[SuiteLaunch, Any]:
        launch = _inputs(pair, kernel)
        return launch, expected(pair, kernel, launch.copied_arguments(), dict(launch.constants))

    with output.open("a") as file:
        for pair, kernel, (launch, wanted) in _each(jobs, most_seconds, make):
            print(json.dumps([pair, kernel, {"failed": "the process ended"}]), file=file, flush=True)
            try:
                found = _checked(_prepared(pair, kernel, launch), wanted)
            except Exception as error:
                found = {"failed": f"{type(error).__name__}: {error}"[:500]}
                if "IllegalAddress" in str(error) or "ILLEGAL" in str(error):  # nothing runs in this process after
                    print(json.dumps([pair, kernel, found]), file=file, flush=True)
                    raise
            print(json.dumps([pair, kernel, found]), file=file, flush=True)


def profiled(jobs: list[list[str]], output: Path, most_seconds: float, repeats: int) -> None:
    """Launch for ncu between start and stop of its profiling, and write down what was launched in which order."""
    import cupy
    import cupyx.profiler

    launched = []
    for pair, kernel, launch in _each(jobs, most_seconds, _inputs):
        ready = _prepared(pair, kernel, launch)
        ready()
        for _ in range(repeats):
            arguments = [a.copy() if isinstance(a, cupy.ndarray) else a for a in ready.inputs]
            cupy.cuda.Device().synchronize()
            with cupyx.profiler.profile():
                ready.function(launch.grid, launch.block, arguments, shared_mem=launch.dynamic_shared_memory_bytes)
                cupy.cuda.Device().synchronize()
            launched.append([pair, kernel])
        output.write_text(json.dumps(launched))


# -- in the process that starts the others -----------------------------------------------------


def _child(stage: str, jobs: list[list[str]], output: Path, *before: str) -> int:
    plan = output.with_suffix(".jobs.json")
    plan.write_text(json.dumps(jobs))
    command = [*before, sys.executable, __file__, stage, str(output), "--jobs", str(plan)]
    try:
        return subprocess.run(command, check=False, timeout=MOST_SECONDS[stage] + 60).returncode
    except subprocess.TimeoutExpired:
        return -1


def _check_all(jobs: list[list[str]], folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Results of every kernel; a process that a kernel has ended is started again behind it."""
    output, found = folder / "check.jsonl", {}
    ends = time.monotonic() + MOST_SECONDS["check"]
    for _ in range(6):
        rest = [job for job in jobs if tuple(job) not in found]
        if not rest or time.monotonic() > ends:
            break
        code = _child("check", rest, output)
        for line in output.read_text().splitlines() if output.exists() else ():
            pair, kernel, result = json.loads(line)
            found[pair, kernel] = result
        if code == 0:
            break
    return found


def _ncu(stage: str, jobs: list[list[str]], folder: Path, what: list[str]) -> tuple[list[list[str]], Path]:
    """What was launched, and ncu's report of it."""
    output, report = folder / f"{stage}.json", folder / f"{stage}.ncu-rep"
    options = ["--clock-control", "none", "--profile-from-start", "off", "--force-overwrite", "-o", str(report)]
    _child(stage, jobs, output, "ncu", *options, *what)
    return (json.loads(output.read_text()) if output.exists() else []), report


def _page(report: Path, page: str, copy: Path) -> list[dict[str, str]]:
    """A page of a report, a dictionary per row, with a copy of the text."""
    command = ["ncu", "--import", str(report), "--csv", "--page", page, "--print-units", "base"]
    command += ["--print-details", "all"] if page == "details" else []
    text = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    copy.write_bytes(gzip.compress(text.encode()))
    lines = text.splitlines(keepends=True)
    first = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return list(csv.DictReader(io.StringIO("".join(lines[first:]))))


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _times(launched: list[list[str]], report: Path, copy: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Medians of the repeats of each kernel."""
    rows = _page(report, "raw", copy)[1:]  # the first one holds units
    repeats: dict[tuple[str, str], list[dict[str, str]]] = {}
    for (pair, kernel), row in zip(launched, rows, strict=False):
        if row["Kernel Name"].split("(")[0] != kernel:
            raise SystemExit(f"{row['Kernel Name']} stands where {pair} {kernel} was launched")
        repeats.setdefault((pair, kernel), []).append(row)
    for (pair, kernel), found in repeats.items():
        values = {
            name: [value for row in found if (value := _number(row.get(metric, ""))) is not None]
            for name, metric in METRICS.items()
        }
        measured = {name: statistics.median(each) for name, each in values.items() if each}
        measured["seconds"] = measured.pop("duration_ns") * 1.0e-9
        yield pair, kernel, {**measured, "seconds_of_repeats": [each * 1.0e-9 for each in values["duration_ns"]]}


def _rules(launched: list[list[str]], report: Path, copy: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The rules of ncu that estimate a gain, and some metrics of its sections."""
    of_launch: dict[str, list[dict[str, str]]] = {}
    for row in _page(report, "details", copy):
        of_launch.setdefault(row["ID"], []).append(row)
    for (pair, kernel), rows in zip(launched, of_launch.values(), strict=False):
        found = [
            {
                "section": row["Section Name"],
                "rule": row["Rule Name"],
                "text": re.sub(r"\s+", " ", row.get("Rule Description", "")).strip(),
                "kind": row["Estimated Speedup Type"],
                "percent": _number(row["Estimated Speedup"]),
            }
            for row in rows
            if row.get("Estimated Speedup")
        ]
        values = {row["Metric Name"]: row["Metric Value"] for row in rows if row.get("Metric Name") in SHOWN}
        yield pair, kernel, {"rules": found, "metrics": values}


def _provenance() -> dict[str, Any]:
    def output(*command: str) -> str:
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        except OSError as error:
            return str(error)

    fields = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem"
    import cupy

    return {
        "gpu": output("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"),
        "gpu_fields": fields,
        "profiler": output("ncu", "--version").splitlines()[-1:],
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python3 benchmarks/h200/measure_pairs.py measure",
        "how": f"ncu --clock-control none, caches flushed before each launch; median of {REPEATS} launches",
    }


def measure(output: Path, pairs: list[str]) -> None:
    """All stages; `output` holds what is known after each."""
    index = tomllib.loads((FOLDER / "pairs.toml").read_text("utf-8"))
    jobs = [[pair, kernel] for pair in index if not pairs or pair in pairs for kernel in KERNELS]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    document = {"provenance": _provenance(), "pairs": found}

    def add(pair: str, kernel: str, values: dict[str, Any]) -> None:
        found.setdefault(pair, dict(index[pair])).setdefault(kernel, {}).update(values)
        output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")

    known = subprocess.run(["ncu", "--list-sections"], capture_output=True, text=True, check=False).stdout.split()
    sections = [word for name in SECTIONS if name in known for word in ("--section", name)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for (pair, kernel), values in _check_all(jobs, folder).items():
            if values.get("error", 0.0) > index[pair]["tolerance"]:
                print(f"{pair} {kernel} is {values['error']:.2g} off", file=sys.stderr)
            add(pair, kernel, values)
        runnable = [job for job in jobs if "failed" not in found.get(job[0], {}).get(job[1], {"failed": "not run"})]
        metrics = ",".join(METRICS.values())
        for values in _times(
            *_ncu("time", runnable, folder, ["--metrics", metrics]), output.with_suffix(".times.csv.gz")
        ):
            add(*values)
        launched = _ncu(
            "rules", [job for job in runnable if job[1] == "fault"], folder, [*sections, "--apply-rules", "yes"]
        )
        for values in _rules(*launched, output.with_suffix(".details.csv.gz")):
            add(*values)
    for pair, kernels in found.items():
        times = [1.0e6 * kernels.get(kernel, {}).get("seconds", float("nan")) for kernel in KERNELS]
        print(f"{pair:22} {times[0]:9.2f} µs -> {times[1]:9.2f} µs")


def collect(table: Path, measured: list[Path]) -> None:
    """One table of several measurements, a line per pair, without the words of ncu's rules."""
    index = tomllib.loads((FOLDER / "pairs.toml").read_text("utf-8"))
    documents = [json.loads(path.read_text("utf-8")) for path in measured]
    found = {pair: kernels for document in documents for pair, kernels in document["pairs"].items()}
    lines = []
    for pair, about in index.items():
        kernels = {kernel: dict(found.get(pair, {}).get(kernel, {})) for kernel in KERNELS}
        for values in kernels.values():
            values |= {name: float(f"{value:.5g}") for name, value in values.items() if isinstance(value, float)}
            values.pop("seconds_of_repeats", None)
            if "rules" in values:
                values["rules"] = [
                    {key: rule[key] for key in ("rule", "kind", "percent")} for rule in values["rules"]
                ]
        lines.append(f"{json.dumps(pair)}: {json.dumps({**about, **kernels})}")
    head = json.dumps({"provenance": documents[-1]["provenance"]})[:-1]
    table.write_text(head + ', "pairs": {\n' + ",\n".join(lines) + "\n}}\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("measure", "collect", *MOST_SECONDS))
    parser.add_argument("output", type=Path)
    parser.add_argument("measured", type=Path, nargs="*", help="collect: what was measured")
    parser.add_argument("--pairs", type=lambda text: text.split(","), default=[], help="some of them")
    parser.add_argument("--jobs", type=Path, help="for processes that this one starts")
    options = parser.parse_args()
    if options.what == "measure":
        measure(options.output, options.pairs)
        return
    if options.what == "collect":
        collect(options.output, options.measured)
        return
    jobs = json.loads(options.jobs.read_text())
    if options.what == "check":
        check(jobs, options.output, MOST_SECONDS["check"])
    else:
        profiled(jobs, options.output, MOST_SECONDS[options.what], REPEATS if options.what == "time" else 1)


if __name__ == "__main__":
    main()
