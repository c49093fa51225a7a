"""Runs the suite on a GPU with CuPy: checks every result against NumPy and times it.

    python benchmarks/h200/run_suite_cupy.py OUT.json [--sizes small medium large] [--kernels NAME ...]

Several processes generate inputs and references; a lock separates launches. Before each timed launch the script
restores the arguments and writes 256 MiB, so that the L2 holds none of the kernel's data.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.suite.catalog import SIZES, SUITE, compare

FLUSH_BYTES = 256 << 20


def _initialise(lock, repetitions):
    global _gpu, _repetitions
    _gpu, _repetitions = lock, repetitions


def _launcher(kernel, launch):
    """A function that restores the arguments, runs the kernel once and gives its time in µs, and the arguments."""
    import cupy

    module = cupy.RawModule(code=kernel.source_text(), options=("-std=c++17", *kernel.options), backend="nvrtc")
    function = module.get_function(kernel.entry)
    for name, values in launch.constants.items():
        cupy.ndarray(values.shape, values.dtype, module.get_global(name))[...] = cupy.asarray(values)
    inputs = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in launch.arguments]
    arguments = [a.copy() if isinstance(a, cupy.ndarray) else a for a in inputs]
    flush = cupy.empty(FLUSH_BYTES, cupy.uint8)
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()

    def once():
        for argument, content in zip(arguments, inputs, strict=True):
            if isinstance(argument, cupy.ndarray):
                argument[...] = content
        flush.fill(1)
        start.record()
        function(launch.grid, launch.block, arguments, shared_mem=launch.dynamic_shared_memory_bytes)
        stop.record()
        stop.synchronize()
        return 1000 * cupy.cuda.get_elapsed_time(start, stop)

    return once, arguments


def _run(job):
    name, size = job
    kernel = SUITE[name]
    began = time.perf_counter()
    launch = kernel.prepare(size)
    prepare_s = time.perf_counter() - began
    row = {"kernel": name, "size": size, "grid": launch.grid, "block": launch.block, "prepare_s": prepare_s}
    try:
        with _gpu:
            once, arguments = _launcher(kernel, launch)
            times = [once() for _ in range(1 + _repetitions)][-_repetitions:]  # the first one loads the module
            after = [a.get() if hasattr(a, "get") else a for a in arguments]
            del once, arguments
            import cupy

            cupy.get_default_memory_pool().free_all_blocks()
        began = time.perf_counter()
        comparisons = compare(kernel, launch, after)
        row |= {
            "median_us": statistics.median(times),
            "minimum_us": min(times),
            "reference_s": time.perf_counter() - began,
            "ok": all(c.ok for c in comparisons),
            "max_ulps": max(c.max_ulps for c in comparisons),
            "max_absolute_error": max(c.max_absolute_error for c in comparisons),
            "mismatches": sum(c.mismatches for c in comparisons),
            "bytes": sum(a.nbytes for a in launch.arguments if isinstance(a, np.ndarray)),
            "messages": [str(c) for c in comparisons if not c.ok],
        }
    except Exception as error:  # one broken kernel must not hide the others
        row |= {"ok": False, "messages": [f"{type(error).__name__}: {error}"]}
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--kernels", nargs="+", default=list(SUITE), choices=list(SUITE))
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument(
        "--repetitions", type=int, default=7, help="timed launches after the first; 0 under a profiler"
    )
    options = parser.parse_args()
    jobs = [(name, size) for size in reversed(options.sizes) for name in options.kernels]
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes, _initialise, (context.Lock(), options.repetitions)) as pool:
        rows = []
        for row in pool.imap_unordered(_run, jobs):
            rows.append(row)
            figures = f"{row['median_us']:10.1f} us {row['max_ulps']:10.3g} ulps" if "median_us" in row else ""
            print(f"{row['kernel']:24s} {row['size']:7s} {'ok ' if row['ok'] else 'BAD'} {figures}", flush=True)
            for message in row["messages"]:
                print("   ", message[:400], flush=True)
    rows.sort(key=lambda row: jobs.index((row["kernel"], row["size"])))
    options.out.write_text(json.dumps(rows, indent=1))
    sys.exit(0 if all(row["ok"] for row in rows) else 1)


if __name__ == "__main__":
    main()
