"""A small tuning space: a sum of squares with a macro, a template argument and a block size."""

from __future__ import annotations

import json
from pathlib import Path

SOURCE = """
#ifndef unroll
#define unroll 1
#endif
template <int Step> __global__ void squares(float* out, const float* in, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * unroll;
    float sum = 0.0f;
    for (int k = 0; k < unroll; ++k)
        if (i + k < n) sum += in[(i + k) * Step % n] * in[(i + k) * Step % n];
    if (i < n) out[i] = sum;
}
"""

SPACE = """
name = "squares"

[cuda]
source = "squares.cu"
kernel = "squares<{step}>"
grid = ["ceil(4096 / (threads * unroll))"]
block = ["threads"]
arguments = [
    {dtype = "float32", shape = [4096]},
    {dtype = "float32", shape = ["1024 * 4"], fill = "random"},
    {dtype = "int32", value = "4096"},
]

[tune]
restrictions = ["threads * unroll <= 512"]

[tune.parameters]
threads = [64, 128, 2048]
unroll = "[2 ** i for i in range(3)]"
step = [1, 32]
unused = [0, 1]
"""


def write_space(folder: Path) -> Path:
    (folder / "squares.cu").write_text(SOURCE)
    path = folder / "squares.toml"
    path.write_text(SPACE.replace("threads * unroll <= 512", "threads * unroll <= 512 or threads > 1024"))
    return path


def write_t1(folder: Path) -> Path:
    """The same kernel, as Kernel Tuner describes it."""
    (folder / "kernels").mkdir(exist_ok=True)
    (folder / "kernels" / "squares.cu").write_text(SOURCE.replace("template <int Step> ", "").replace("Step", "1"))

    def vector(name: str, fill: str) -> dict[str, object]:
        return {
            "Name": name,
            "Type": "float",
            "MemoryType": "Vector",
            "Size": "ProblemSize[0] * max(unroll) // 4",
            "FillType": fill,
            "FillValue": 0.0,
        }

    parameters = [
        {"Name": "block_size_x", "Type": "int", "Values": "[64, 128]"},
        {"Name": "unroll", "Type": "int", "Values": "[1, 2, 4]"},
    ]
    document = {
        "ConfigurationSpace": {
            "TuningParameters": parameters,
            "Conditions": [{"Expression": "block_size_x * unroll < 512", "Parameters": ["block_size_x", "unroll"]}],
        },
        "KernelSpecification": {
            "Language": "CUDA",
            "CompilerOptions": ["-O3", "-std=c++17"],
            "KernelName": "squares",
            "KernelFile": "squares.cu",
            "ProblemSize": [4096],
            "GridDivX": ["block_size_x", "unroll"],
            "LocalSize": {"X": "block_size_x", "Y": "1"},
            "GlobalSize": {"X": "1"},
            "Arguments": [
                vector("out", "Constant"),
                vector("in", "Random"),
                {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 4096},
            ],
        },
    }
    path = folder / "squares.json"
    path.write_text(json.dumps(document))
    return path
