"""Clusters: accesses that reach another block, and what they and barriers of a cluster take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warplens
from reference.traces import Step, evenly, memory_trace
from warplens.analysis.block_samples import REMOTE, executed_by
from warplens.analysis.clusters import remote_share
from warplens.frontends.ptx.spaces import SHARED_WINDOW
from warplens.traces import SHARED_BITS, MemoryTrace, StaticInstruction
from warplens.workload import workload_of_trace

ROWS = (
    StaticInstruction(0, "ld.shared::cluster.f32", "load_shared", "shared", 4, (1,), (1,)),
    StaticInstruction(16, "ld.global.f32", "load_global", "global", 4, (2,), ()),
    StaticInstruction(32, "barrier.cluster.wait", "barrier_cluster"),
    StaticInstruction(48, "bar.sync", "barrier"),
    StaticInstruction(64, "ret", "control"),
)
LOAD, OTHER, CLUSTER_BARRIER, BARRIER, RET = range(len(ROWS))
OWN = evenly(SHARED_WINDOW + 256, 4)
NEXT = tuple(each + (2 << SHARED_BITS) for each in OWN)


def clustered(blocks: list[list[list[Step]]], size: int = 4) -> MemoryTrace:
    made = memory_trace(ROWS, blocks)
    extra = {"source": "PTX", "cluster_blocks": size} if size > 1 else {"source": "PTX"}
    return replace(made, header=replace(made.header, extra=extra))


def test_remote_accesses_have_the_number_of_a_block() -> None:
    mixed = (*OWN[:16], *NEXT[16:])
    loads = [Step(LOAD, OWN), Step(LOAD, NEXT), Step(LOAD, mixed), Step(LOAD, evenly(64, 4))]
    trace = clustered([[[*loads, Step(OTHER, evenly(SHARED_WINDOW + (3 << SHARED_BITS), 4)), Step(RET)]]])
    assert remote_share(trace.held[0], trace.static).tolist() == [0.5, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("size", "expected"), [(4, 23.0 + 0.5 * 184.0), (1, 23.0)])
def test_remote_loads_take_longer(size: int, expected: float) -> None:
    trace = clustered([[[Step(LOAD, OWN), Step(LOAD, NEXT), Step(RET)]]], size)
    latencies = {"load_shared": 23.0, REMOTE: 184.0}
    found = executed_by(trace.held[0], trace, lambda name: latencies.get(name, 0.0), reorder=False)
    assert found.timing.latencies[LOAD] == expected


def predicted(steps: list[Step], warps: int) -> float:
    trace = clustered([[[*steps, Step(RET)]] * warps] * 4)
    return float(warplens.predict(workload_of_trace(trace), "h200").cycles)


@pytest.mark.parametrize(("warps", "measured"), [(1, (324.2, 326.1, 335.1)), (8, (368.3, 356.0, 365.0))])
def test_a_barrier_takes_what_was_measured(warps: int, measured: tuple[float, ...]) -> None:
    """benchmarks/h200/clusters.csv, clusters of 2, 4 and 8 blocks; one of a block takes 14.6 and 28.7 cycles."""
    few, many = (predicted([Step(CLUSTER_BARRIER)] * count, warps) for count in (4, 20))
    assert (many - few) / 16 == pytest.approx(np.mean(measured), rel=0.08)
    few, many = (predicted([Step(BARRIER)] * count, warps) for count in (4, 20))
    assert (many - few) / 16 == pytest.approx({1: 14.6, 8: 28.7}[warps], rel=0.15)


def test_a_chain_of_remote_loads_takes_what_was_measured() -> None:
    """235 cycles for the memory of the next block, 50 for its own."""
    own, other = (
        (predicted([Step(LOAD, to)] * 20, 1) - predicted([Step(LOAD, to)] * 4, 1)) / 16 for to in (OWN, NEXT)
    )
    assert other - own == pytest.approx(235.0 - 50.3, rel=0.02)
