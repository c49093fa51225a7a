"""Sectors that are alone in their lines cost more to write back, and take a line of what may stay dirty."""

from __future__ import annotations

import numpy as np
import pytest

from contract.recorded import ARRAY, LDG, ROWS, STG
from making import gpu
from reference.traces import Step, evenly, memory_trace
from warplens import predict
from warplens.workload import workload_of_trace


def cycles(apart: int, factor: float) -> float:
    """A launch whose lanes store words `apart` bytes apart, to more than the L2 keeps."""
    blocks = [[[Step(STG, evenly(ARRAY + 32 * apart * (8 * b + i), apart)) for i in range(8)]] for b in range(256)]
    small = {"llc__size": 1 << 18, "llc__dirty": 4096, "dram__bandwidth": "20GB/s"}
    machine = gpu("h200", sms=1, dram__lone_write_factor=factor, **small)
    return float(np.asarray(predict(workload_of_trace(memory_trace(ROWS, blocks)), machine, "warplens").cycles))


def test_words_of_many_lines_cost_more():
    assert cycles(256, 8.0) > 2.0 * cycles(256, 1.0)


def test_the_channel_of_one_load_is_not_that_of_all_writes():
    """Two sectors come from DRAM while the cache is simulated, what is written goes there later, from every bank."""

    def launch(loads: int) -> float:
        own = [[Step(STG, evenly(ARRAY + 1024 * (8 * b + i), 4)) for i in range(8)] for b in range(256)]
        blocks = [[[Step(LDG, evenly(64, 4, 1)) for _ in range(loads)] + steps] for steps in own]
        machine = gpu("h200", sms=4, llc__dirty=4096, dram__bandwidth="20GB/s")
        return float(np.asarray(predict(workload_of_trace(memory_trace(ROWS, blocks)), machine, "warplens").cycles))

    assert launch(1) == pytest.approx(launch(0), rel=0.2)


@pytest.mark.parametrize("apart", [4, 32, 64])
def test_lines_that_fill_do_not(apart):
    assert cycles(apart, 8.0) == pytest.approx(cycles(apart, 1.0))
