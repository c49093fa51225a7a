"""PTX on the CPU: thread instructions per second of one core with recording, and compile times (CPU seconds).

The peer of execution is the simple interpreter in tests/reference, on a few blocks of the same kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from run import Row

from warplens.frontends.ptx.execute import compile_kernel
from warplens.machine import load_gpu
from warplens.result_cache import CACHE_VARIABLE
from warplens.suite.catalog import SUITE, get_kernel
from warplens.suite.execution import compiled_kernel
from warplens.workload.source import record_launch

#: Kinds of kernels, and the suite's kernel for each.
KERNELS = {"saxpy": "vector_add", "stencil": "stencil_3d", "matrix product": "matmul_tiled"}
TARGET = 300e6
#: Examples with matrix products, as benchmarks/h200/measure_examples.py enlarges them, and their multiply-adds.
PRODUCTS = {
    "mma.sync": ("mma_pipeline-large", 1024**3),
    "wmma": ("wmma-large", 1024**3),
    "wgmma": ("warp_specialised-large", 2048 * 2048 * 1024),
}
PRODUCT_TARGET = 2e9
PEER_BLOCKS = 2


def execution_rate(name: str, times: int = 3) -> float:
    """Thread instructions per CPU second on one core, the best of some launches; the record is discarded."""
    kernel = get_kernel(name)
    launch, compiled = kernel.prepare("medium"), compiled_kernel(kernel)
    best = 0.0
    for _ in range(times):
        arguments = launch.copied_arguments()
        started = time.process_time()
        run = compiled.launch(
            launch.grid, launch.block, *arguments, record=True, workers=1, consume=lambda group: None
        )
        best = max(best, run.execution.thread_instructions / (time.process_time() - started))
    return best


def product_rate(name: str, multiply_adds: int) -> float:
    """Multiply-adds per CPU second, the better of two launches; the record is discarded."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "h200"))
    from measure_examples import launches

    launch = dict(launches())[name]
    seconds = []
    for _ in range(2):
        started = time.process_time()
        record_launch(launch, load_gpu("h200"), consume=lambda group: None)
        seconds.append(time.process_time() - started)
    return multiply_adds / min(seconds)


def peer_rate(name: str) -> float:
    """The interpreter on the first blocks along x of the small launch."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.reference.ptx import Launch

    kernel = get_kernel(name)
    launch, compiled = kernel.prepare("small"), compiled_kernel(kernel)
    started = time.process_time()
    run = Launch(compiled.ptx, compiled.entry, (PEER_BLOCKS, 1, 1), launch.block, launch.copied_arguments()).run()
    instructions = sum(record.mask.bit_count() for records in run.records.values() for record in records)
    return instructions / (time.process_time() - started)


def compile_seconds(name: str, folder: str) -> float:
    """CPU seconds from CUDA C++ to native code in a process of its own, after its imports."""
    command = [sys.executable, __file__, "compile", name]
    environment = {**os.environ, CACHE_VARIABLE: folder}
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def compile_once(name: str) -> float:
    import llvmlite.binding  # noqa: F401

    started = time.process_time()
    kernel = compiled_kernel(get_kernel(name))
    compile_kernel(kernel.ptx, kernel.entry)
    return time.process_time() - started


def measure() -> list[Row]:
    rows = []
    for what, name in KERNELS.items():
        rate = execution_rate(name)
        label = f"PTX executed and recorded, {what}"
        rows.append(Row(label, rate, "thread instr/s", "interpreter", rate / peer_rate(name), TARGET))
    for what, (name, multiply_adds) in PRODUCTS.items():
        rate = product_rate(name, multiply_adds)
        rows.append(Row(f"PTX executed and recorded, {what}", rate, "FMA/s", target=PRODUCT_TARGET))
    largest = max(
        SUITE, key=lambda name: len(compiled_kernel(SUITE[name]).ptx.functions[SUITE[name].entry].body or ())
    )
    with TemporaryDirectory() as folder:
        cold, warm = (compile_seconds(largest, folder) for _ in range(2))
    label = f"CUDA C++ to native code, {largest}"
    rows.append(Row(f"{label}, cold", cold, "s CPU", "from the cache", warm / cold, 2.0, lower_is_better=True))
    rows.append(Row(f"{label}, from the cache", warm, "s CPU", "cold", cold / warm))
    return rows


if __name__ == "__main__" and sys.argv[1:2] == ["compile"]:
    print(compile_once(sys.argv[2]))
