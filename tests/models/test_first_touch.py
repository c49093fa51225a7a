"""Loads from DRAM by all SMs, one after the other or all at once: benchmarks/h200/first_touch.csv."""

import csv
import statistics
from pathlib import Path

import numpy as np
import pytest

import warplens

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(256) touch(const unsigned *from, long long apart, unsigned *to) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        unsigned got = *(const volatile unsigned *)((const char *)(from + at) + i * apart);
        sum += got;
        if (CHAIN) at += got;  // zero: the next address waits for it
    }
    if (sum) *to = sum;
}"""
MEASURED = Path(__file__).parents[2] / "benchmarks" / "h200" / "first_touch.csv"
SMS, APART = 132, 1 << 21


def measured(blocks: int, loads: int, chain: int) -> float:
    rows = csv.DictReader(line for line in MEASURED.read_text().splitlines() if not line.startswith("#"))
    wanted = {"blocks": str(blocks), "loads": str(loads), "chain": str(chain)}
    return statistics.median(float(row["elapsed_cycles"]) for row in rows if wanted.items() <= row.items())


def predicted(blocks: int, loads: int, chain: int) -> float:
    options = (f"-DLOADS={loads}", f"-DCHAIN={chain}")
    kernel = warplens.cuda(SOURCE, name="touch.cu", options=options).kernel("touch")
    source = np.zeros((loads * APART + SMS * 8 * 1024) // 4, np.uint32)
    run = kernel.launch(SMS * blocks, 256, source, np.int64(APART), np.zeros(1, np.uint32))
    return float(warplens.predict(run.trace(), "h200").cycles)


@pytest.mark.parametrize("blocks", [1, 8])
@pytest.mark.parametrize(("loads", "chain"), [(1, 1), (2, 1), (8, 1), (16, 1), (16, 0)])
def test_a_block_waits_for_its_slowest_warp(blocks, loads, chain):
    assert predicted(blocks, loads, chain) == pytest.approx(measured(blocks, loads, chain), rel=0.08)
