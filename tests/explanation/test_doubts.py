"""What moves a predicted time: machines nearly alike, and which warps and blocks meet at the L1."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import warplens
from warplens.api import place
from warplens.explanation import explain
from warplens.explanation.doubts import NEIGHBOURS, crowded_time, neighbours_of, timing_of
from warplens.machine import load_gpu, with_overrides
from warplens.models.base import Case
from warplens.models.warplens_model import Warplens
from warplens.workload import analyse, workload_of_trace

BARRIER = "instructions.barrier.latency_cycles"
#: Every thread reads a row of its own, from start to end, three times, one load after the other.
ROWS = """
extern "C" __global__ void rows(const float *in, float *out, int length) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int turn = 0; turn < 3; ++turn)
        #pragma unroll 1
        for (int k = 0; k < length; ++k) sum += in[row * length + k] * turn;
    out[row] = sum;
}
"""
FEW_SMS = {"sms": 4}


def placed(length, gpu):
    """Six blocks of 256 rows on each SM."""
    blocks = 6 * int(gpu.sms)
    values, sums = np.ones(blocks * 256 * length, np.float32), np.zeros(blocks * 256, np.float32)
    run = warplens.cuda(ROWS).kernel("rows").launch(blocks, 256, values, sums, np.int32(length))
    return place(workload_of_trace(run.trace()), gpu)


def facts_of(workload, gpu):
    return analyse(workload, gpu, Warplens().requirements, "a test")


def test_neighbours_differ_in_latencies_and_in_what_is_known_within_bounds():
    gpu = load_gpu("h200")
    found = neighbours_of(gpu)
    assert found.llc.latency_cycles / gpu.llc.latency_cycles == pytest.approx(
        [0.96, 0.97, 0.98, 0.99, 1.01, 1.02, 1.03, 1.04]
    )
    assert found.dram.latency_cycles / gpu.dram.latency_cycles == pytest.approx(
        found.llc.latency_cycles / gpu.llc.latency_cycles
    )
    barriers = found.get(BARRIER)
    assert sorted(barriers) == pytest.approx(np.linspace(6, 14, NEIGHBOURS))
    assert list(barriers) != sorted(barriers)
    assert set(found.overrides) == {"llc.latency", "dram.latency", "instructions.barrier.latency"}


def test_a_number_that_a_user_gives_has_no_bounds():
    found = neighbours_of(load_gpu("h200", {"instructions.barrier.latency": 20}))
    assert found.get(BARRIER) == 20


def test_the_bound_of_barriers_is_the_measured_one():
    with (Path(__file__).parents[2] / "benchmarks" / "h200" / "barriers.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    cycles = {
        (int(row["work"]), int(row["barriers"])): float(row["cycles"])
        for row in rows
        if row["blocks"] == row["warps"] == "1"
    }
    beside_work = [cycles[work, 2] - cycles[work, 1] - 4 * work for work in (8, 32)]
    source = load_gpu("h200").sources[BARRIER]
    assert (source.least, source.most) == (pytest.approx(min(beside_work), abs=0.01), None)


def test_a_machine_in_a_batch_takes_as_long_as_alone():
    gpu = load_gpu("h200", FEW_SMS)
    workload, gpu = placed(4, gpu)
    model = Warplens()
    # A little more latency may take less time: warps meet elsewhere.
    batch = with_overrides(gpu, {"dram.latency": np.array([1.0, 4.0]) * gpu.dram.latency_cycles})
    alone = float(warplens.predict(workload, gpu).cycles)
    same, slower = model.own_cycles(Case(facts_of(workload, gpu), model.name), batch)
    assert same == pytest.approx(alone, rel=0.02)  # that of 132 SMs with fewer of them keeps to their order
    assert slower > same


def test_a_time_is_the_mean_of_those_nearby():
    workload, gpu = placed(4, load_gpu("h200", FEW_SMS))
    answer = explain(workload, gpu, ())
    found = timing_of(workload, gpu, answer)
    assert len(found.nearby) == NEIGHBOURS + 1
    assert np.mean(found.nearby) == pytest.approx(1.0)
    assert found.nearby[-1] * found.seconds == pytest.approx(answer.seconds)
    assert sum(found.causes.values()) == pytest.approx(found.seconds)
    assert found.seconds_high / found.seconds == pytest.approx(answer.seconds_high / answer.seconds)
    assert any(first != second for first, second in pairwise(found.nearby))


@pytest.mark.parametrize(("length", "hangs"), [(38, True), (8, False)])
def test_hits_hang_on_the_order_where_the_lines_of_an_sm_fill_its_l1(length, hangs):
    """1536 rows of 152 bytes are a little more than the L1 has; rows of 32 bytes are a quarter."""
    workload, gpu = placed(length, load_gpu("h200", FEW_SMS))
    found = crowded_time(workload, gpu, facts_of(workload, gpu))
    assert found > 1.2 if hangs else found == 1.0
