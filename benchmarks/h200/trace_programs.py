"""Traces unprepared programs with the user's commands, and compares predictions with Nsight Compute.

On a machine with a GPU, nvcc, ncu, PyTorch, Triton and CuPy:

    python3 benchmarks/h200/trace_programs.py OUT [--only NAME…]

writes OUT/programs.json (the outcome of each) and, per program, its trace and the measurements of ncu.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOME = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
METRICS = "sm__cycles_elapsed.max,gpu__time_duration.sum,smsp__inst_executed.sum"
WARPLENS = [sys.executable, "-c", "from warplens.cli.main import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
SECONDS = 150

#: name -> (program, its arguments, options of `warplens trace`); those whose name ends in `!` must fail, and say why.
PROGRAMS = {
    "features": ("features.cu", (), ()),
    "graphs": ("graphs.cu", (), ()),
    "graphs-some": ("graphs.cu", (), ("--kernel", "gather|blur", "--launch", "1-4", "--max-blocks", "10")),
    "graphs-conditional": ("graphs.cu", ("conditional",), ()),
    "warpgroup": ("warpgroup.cu", (), ()),
    "many-launches": ("many_launches.cu", (), ()),
    "many-launches-some": ("many_launches.cu", (), ("--kernel", "subtract", "--launch", "0,100-103")),
    "torch": ("torch_operations.py", (), ()),
    "torch-product": ("torch_product.py", (), ("--kernel", "gemm|nvjet")),
    "triton": ("triton_operations.py", (), ()),
    "cupy": ("cupy_operations.py", (), ()),
    "memories": ("memories.cu", (), ()),
    "failing": ("failing.cu", (), ()),
    "nested": ("nested.cu", (), ()),
    "separate": ("separate.cu", (), ()),
    "reset": ("lifecycle.cu", ("reset",), ()),
    "leave": ("lifecycle.cu", ("exit",), ()),
    "child": ("lifecycle.cu", ("child",), ()),
    "threads": ("lifecycle.cu", ("threads",), ()),
    "usage!": ("lifecycle.cu", ("nonsense",), ()),
    "children": ("misbehaving.cu", ("children",), ()),
    "fork": ("misbehaving.cu", ("fork",), ()),
    "crash!": ("misbehaving.cu", ("crash",), ()),
    "exit": ("misbehaving.cu", ("exit",), ()),
    "abort!": ("misbehaving.cu", ("abort",), ()),
    "nothing!": ("misbehaving.cu", ("nothing",), ()),
    "endless-records!": ("misbehaving.cu", ("endless-records",), ()),
    "endless-records-some": ("misbehaving.cu", ("endless-records",), ("--max-blocks", "64")),
}

#: Additional compiler options.
FLAGS = {
    "nested.cu": ("-rdc=true", "-lcudadevrt"),
    "separate.cu": ("-rdc=true", str(HOME / "separate_other.cu")),
}


def _command(source: str, folder: Path) -> list[str]:
    path = HOME / source
    if path.suffix == ".py":
        return [sys.executable, str(path)]
    target = folder / path.stem
    if not target.exists():
        flags = ["-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "-lineinfo", "-O3"]
        plain = {key: value for key, value in os.environ.items() if not key.startswith("NVCC_")}
        command = ["nvcc", *flags, str(path), *FLAGS.get(source, ()), "-o", str(target)]
        subprocess.run(command, check=True, env=plain)
    return [str(target)]


def _run(command: list[str]) -> dict[str, object]:
    began = time.monotonic()
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=ENVIRONMENT, timeout=SECONDS, check=False
        )
        code, out, err = ran.returncode, ran.stdout, ran.stderr
    except subprocess.TimeoutExpired:
        code, out, err = -1, "", "ran out of time"
    return {"seconds": round(time.monotonic() - began, 1), "code": code, "out": out, "err": err[-6000:]}


def _parsed(done: dict[str, object]) -> object:
    try:
        return json.loads(str(done.pop("out")))
    except ValueError:
        return None


def traced(name: str, folder: Path) -> dict[str, object]:
    source, arguments, options = PROGRAMS[name]
    program = [*_command(source, folder), *arguments]
    output = folder / f"{name.rstrip('!')}.wlt"
    trace = _run([*WARPLENS, "trace", "--on-gpu", "--json", "-o", str(output), *options, "--", *program])
    result: dict[str, object] = {"trace": trace, "summary": _parsed(trace), "left": output.exists()}
    if output.exists():
        predict = _run([*WARPLENS, "predict", str(output), "--gpu", "h200", "--models", "all", "--json"])
        document = _parsed(predict)
        result["predict"] = predict
        if isinstance(document, dict):
            keys = ("kernel", "launch", "model", "cycles", "ipc", "warnings")
            result["predictions"] = [{key: row[key] for key in keys} for row in document["predictions"]]
            result["skipped"] = document["skipped"]
    print(f"{name}: code {trace['code']}, {trace['seconds']} s", file=sys.stderr, flush=True)
    return result


def measured(name: str, folder: Path) -> list[dict[str, str]]:
    """Every launch of a program under Nsight Compute, one program at a time: nothing else runs on the GPU."""
    source, arguments, _ = PROGRAMS[name]
    flags = ["--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--metrics", METRICS]
    base = ["--print-kernel-base", "mangled", "--target-processes", "all"]
    done = _run(["ncu", *flags, *base, *_command(source, folder), *arguments])
    lines = [line for line in str(done["out"]).splitlines() if line.startswith('"')]
    wanted = ("Kernel Name", "Grid Size", "Block Size", *METRICS.split(","))
    return [{key: row[key] for key in wanted} for row in list(csv.DictReader(lines))[1:]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--measure", action="store_true", help="measure some of them with ncu afterwards")
    parser.add_argument("--jobs", type=int, default=len(PROGRAMS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in PROGRAMS if not options.only or name in options.only]
    for name in names:
        _command(PROGRAMS[name][0], options.folder)
    results: dict[str, dict[str, object]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, result in zip(names, pool.map(lambda each: traced(each, options.folder), names), strict=True):
            results[name] = result
            (options.folder / "programs.json").write_text(json.dumps(results, indent=1))
    for name in names if options.measure else ():
        if name in ("features", "warpgroup", "torch", "triton"):
            results[name]["measured"] = measured(name, options.folder)
            (options.folder / "programs.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
