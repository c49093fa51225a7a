"""Launches the suite on a GPU for Nsight Compute to measure, and records the order of the launches.

On the machine with the GPU (CuPy and ncu; clocks are left as they are, caches are flushed before each launch):

    export OUT=out; mkdir -p $OUT
    ncu --clock-control none --csv --page raw --print-units base --metrics "$(python3 benchmarks/h200/measure_suite.py metrics)" \
        -k "regex:$(python3 benchmarks/h200/measure_suite.py kernels)" --log-file $OUT/ncu.csv \
        python3 benchmarks/h200/measure_suite.py run $OUT/plan.json --parts large

for each of the parts medium, sweeps and large, and here, to make the committed tables of it:

    python benchmarks/h200/measure_suite.py collect out/plan.json out/ncu.csv FOLDER
"""  # noqa: E501

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from launching import SUITE, Prepared, prepared

METRICS = {
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "active_cycles": "sm__cycles_active.avg",
    "duration_ns": "gpu__time_duration.sum",
    "warp_instructions": "smsp__inst_executed.sum",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "l2_bytes": "lts__t_bytes.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
}
REPEATS = 5
#: A killed process leaves no profile, so it stops itself in time.
MOST_SECONDS = 260
#: Kernels whose occupancy dynamic shared memory limits, as in Lemeire's Table 9.
SWEPT = (
    *("hotspot", "srad_step1", "convolution_2d", "stencil_3d", "linear_filter", "ray_tracing", "vector_add"),
    *("matmul_naive", "black_scholes", "svm_naive", "kmeans_assign", "bfs", "cfd_flux", "spmv_csr"),
    *("strided_square_1", "strided_square_32", "transpose_naive"),
)
RESIDENT_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16)
SHARED_BYTES_PER_SM = 227 * 1024


def _jobs(parts: str) -> Iterator[tuple[str, str, int]]:
    """(kernel, size, resident blocks per SM or 0 for as many as fit), most important first."""
    for part in parts.split(","):
        if part != "sweeps":
            yield from ((name, part, 0) for name in SUITE)
            continue
        for name in SWEPT:
            yield from ((name, "medium", blocks) for blocks in RESIDENT_BLOCKS)


def run(plan: Path, options: argparse.Namespace) -> None:
    """Launch everything of some parts and record the launches; inputs are generated ahead."""
    rows = []
    began = time.monotonic()
    jobs = [job for job in _jobs(options.parts) if job[0] in options.kernels]
    sizes = list(dict.fromkeys((name, size) for name, size, _ in jobs))
    with ThreadPoolExecutor(4) as pool:
        ahead: dict[tuple[str, str], Any] = {}
        current: tuple[Any, Any] = (None, None)
        for name, size, resident in jobs:
            if time.monotonic() - began > options.most_seconds:
                print("time is up: the rest is left out", file=sys.stderr)
                break
            if current[0] != (name, size):
                for wanted in sizes[sizes.index((name, size)) :][:6]:
                    if wanted not in ahead:
                        ahead[wanted] = pool.submit(SUITE[wanted[0]].prepare, wanted[1])
                current = (name, size), prepared(name, ahead[name, size].result())
                ahead[name, size] = None  # frees its memory
            rows += _launched(current[1], size, resident, options.repeats)
            print(f"{time.monotonic() - began:6.1f} s {name} {size} {resident}", file=sys.stderr, flush=True)
        for future in filter(None, ahead.values()):
            future.cancel()
    _write_plan(plan, rows)


def _launched(kernel: Prepared, size: str, resident: int, repeats: int) -> list[dict[str, Any]]:
    """Repeats of one launch; none if `resident` blocks do not fit."""
    shared = kernel.launch.dynamic_shared_memory_bytes
    if resident:
        threads = int(np.prod(kernel.launch.block))
        room = SHARED_BYTES_PER_SM // resident - 1024 - kernel.function.shared_size_bytes
        if threads * resident > 2048 or room < max(shared, 1):
            return []
        shared = room // 128 * 128
        kernel.function.max_dynamic_shared_size_bytes = shared
    rows = []
    for repeat in range(repeats):
        kernel(shared)
        what = {"kernel": kernel.name, "size": size, "resident": resident}
        rows.append({**what, "repeat": repeat, "shared_bytes": shared})
    return rows


def _write_plan(plan: Path, rows: list[dict[str, Any]]) -> None:
    import cupy

    driver = cupy.cuda.runtime.driverGetVersion()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.max.sm,clocks.mem", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    about = {"gpu": properties["name"].decode(), "cuda": driver, "nvidia_smi": smi}
    plan.write_text(json.dumps({**about, "launches": rows}, indent=1))


def collect(plan: Path, report: Path, folder: Path, *, add: bool = False) -> None:
    """Write the launches with their metrics, one row each, in base units; they replace older rows."""
    document = json.loads(plan.read_text())
    lines = [line for line in report.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first one holds units
    if len(rows) != len(document["launches"]):
        raise SystemExit(f"{len(rows)} rows of ncu for {len(document['launches'])} launches")
    path = folder / "suite_measured.csv"
    launches: dict[tuple[str, str, int], list[list[str]]] = {}
    for row in csv.DictReader(line for line in path.open() if not line.startswith("#")) if path.exists() else ():
        key = row["kernel"], row["size"], int(row["resident_blocks"])
        launches.setdefault(key, []).append([row[name] for name in ("dynamic_shared_bytes", *METRICS)])
    new = {(launch["kernel"], launch["size"], launch["resident"]) for launch in document["launches"]}
    if not add:
        launches = {key: found for key, found in launches.items() if key not in new}
    for launch, row in zip(document["launches"], rows, strict=True):
        if row["Kernel Name"].split("(")[0] != SUITE[launch["kernel"]].entry:
            raise SystemExit(f"{row['Kernel Name']} stands where {launch['kernel']} was launched")
        values = [row[metric].replace(",", "") for metric in METRICS.values()]
        key = launch["kernel"], launch["size"], launch["resident"]
        launches.setdefault(key, []).append([str(launch["shared_bytes"]), *values])
    order = {job: place for place, job in enumerate(_jobs("medium,sweeps,large"))}
    with path.open("w", newline="") as file:
        file.write(
            f"# GPU: {document['gpu']}; driver, SM clock now and at most, memory clock: {document['nvidia_smi']}\n"
        )
        file.write("# profiler: Nsight Compute, --clock-control none, caches flushed before each launch\n")
        file.write("# command: in benchmarks/h200/measure_suite.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", "size", "resident_blocks", "repeat", "dynamic_shared_bytes", *METRICS])
        for key in sorted(launches, key=lambda each: order[each]):
            writer.writerows([*key, repeat, *values] for repeat, values in enumerate(launches[key]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("metrics", "kernels", "run", "collect"))
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--most-seconds", type=float, default=MOST_SECONDS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--kernels", type=lambda text: text.split(","), default=list(SUITE), help="some of them")
    parser.add_argument("--add", action="store_true", help="collect: keep older repeats of the same launches")
    parser.add_argument("--parts", default="medium,sweeps,large", help="of these: medium, sweeps, large")
    options = parser.parse_intermixed_args()
    if options.what == "metrics":
        print(",".join(METRICS.values()))
    elif options.what == "kernels":
        print("^(" + "|".join(sorted({kernel.entry for kernel in SUITE.values()})) + ")$")
    elif options.what == "run":
        run(*options.paths, options)
    else:
        collect(*options.paths, add=options.add)


if __name__ == "__main__":
    main()
