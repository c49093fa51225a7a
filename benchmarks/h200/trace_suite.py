"""Profiles of the suite's kernels, from SASS traced on a GPU or from PTX executed on the CPU.

On the machine with the GPU (CuPy, ncu, the CUDA toolkit):

    python3 benchmarks/h200/trace_suite.py FOLDER --source sass --sizes medium,large

and anywhere:

    python benchmarks/h200/trace_suite.py FOLDER --source ptx --sizes medium,large

Copy FOLDER/SOURCE_SIZE.xz to validate/data/h200/profiles in studies, and FOLDER/traced_suite.csv, the exactness and
cost of the traces, beside this file. Each trace is turned into a profile and removed. Kernels whose trace would not
fit record only the first waves of thread blocks.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[2] / "studies/src"))
from warplens.suite.catalog import SUITE

#: GPU memory for the records of a launch, more for some kernels, and the waves to record if it is too little.
BUFFER_BYTES = 6 << 30
LARGE_BUFFER_BYTES = {
    **dict.fromkeys(("matmul_tiled", "convolution_resnet", "convolution_alexnet"), 14 << 30),
    "matmul_naive": 24 << 30,
}
FEWER_WAVES = 2
#: Launches too long to record all waves: 187 million instructions.
LONG = {("matmul_naive", "large")}
#: Columns of FOLDER/traced_suite.csv: of the launch, of its exactness, and of the run.
LAUNCH = ("blocks_traced", "records", "raw_bytes")
EXACTNESS = (
    "instructions",
    "exact_share",
    "all_blocks",
    "guessed_branches",
    "jumped_lanes",
    "lost_lanes",
    "forced_waits",
)
RUN = ("bytes", "untraced_seconds", "traced_seconds", "counting_seconds", "decoding_seconds")
#: The longest jobs start first.
LONGEST = ("matmul_naive", "convolution_resnet", "convolution_alexnet", "matmul_tiled", "instruction_mix_16")


def _sass(kernel: str, size: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    from warplens.errors import TraceError
    from warplens.frontends.sass import trace_program
    from warplens.traces import read_trace

    program = [sys.executable, str(Path(__file__).with_name("launching.py")), kernel, size]
    path = folder / f"{kernel}-{size}.wlt"
    for waves in (FEWER_WAVES,) if (kernel, size) in LONG else (None, FEWER_WAVES):
        try:
            summary = trace_program(
                program,
                path,
                kernel_regex=f"^{SUITE[kernel].entry}$",
                waves=waves,
                buffer_bytes=LARGE_BUFFER_BYTES.get(kernel, BUFFER_BYTES) if size == "large" else BUFFER_BYTES,
                baseline=size == "medium",
            )
            break
        except TraceError as error:
            if waves is not None:
                raise
            print(f"{kernel} {size}: {error}", file=sys.stderr, flush=True)
    return read_trace(path)[0], summary.to_dict()


def _ptx(kernel: str, size: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    from warplens.suite.execution import write_trace
    from warplens.traces import TraceWriter, read_trace

    path = folder / f"{kernel}-{size}.wlt"
    with TraceWriter(path) as writer:
        run = write_trace(kernel, size, writer)
    return read_trace(path)[0], {"ok": run.ok, "seconds": run.execution.seconds}


def _job(source: str, kernel: str, size: str, folder: Path, swept: bool) -> dict[str, Any]:
    """Make the profile of one launch, alone in its file."""
    from warplens.workload.profiled import write_profiles
    from warplens_studies.validate.h200_profiles import profile_launch

    began = time.monotonic()
    trace, summary = {"sass": _sass, "ptx": _ptx}[source](kernel, size, folder)
    traced = time.monotonic()
    profile = profile_launch(trace, kernel, size, swept=swept)
    write_profiles(folder / f"{source}-{kernel}-{size}.xz", {kernel: profile}, _about(source, size))
    (folder / f"{kernel}-{size}.wlt").unlink(missing_ok=True)
    times = {"traced": traced - began, "profiled": time.monotonic() - traced}
    return {"source": source, "kernel": kernel, "size": size, "times": times, "summary": summary}


def _tried(job: tuple[str, str, str, Path, bool]) -> dict[str, Any]:
    """The outcome of a job; an error does not stop the others."""
    try:
        return _job(*job)
    except Exception as error:
        return {
            **dict(zip(("source", "kernel", "size"), job, strict=False)),
            "error": f"{type(error).__name__}: {error}",
        }


def _about(source: str, size: str) -> dict[str, str]:
    from warplens._version import __version__
    from warplens_studies.validate.h200_profiles import fingerprint

    about = {"source": source, "size": size, "warplens": __version__, "machine": fingerprint()}
    about["command"] = f"benchmarks/h200/trace_suite.py FOLDER --source {source} --sizes {size}"
    if source == "sass":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        about["GPU"] = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return about


def _merged(source: str, size: str, folder: Path) -> None:
    from warplens.workload.profiled import read_profiles, write_profiles

    found, about = {}, {}
    for kernel in SUITE:
        path = folder / f"{source}-{kernel}-{size}.xz"
        if path.exists():
            profiles, about = read_profiles(path)
            found |= profiles
    write_profiles(folder / f"{source}_{size}.xz", found, about)
    print(f"{source} {size}: {len(found)} kernels", file=sys.stderr, flush=True)


def write_table(rows: list[dict[str, Any]], path: Path, about: dict[str, str]) -> None:
    """Write the outcome of each trace, without the profiles."""
    with path.open("w", encoding="utf-8", newline="") as out:
        out.writelines(f"# {key}: {about[key]}\n" for key in ("GPU", "command", "warplens"))
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("kernel", "size", *LAUNCH, *EXACTNESS, *RUN))
        for row in sorted(rows, key=lambda row: (row["size"] != "medium", list(SUITE).index(row["kernel"]))):
            for launch in row.get("summary", {}).get("launches", ()):
                values = [launch[key] for key in LAUNCH] + [launch["exactness"][key] for key in EXACTNESS]
                values += [row["summary"][key] for key in RUN]
                told = (f"{value:.9g}" if isinstance(value, float) else value for value in values)
                writer.writerow((row["kernel"], row["size"], *told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", choices=("sass", "ptx"), default="sass")
    parser.add_argument("--sizes", default="medium,large")
    parser.add_argument("--kernels", help="some of them, separated by commas")
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1))
    parser.add_argument("--no-sweeps", action="store_true", help="only with as many residents as fit")
    parser.add_argument("--most-seconds", type=float, default=3600.0, help="leave out what is not finished by then")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    kernels = options.kernels.split(",") if options.kernels else list(SUITE)
    jobs = [(options.source, kernel, size) for size in options.sizes.split(",") for kernel in kernels]
    jobs.sort(key=lambda job: not (job[2] == "large" and job[1] in LONGEST and options.jobs > len(LONGEST)))
    jobs = [job for job in jobs if not (options.folder / "{}-{}-{}.xz".format(*job)).exists()]
    log = options.folder / f"{options.source}.json"
    rows = json.loads(log.read_text()) if log.exists() else []
    # One process per job, so that its memory is freed.
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
        results = pool.imap_unordered(_tried, [(*job, options.folder, not options.no_sweeps) for job in jobs])
        try:
            for _ in jobs:
                row = results.next(timeout=max(options.most_seconds - (time.monotonic() - began), 0))
                words = row.get("error") or ", ".join(f"{name} {value:.1f} s" for name, value in row["times"].items())
                where = f"{time.monotonic() - began:6.1f} {row['source']} {row['kernel']} {row['size']}"
                print(f"{where}: {words}", file=sys.stderr, flush=True)
                rows.append(row)
                log.write_text(json.dumps(rows, indent=1))
        except multiprocessing.TimeoutError:
            print("time is up: the rest is left out", file=sys.stderr, flush=True)
        pool.terminate()
    for size in options.sizes.split(","):
        _merged(options.source, size, options.folder)
    if options.source == "sass":
        write_table(rows, options.folder / "traced_suite.csv", _about("sass", "medium,large"))


if __name__ == "__main__":
    main()
