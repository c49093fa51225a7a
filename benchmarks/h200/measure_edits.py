"""Measures small edits of the suite's kernels on a GPU, before and after, with Nsight Compute.

On the machine with the GPU (CuPy and ncu; clocks are left as they are, caches are flushed before each launch):

    python3 benchmarks/h200/measure_edits.py measure $OUT/edits.json

and here, to make the committed table:

    python benchmarks/h200/measure_edits.py collect \\
        studies/src/warplens_studies/validate/data/h200/edits_measured.csv edits.json

A version that fails to compile or to run is left out with the reason.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launching import SUITE, profiled, uploaded

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "src" / "warplens_studies" / "validate"))
from editing import Version, edits, unedited

METRICS = {
    "duration_ns": "gpu__time_duration.sum",
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "warp_instructions": "smsp__inst_executed.sum",
    "registers": "launch__registers_per_thread",
    "local_loads": "smsp__inst_executed_op_local_ld.sum",
    "l1_sectors": "l1tex__t_sectors.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "dram_bytes": "dram__bytes.sum",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
#: The name under which a kernel that was not edited is kept.
BEFORE = "before"
#: Odd, so that a median is one of them.
REPEATS = 9
#: A process that ncu watches leaves nothing when it is killed, so it ends itself.
MOST_SECONDS = 240.0


def _versions() -> Iterator[tuple[str, str, Version]]:
    """(kernel, edit, version): of each kernel the version before its edits, and those after."""
    for kernel in dict.fromkeys(each.kernel for each in edits().values()):
        before = unedited(kernel)
        yield kernel, BEFORE, before
        yield from ((kernel, each.name, each.apply(before)) for each in edits().values() if each.kernel == kernel)


def launch(plan: Path) -> None:
    """Launch everything for ncu, and write down what was launched in which order."""
    import cupy
    import cupyx.profiler

    began, launched, failed = time.monotonic(), [], {}
    for kernel, name, version in _versions():
        if time.monotonic() - began > MOST_SECONDS:
            failed[f"{kernel} {name}"] = "time was up"
            continue
        try:
            ready = uploaded(kernel, version.launch, version.source, SUITE[kernel].entry, version.options)
            ready()
        except Exception as error:
            failed[f"{kernel} {name}"] = f"{type(error).__name__}: {error}"[:500]
            continue
        for _ in range(REPEATS):
            arguments = [a.copy() if isinstance(a, cupy.ndarray) else a for a in ready.inputs]
            cupy.cuda.Device().synchronize()
            with cupyx.profiler.profile():
                ready.function(
                    version.launch.grid,
                    version.launch.block,
                    arguments,
                    shared_mem=version.launch.dynamic_shared_memory_bytes,
                )
                cupy.cuda.Device().synchronize()
            launched.append([kernel, name])
        plan.write_text(json.dumps({"launched": launched, "failed": failed}))
        print(f"{time.monotonic() - began:6.1f} s {kernel} {name}", file=sys.stderr, flush=True)
    plan.write_text(json.dumps({"launched": launched, "failed": failed}))


def measure(output: Path) -> None:
    """Run `launch` under ncu, and keep the metrics of every launch."""
    document = profiled(__file__, output, METRICS)
    fields = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem"
    smi = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    document["gpu"] = subprocess.run(smi, capture_output=True, text=True, check=False).stdout.strip()
    output.write_text(json.dumps(document))


def collect(table: Path, measured: Path) -> None:
    """Medians of the repeats, and the fastest and slowest of them, a row for each version."""
    document = json.loads(measured.read_text())
    launched, rows = document["launched"], document["rows"]
    if len(launched) != len(rows):
        raise SystemExit(f"{len(rows)} rows of ncu for {len(launched)} launches")
    versions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (kernel, name), row in zip(launched, rows, strict=True):
        if row["kernel_name"].split("(")[0] != SUITE[kernel].entry:
            raise SystemExit(f"{row['kernel_name']} stands where {kernel} {name} was launched")
        versions.setdefault((kernel, name), []).append(row)
    with table.open("w", newline="") as file:
        file.write(f"# GPU: {document['gpu']} (name, driver, SM clock now and at most, memory clock)\n")
        file.write(
            f"# profiler: Nsight Compute, --clock-control none, caches flushed; medians of {REPEATS} launches\n"
        )
        file.write("# command: in benchmarks/h200/measure_edits.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", "edit", *METRICS, "least_ns", "most_ns"])
        for (kernel, name), found in versions.items():
            values = {metric: [float(row[metric].replace(",", "") or "nan") for row in found] for metric in METRICS}
            times = values["duration_ns"]
            medians = [f"{statistics.median(each):.6g}" for each in values.values()]
            writer.writerow([kernel, name, *medians, f"{min(times):g}", f"{max(times):g}"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("measure", "launch", "collect"))
    parser.add_argument("output", type=Path)
    parser.add_argument("measured", type=Path, nargs="?", help="collect: what was measured")
    options = parser.parse_args()
    if options.what == "collect":
        collect(options.output, options.measured)
    else:
        {"measure": measure, "launch": launch}[options.what](options.output)


if __name__ == "__main__":
    main()
