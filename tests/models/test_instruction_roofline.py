"""Instruction roofline, I-1 to I-3: issue, shared memory, and the transactions of each level."""

from __future__ import annotations

import numpy as np
import pytest

from contract.recorded import ARRAY, FFMA, LDG, LDS, ROWS
from making import gpu, run, with_mix
from reference.traces import Step, evenly, memory_trace
from warplens import load_gpu, predict
from warplens.workload import workload_of_trace

MACHINE = load_gpu("mdm2020", {"sms": 2, "l1.sector": 32})


def launch(stride, shared=0):
    """Eight blocks of four warps: each warp loads 4 bytes a lane, `stride` bytes apart, and computes seven times."""
    blocks = [
        [
            [
                Step(LDG, evenly(ARRAY + (4 * block + warp) * 32 * stride, stride)),
                *(Step(LDS, evenly(0, 4)) for _ in range(shared)),
                *(Step(FFMA) for _ in range(7 - shared)),
            ]
            for warp in range(4)
        ]
        for block in range(8)
    ]
    return workload_of_trace(memory_trace(ROWS, blocks))


def roofline(workload, machine=MACHINE):
    return predict(workload, machine, "instruction-roofline")


def test_a_mix_alone_has_the_issue_ceiling_and_one_level_of_memory():
    found = run("instruction-roofline", with_mix({"comp": 4, "mem": 2}, {"warps_per_sm": 1}), gpu("lemeire-example"))
    assert found.terms["CPI_memory"] == pytest.approx(2 * 2 / 6)
    assert found.cpi == pytest.approx(2 * 2 / 6)


@pytest.mark.parametrize(("stride", "lines", "sectors"), [(4, 1, 4), (128, 32, 32)])
def test_intensities_follow_the_stride(stride, lines, sectors):
    """A warp's load is one line of four sectors, or a sector of each of 32 lines: II of 8 and 1/4 instructions."""
    terms = roofline(launch(stride)).terms
    assert terms["transactions_L1"] == pytest.approx(lines / 8)
    assert terms["transactions_L2"] == pytest.approx(sectors / 8)
    assert terms["transactions_DRAM"] == pytest.approx(sectors / 8)


def test_the_lowest_roof_counts():
    found = roofline(launch(128))
    service = MACHINE.clock_hz * 32 / MACHINE.dram.bandwidth_bytes_per_s
    assert found.terms["CPI_DRAM"] == pytest.approx(4 * service * 2)  # both SMs share the bandwidth
    assert found.cpi == pytest.approx(max(value for name, value in found.terms.items() if name.startswith("CPI_")))


def test_shared_memory_has_a_roof_of_its_own():
    assert roofline(launch(4)).terms["CPI_shared"] == 0.0
    interval = MACHINE.timing("load_shared", "the test").interval_cycles
    assert roofline(launch(4, shared=4)).terms["CPI_shared"] == pytest.approx(interval * 4 / 8)


def test_a_batch_says_what_its_machines_say():
    bandwidths = np.array([100e9, 900e9])
    together = roofline(launch(128), load_gpu("mdm2020", {"sms": 2, "dram.bandwidth": bandwidths}))
    alone = [roofline(launch(128), load_gpu("mdm2020", {"sms": 2, "dram.bandwidth": each})) for each in bandwidths]
    assert together.cycles == pytest.approx([each.cycles for each in alone])
