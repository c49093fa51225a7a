"""The suite's results and counts on an H200, for `studies/src/warplens_studies/validate/data/h200`.

Here, the PTX that the CPU executes:

    python benchmarks/h200/compare_suite.py export build/suite-ptx
    python benchmarks/h200/compare_suite.py export build/suite-ptx-plain --option=-fmad=false

On the GPU, with CuPy: results, then the counters of every size (METRICS: the keys of COUNTERS, with commas between):

    python benchmarks/h200/compare_suite.py gpu build/suite-ptx OUT
    python benchmarks/h200/compare_suite.py gpu build/suite-ptx-plain OUT/plain --sizes small
    ncu --clock-control none --csv --metrics METRICS \\
        python benchmarks/h200/compare_suite.py gpu build/suite-ptx OUT --sizes SIZE --count > OUT/ncu-SIZE.csv

Here again, for each size:

    python benchmarks/h200/compare_suite.py collect OUT OUT/plain --size SIZE

The GPU runs the same PTX as the CPU; the driver compiles it to machine code. Only the number after `.version` is
lowered if the driver is older than NVRTC. Both sides generate the inputs from the same seeds and compare hashes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[2] / "studies/src"))
from warplens.suite.catalog import SUITE

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "studies/src/warplens_studies/validate/data/h200"

#: Counters of Nsight Compute, and the columns that they become.
COUNTERS = {
    "smsp__inst_executed.sum": "warp_instructions",
    "smsp__thread_inst_executed.sum": "thread_instructions",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "load_requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "load_sectors",
}
#: Number of evenly spaced elements of an array to copy back, except at the small size.
SAMPLE = 16_384
#: Version of PTX that the driver of a CUDA version reads.
PTX_VERSIONS = {13000: "9.0", 13010: "9.1", 13020: "9.2", 13030: "9.3", 13040: "9.4"}


def digest(arrays) -> str:
    found = hashlib.sha256()
    for each in arrays:
        found.update(np.ascontiguousarray(each).tobytes())
    return found.hexdigest()


def array_arguments(arguments):
    return {index: each for index, each in enumerate(arguments) if isinstance(each, np.ndarray)}


def sampled(array, size):
    """The part of an array to copy back: everything at the small size, else evenly spaced elements."""
    flat = array.reshape(-1)
    return flat if size == "small" else flat[:: -(-flat.size // SAMPLE)]


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# -- here: what the GPU is to run ------------------------------------------------------------


def with_options(kernel, options):
    return replace(kernel, options=(*kernel.options, *options))


def export(folder: Path, options) -> None:
    from warplens.suite.execution import compiled_kernel

    folder.mkdir(parents=True, exist_ok=True)
    index = {}
    for kernel in SUITE.values():
        compiled = compiled_kernel(with_options(kernel, options))
        (folder / f"{kernel.name}.ptx").write_text(compiled.compiled.ptx, encoding="utf-8")
        index[kernel.name] = {"entry": compiled.entry, "compiler": compiled.compiled.compiler}
    (folder / "index.json").write_text(json.dumps(index, indent=1))


# -- on the GPU ------------------------------------------------------------------------------


def gpu(folder: Path, out: Path, sizes, count: bool) -> None:
    """Run every kernel once; copy its results back, or under a profiler (`count`) only note the order."""
    import cupy

    driver = cupy.cuda.runtime.driverGetVersion()
    version = PTX_VERSIONS[max(each for each in PTX_VERSIONS if each <= driver)]
    index = json.loads((folder / "index.json").read_text())
    arrays, runs = {}, []
    for size in sizes:
        for kernel in SUITE.values():
            text = (folder / f"{kernel.name}.ptx").read_text(encoding="utf-8")
            given = re.search(r"^\.version (\S+)$", text, re.M)[1]
            if tuple(map(int, given.split("."))) > tuple(map(int, version.split("."))):
                text = text.replace(f".version {given}", f".version {version}", 1)
            file = Path("/tmp") / f"{kernel.name}.ptx"
            file.write_text(text, encoding="utf-8")
            module = cupy.RawModule(path=str(file))
            function = module.get_function(index[kernel.name]["entry"])
            launch = kernel.prepare(size)
            for name, values in launch.constants.items():
                cupy.ndarray(values.shape, values.dtype, module.get_global(name)).set(np.ascontiguousarray(values))
            held = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in launch.arguments]
            function(launch.grid, launch.block, tuple(held), shared_mem=launch.dynamic_shared_memory_bytes)
            cupy.cuda.runtime.deviceSynchronize()
            run = {"kernel": kernel.name, "size": size, "entry": index[kernel.name]["entry"]}
            if not count:
                before = array_arguments(launch.arguments)
                after = {i: each.get() for i, each in enumerate(held) if isinstance(each, cupy.ndarray)}
                run |= {
                    "inputs_sha256": digest([*before.values(), *launch.constants.values()]),
                    "outputs_sha256": {i: digest([each]) for i, each in after.items()},
                    "registers": function.num_regs,
                }
                for i, each in after.items():
                    if each.tobytes() != before[i].tobytes():
                        arrays[f"{kernel.name}.{size}.{i}"] = sampled(each, size)
            runs.append(run)
            del held
            cupy.get_default_memory_pool().free_all_blocks()
            print(kernel.name, size, file=sys.stderr, flush=True)
    query = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    name, driver_name = query.strip().split(", ")
    machine = {
        "gpu": name,
        "driver": driver_name,
        "cuda": f"{driver // 1000}.{driver % 1000 // 10}",
        "ptx_version": version,
        "compiler": sorted({each["compiler"] for each in index.values()}),
        "profiler": re.search(r"Version (\d+\.\d+\.\d+)", output_of("ncu", "--version"))[1],
        "date": datetime.now(UTC).date().isoformat(),
        "numpy": np.__version__,
        "cupy": cupy.__version__,
    }
    out.mkdir(parents=True, exist_ok=True)
    kind = "counted" if count else "results"
    (out / f"{kind}.json").write_text(json.dumps({"machine": machine, "runs": runs}, indent=1))
    if not count:
        np.savez_compressed(out / "results.npz", **arrays)


# -- here again: what is kept ------------------------------------------------------------------


def collect(out: Path, uncontracted: Path, size: str, target: Path) -> None:
    """suite_SIZE.csv, and at the small size suite_small.npz with the H200's arrays that differ from ours."""
    from warplens.suite.execution import run_on_cpu
    from warplens_studies.validate.suite import fingerprint

    document = json.loads((out / "results.json").read_text())
    runs = {run["kernel"]: run for run in document["runs"] if run["size"] == size}
    plain = {}
    if size == "small":
        found = json.loads((uncontracted / "results.json").read_text())["runs"]
        plain = {run["kernel"]: of_digests(run["outputs_sha256"].values()) for run in found}
    arrays = np.load(out / "results.npz")
    counts = counted(out / f"ncu-{size}.csv")
    rows, kept = [], {}
    for (name, run), count in zip(runs.items(), counts, strict=True):
        if count.pop("entry") != run["entry"]:
            raise SystemExit(f"{name}: the profiler saw another kernel in its place")
        ours = run_on_cpu(SUITE[name], size)
        if (
            digest(inputs := [*array_arguments(ours.launch.arguments).values(), *ours.launch.constants.values()])
            != (run["inputs_sha256"])
        ):
            raise SystemExit(f"{name}: the GPU was given other inputs")
        for index, array in array_arguments(ours.arguments).items():
            if size == "small" and digest([array]) != run["outputs_sha256"][str(index)]:
                kept[f"{name}.{index}"] = arrays[f"{name}.{size}.{index}"]
        rows.append(
            {
                "kernel": name,
                "inputs_sha256": fingerprint(inputs),
                "outputs_sha256": of_digests(run["outputs_sha256"].values()),
                "uncontracted_sha256": plain.get(name, ""),
                "registers_per_thread": run["registers"],
                **{column: count[metric] for metric, column in COUNTERS.items()},
            }
        )
    machine = document["machine"]
    with (target / f"suite_{size}.csv").open("w", encoding="utf-8", newline="") as file:
        for key, value in {
            "GPU": machine["gpu"],
            "driver": f"{machine['driver']}, CUDA {machine['cuda']}; its compiler made machine code of the PTX",
            "PTX": f"{', '.join(machine['compiler'])}, sm_90, read as version {machine['ptx_version']}",
            "profiler": f"Nsight Compute {machine['profiler']}, --clock-control none",
            "date": machine["date"],
            "commands": "in benchmarks/h200/compare_suite.py",
        }.items():
            file.write(f"# {key}: {value}\n")
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if kept:
        np.savez_compressed(target / f"suite_{size}.npz", **kept)


