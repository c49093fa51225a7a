"""Launches the suite on a GPU for Nsight Compute to measure, and writes down what was launched in which order.

On the machine with the GPU (CuPy and ncu; clocks are left as they are, caches are flushed before each launch):

    export OUT=out; mkdir -p $OUT
    ncu --clock-control none --csv --page raw --print-units base --metrics "$(python3 benchmarks/h200/measure_suite.py metrics)" \
        -k "regex:$(python3 benchmarks/h200/measure_suite.py kernels)" --log-file $OUT/ncu.csv \
        python3 benchmarks/h200/measure_suite.py run $OUT/plan.json

and here, to make the committed tables of it:

    python benchmarks/h200/measure_suite.py collect out/plan.json out/ncu.csv src/warplens/validate/data/h200
"""  # noqa: E501

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.suite.catalog import SUITE

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
#: A profiled process that is killed leaves nothing, so it ends itself in time.
MOST_SECONDS = 260
#: Kernels whose residents are limited by dynamic shared memory, as in Lemeire's Table 9.
SWEPT = (
    *("hotspot", "srad_step1", "convolution_2d", "stencil_3d", "linear_filter", "ray_tracing", "vector_add"),
    *("matmul_naive", "black_scholes", "svm_naive", "kmeans_assign", "bfs", "cfd_flux", "spmv_csr"),
    *("strided_square_1", "strided_square_32", "transpose_naive"),
)
RESIDENT_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16)
SHARED_BYTES_PER_SM = 227 * 1024


def _jobs():
    """(kernel, size, resident blocks per SM or 0 for as many as fit), the most wanted first."""
    for name in SUITE:
        yield name, "medium", 0
    for name in SWEPT:
        for blocks in RESIDENT_BLOCKS:
            yield name, "medium", blocks
    for name in SUITE:
        yield name, "large", 0


def run(plan: Path) -> None:
    import cupy

    rows = []
    prepared = {}
    began = time.monotonic()
    for name, size, resident in _jobs():
        if time.monotonic() - began > MOST_SECONDS:
            print("time is up: the rest is left out", file=sys.stderr)
            break
        kernel = SUITE[name]
        if (name, size) not in prepared:
            prepared.clear()
            cupy.get_default_memory_pool().free_all_blocks()
            launch = kernel.prepare(size)
            module = cupy.RawModule(
                code=kernel.source_text(), options=("-std=c++17", *kernel.options), backend="nvrtc"
            )
            for symbol, values in launch.constants.items():
                cupy.ndarray(values.shape, values.dtype, module.get_global(symbol))[...] = cupy.asarray(values)
            inputs = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in launch.arguments]
            prepared[name, size] = launch, module, inputs
        launch, module, inputs = prepared[name, size]
        function = module.get_function(kernel.entry)
        shared = launch.dynamic_shared_memory_bytes
        if resident:
            threads = int(np.prod(launch.block))
            room = SHARED_BYTES_PER_SM // resident - 1024 - function.shared_size_bytes
            if threads * resident > 2048 or room < max(shared, 1):
                continue
            shared = room // 128 * 128
            function.max_dynamic_shared_size_bytes = shared
        for repeat in range(REPEATS if not resident else 2):
            arguments = [a.copy() if isinstance(a, cupy.ndarray) else a for a in inputs]
            function(launch.grid, launch.block, arguments, shared_mem=shared)
            cupy.cuda.Device().synchronize()
            rows.append(
                {"kernel": name, "size": size, "resident": resident, "repeat": repeat, "shared_bytes": shared}
            )
        print(f"{time.monotonic() - began:6.1f} s {name} {size} {resident}", file=sys.stderr, flush=True)
    driver = cupy.cuda.runtime.driverGetVersion()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.max.sm,clocks.mem", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    plan.write_text(
        json.dumps(
            {"gpu": properties["name"].decode(), "cuda": driver, "nvidia_smi": smi, "launches": rows}, indent=1
        )
    )


def collect(plan: Path, report: Path, folder: Path) -> None:
    """The launches with their metrics, one row each; units are base units."""
    document = json.loads(plan.read_text())
    lines = [line for line in report.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first one holds units
    if len(rows) != len(document["launches"]):
        raise SystemExit(f"{len(rows)} rows of ncu for {len(document['launches'])} launches")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "suite_measured.csv").open("w", newline="") as file:
        file.write(
            f"# GPU: {document['gpu']}; driver, SM clock now and at most, memory clock: {document['nvidia_smi']}\n"
        )
        file.write("# profiler: Nsight Compute, --clock-control none, caches flushed before each launch\n")
        file.write("# command: in benchmarks/h200/measure_suite.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", "size", "resident_blocks", "repeat", "dynamic_shared_bytes", *METRICS])
        for launch, row in zip(document["launches"], rows, strict=True):
            if row["Kernel Name"].split("(")[0] != SUITE[launch["kernel"]].entry:
                raise SystemExit(f"{row['Kernel Name']} stands where {launch['kernel']} was launched")
            values = [row[metric].replace(",", "") for metric in METRICS.values()]
            keys = (launch[key] for key in ("kernel", "size", "resident", "repeat", "shared_bytes"))
            writer.writerow([*keys, *values])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("metrics", "kernels", "run", "collect"))
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args()
    if options.what == "metrics":
        print(",".join(METRICS.values()))
    elif options.what == "kernels":
        print("^(" + "|".join(sorted({kernel.entry for kernel in SUITE.values()})) + ")$")
    else:
        {"run": run, "collect": collect}[options.what](*options.paths)


if __name__ == "__main__":
    main()
