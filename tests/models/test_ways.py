"""Special functions beside shared loads: benchmarks/h200/beside_loads.csv."""

import csv
from pathlib import Path

import numpy as np
import pytest

import warplens

SOURCE = """extern "C" __global__ void k(float* out, int turns) {
    __shared__ float table[2048];
    table[threadIdx.x] = table[threadIdx.x + 1024] = threadIdx.x;
    __syncthreads();
    float a = 0, b = 0, c = 0, d = 0, e = threadIdx.x, f = e;
    volatile float* mine = table + threadIdx.x;
    #pragma unroll 8
    for (int i = 0; i < turns; ++i) {
        a += mine[0]; b += mine[32]; c += mine[64]; d += mine[96];
        CONVERSIONS
    }
    out[blockIdx.x * 1024 + threadIdx.x] = a + b + c + d + e + f; }"""
TWO = 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(e)); asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(f));'
MEASURED = Path(__file__).parents[2] / "benchmarks" / "h200" / "beside_loads.csv"


def measured(loads: int, steps: int) -> float:
    rows = csv.DictReader(line for line in MEASURED.read_text().splitlines() if not line.startswith("#"))
    wanted = {"loads_of": "shared", "loads": str(loads), "step": "ex2", "steps": str(steps)}
    return next(float(row["cycles"]) for row in rows if wanted.items() <= row.items())


def cycles(conversions: str, **overrides: float) -> float:
    """Of an SM for a turn of a warp: long launches less short ones."""
    kernel = warplens.cuda(SOURCE.replace("CONVERSIONS", conversions)).kernel("k")
    found = []
    for turns in (64, 256):
        trace = kernel.launch(2 * 132, 1024, np.zeros(2 * 132 * 1024, np.float32), np.int32(turns)).trace()
        found.append(float(warplens.predict(trace, "h200", overrides=overrides).cycles))
    return (found[1] - found[0]) / (256 - 64) / (2 * 32)


def test_special_functions_and_shared_loads_get_in_one_another_s_way():
    """Each keeps its own server busy all the time. Together they take longer, by as much as measured.

    The moves in between (IMAD.MOV) run beside FP32, and make warps wait for that unit, too: 4.8 cycles, 4.5 measured.
    """
    assert cycles("") == pytest.approx(measured(4, 0), rel=0.01)
    assert cycles(TWO, **{"instructions.int32_mad.interval": 0.25}) == pytest.approx(measured(4, 2), rel=0.02)
    assert cycles(TWO) == pytest.approx(measured(4, 2), rel=0.07)
    assert cycles(TWO, **{"l1.special_share": 0.0}) == pytest.approx(cycles(TWO), rel=0.01)  # no load passes here
