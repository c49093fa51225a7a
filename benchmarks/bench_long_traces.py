"""CPU time and memory of predict and report on long traces of a kernel that gathers, and of many launches."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from run import Row

from warplens.result_cache import cache_folder
from warplens.traces import TraceWriter, read_trace
from warplens.traces.grouping import joined

SOURCE = """
extern "C" __global__ void gather(float* y, const float* x, const int* at, int n, int steps) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int s = 0; s < steps; ++s) {
        tile[threadIdx.x] = x[at[(i + s * 37) % n]];
        __syncthreads();
        sum += tile[255 - threadIdx.x] * x[(i + s) % n];
        __syncthreads();
    }
    y[i] = sum;
}
"""
WORKLOAD = """
name = "gather"
[cuda]
source = "gather.cu"
kernel = "gather"
grid = [{blocks}]
block = [256]
arguments = [
  {{dtype = "float32", shape = [{threads}]}},
  {{dtype = "float32", shape = [1048576], fill = "random"}},
  {{dtype = "int32", shape = [1048576], fill = "random", low = 0, high = 1048576}},
  {{dtype = "int32", value = 1048576}},
  {{dtype = "int32", value = 100}},
]
"""
#: Thread blocks for so many million warp instructions.
SIZES = {31: 1820, 100: 5870}
LAUNCHES = 10_000


class Runs:
    """Commands in a folder, which find compiled code but no kept results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        compiled = os.environ.get("NUMBA_CACHE_DIR", str(cache_folder() / "compiled"))
        self.environment = {**os.environ, "WARPLENS_CACHE_DIR": str(folder / "cache"), "NUMBA_CACHE_DIR": compiled}

    def used(self, *arguments: str) -> tuple[float, float]:
        """(CPU seconds, most MiB) of a command."""
        process = subprocess.Popen(
            [sys.executable, "-m", "warplens", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(arguments)} ends with status {status}")
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

    def on_blocks(self, blocks: int, *command: str) -> tuple[float, float]:
        """The same of a command on the trace of so many thread blocks."""
        (self.folder / "gather.toml").write_text(WORKLOAD.format(blocks=blocks, threads=256 * blocks))
        self.used("trace", "gather.toml", "--force", "-o", "gather.wlt")
        return self.used(command[0], "gather.wlt", "--gpu", "h200", *command[1:])


def repeat(path: Path, target: Path) -> None:
    """A trace as many launches, ten of them different."""
    trace = read_trace(path)[0]
    group = joined(list(trace.groups()))
    with TraceWriter(target) as out:
        for index in range(LAUNCHES):
            out.write(group)
            out.end_launch(replace(trace.header, launch_index=index, kernel=f"gather{index % 10}"), trace.static)


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(Path(name))
        (runs.folder / "gather.cu").write_text(SOURCE)
        for command in (["report", "-o", "page.html"], ["predict"]):
            runs.on_blocks(2, *command)  # code is compiled now
        repeat(runs.folder / "gather.wlt", runs.folder / "many.wlt")
        for millions, blocks in SIZES.items():
            what = f"{millions} M warp instructions"
            seconds, mib = runs.on_blocks(blocks, "predict")
            yield Row(f"predict, {what}", seconds, "CPU s")
            yield Row(f"predict, {what}", mib, "MiB", target=1024.0, lower_is_better=True)
            # One block more: it shall not find what predict has kept.
            longer, mib = runs.on_blocks(blocks + 1, "report", "-o", "page.html")
            yield Row(f"report, {what}", longer, "CPU s", "predict", longer / seconds, 2 * seconds, True)
            yield Row(f"report, {what}", mib, "MiB")
        seconds, _ = runs.used("predict", "many.wlt", "--gpu", "h200")
        yield Row(f"predict, {LAUNCHES:,} launches", seconds, "CPU s", target=30.0, lower_is_better=True)
