"""CPU time of a configuration of a tuning space by stage, against NVRTC's compilation of it.

The kernel is an unrolled 15 x 15 convolution with 12 results a thread, as `warplens tune` predicts it: half a wave of
an RTX 3090. NVRTC compiles it in any case, so it is what the rest is measured by.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from run import Row

from warplens.machine import load_gpu
from warplens.result_cache import CACHE_VARIABLE
from warplens.tuning import read_space
from warplens.tuning.evaluate import Work
from warplens.workload.source import compile_launch, for_gpu

SOURCE = r"""
__constant__ float weights[225];
extern "C" __global__ void smooth(float* out, const float* in, int width) {
    __shared__ float tile[4 * rows + 14][32 * columns + 14];
    int top = blockIdx.y * 4 * rows, left = blockIdx.x * 32 * columns;
    for (int y = threadIdx.y; y < 4 * rows + 14; y += 4)
        for (int x = threadIdx.x; x < 32 * columns + 14; x += 32)
            tile[y][x] = in[(top + y) * (width + 14) + left + x];
    __syncthreads();
    float sum[rows][columns] = {};
    #pragma unroll
    for (int i = 0; i < 225; ++i)
        #pragma unroll
        for (int k = 0; k < rows * columns; ++k)
            sum[k / columns][k % columns] += weights[i]
                * tile[threadIdx.y + 4 * (k / columns) + i / 15][threadIdx.x + 32 * (k % columns) + i % 15];
    #pragma unroll
    for (int k = 0; k < rows * columns; ++k)
        out[(top + threadIdx.y + 4 * (k / columns)) * width + left + threadIdx.x + 32 * (k % columns)] =
            sum[k / columns][k % columns];
}
"""
SPACE = """
name = "smooth"
[cuda]
source = "smooth.cu"
kernel = "smooth"
grid = ["1536 / (32 * columns)", "1536 / (4 * rows)"]
block = [32, 4]
arguments = [
    {dtype = "float32", shape = [2359296]},
    {dtype = "float32", shape = [2402500], fill = "random"},
    {dtype = "int32", value = 1536},
]
[tune.parameters]
rows = [3, 4]
columns = [3, 4]
"""
#: The first loads and compiles what all share; the others are timed.
FIRST, TIMED = {"rows": 4, "columns": 4}, ({"rows": 4, "columns": 3}, {"rows": 3, "columns": 4})


def stages(folder: Path) -> tuple[float, float, float]:
    """Mean CPU seconds of NVRTC, of the launch with it compiled, and of the model."""
    (folder / "smooth.cu").write_text(SOURCE)
    (folder / "smooth.toml").write_text(SPACE)
    space, gpu = read_space(folder / "smooth.toml"), load_gpu("rtx3090")
    work = Work(space, gpu, "search")
    work.rows(np.array([space.configurations.index(FIRST)]))
    times = []
    for configuration in TIMED:
        clock = [time.process_time()]
        compile_launch(for_gpu(space.launch(configuration), gpu))
        clock.append(time.process_time())
        work.workload(configuration)
        clock.append(time.process_time())
        work.rows(np.array([space.configurations.index(configuration)]))
        clock.append(time.process_time())
        compiled, launched, again = np.diff(clock)
        times.append((compiled, launched, again))
    compiled, launched, again = np.mean(times, axis=0)
    return float(compiled), float(launched), float(again)


def measure() -> list[Row]:
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        before = os.environ.get(CACHE_VARIABLE)
        os.environ[CACHE_VARIABLE] = folder
        try:
            compiled, launched, predicted = stages(Path(folder))
        finally:
            os.environ.pop(CACHE_VARIABLE)
            if before is not None:
                os.environ[CACHE_VARIABLE] = before
    return [
        Row("a configuration: NVRTC", compiled, "s CPU"),
        Row("its launch on the CPU, native code generated", launched, "s CPU", "NVRTC", launched / compiled),
        Row("the launch with its code kept, and the model", predicted, "s CPU", "NVRTC", predicted / compiled),
    ]
