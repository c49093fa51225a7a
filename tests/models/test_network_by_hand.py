"""Warps written by hand wait for the results that they need, and for no others."""

from __future__ import annotations

import pytest

from making import Interval, with_graph, with_profile
from warplens.api import predict
from warplens.machine import load_gpu, with_overrides

A100 = load_gpu("a100")


@pytest.mark.parametrize("instructions", [1, 3])
def test_a_warp_ends_when_its_last_result_arrives(instructions):
    """A cycle of latency more is a cycle more, from the shortest latency on."""
    workload = with_graph(*["fp32"] * instructions, warps_per_sm=1)
    timing = {"instructions.fp32.interval": 1}
    cycles = {
        latency: predict(workload, with_overrides(A100, timing | {"instructions.fp32.latency": latency})).cycles
        for latency in (1, 2, 6)
    }
    assert cycles[6] - cycles[2] == 4 and cycles[2] - cycles[1] == 1


def test_a_warp_does_not_wait_for_reads_that_stall_nothing():
    """They are back long before it ends; reads that stall it for one cycle delay it by their way too."""

    def cycles(reads, stall):
        intervals = Interval(10, stall, 1, reads, 0, 1.0), Interval(1000, 0, 0, 0, 0, 0.0)
        return predict(with_profile(*intervals, warps_per_sm=1), A100).cycles

    assert cycles(reads=32, stall=0) == cycles(reads=0, stall=0) < cycles(reads=32, stall=1) - 1