def of_digests(digests) -> str:
    """As `warplens_studies.validate.suite.fingerprint`, from the digests of the arrays."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def counted(path: Path) -> list[dict]:
    """Counters of each launch, in order, from the profiler's CSV (with its messages among the lines)."""
    launches: dict[int, dict] = {}
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    for row in csv.DictReader(lines):
        launch = launches.setdefault(int(row["ID"]), {"entry": row["Kernel Name"]})
        launch[row["Metric Name"]] = int(row["Metric Value"].replace(",", ""))
    return [launches[index] for index in sorted(launches)]


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    exporting = commands.add_parser("export")
    exporting.add_argument("folder", type=Path)
    exporting.add_argument("--option", action="append", default=[], help="for NVRTC, besides the kernel's own")
    on_gpu = commands.add_parser("gpu")
    on_gpu.add_argument("folder", type=Path)
    on_gpu.add_argument("out", type=Path)
    on_gpu.add_argument("--sizes", nargs="+", default=["small", "medium"])
    on_gpu.add_argument("--count", action="store_true", help="under a profiler")
    collecting = commands.add_parser("collect")
    collecting.add_argument("out", type=Path)
    collecting.add_argument("uncontracted", type=Path, help="results of the PTX made with -fmad=false")
    collecting.add_argument("--size", default="small")
    collecting.add_argument("--target", type=Path, default=TARGET)
    options = parser.parse_args()
    if options.command == "export":
        export(options.folder, options.option)
    elif options.command == "gpu":
        gpu(options.folder, options.out, options.sizes, options.count)
    else:
        options.target.mkdir(parents=True, exist_ok=True)
        collect(options.out, options.uncontracted, options.size, options.target)


if __name__ == "__main__":
    main()
