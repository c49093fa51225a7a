"""Copies, products, mbarriers and clusters: the compiled simulator agrees exactly with the plain one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.detailed_background import BackgroundSimulation
from reference.traces import Step, evenly
from warplens.analysis.async_groups import GroupKind, GroupRole
from warplens.simulators.detailed import _records as records
from warplens.traces import StaticInstruction

from .machines import counters, final_state, totals_of
from .test_reference import COMPUTE, machines

BULK_COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
ROWS = (
    StaticInstruction(0x00, "bar.sync", "barrier"),
    StaticInstruction(0x10, "barrier.cluster.wait", "barrier_cluster"),
    StaticInstruction(0x20, "mbarrier.arrive.shared::cta.b64", "atomic_shared", "shared", 8),
    StaticInstruction(0x30, "mbarrier.arrive.expect_tx.shared::cta.b64", "atomic_shared", "shared", 8),
    StaticInstruction(0x40, "mbarrier.try_wait.parity.shared::cta.b64", "atomic_shared", "shared", 8, (1,)),
    StaticInstruction(0x50, BULK_COPY, "async_copy", "global", 32),
    StaticInstruction(0x60, "cp.async.cg.shared.global", "async_copy", "global", 16, (), (2,)),
    StaticInstruction(0x70, "cp.async.commit_group", "fp32"),
    StaticInstruction(0x80, "cp.async.wait_group", "fp32", immediate=1),
    StaticInstruction(0x90, "cp.async.wait_group", "fp32"),
    StaticInstruction(0xA0, "cp.async.wait_all", "fp32"),
    StaticInstruction(0xB0, "wgmma.mma_async.m64n8k16.f32", "tensor_n8", "none", 0, (10, 11), (10, 11, 3, 4)),
    StaticInstruction(0xC0, "wgmma.mma_async.m64n64k16.f32", "tensor_n64", "none", 0, (12,), (12, 3, 4, 5, 6, 7)),
    StaticInstruction(0xD0, "wgmma.commit_group.sync.aligned", "int32"),
    StaticInstruction(0xE0, "wgmma.wait_group.sync.aligned", "int32", immediate=1),
    StaticInstruction(0xF0, "wgmma.wait_group.sync.aligned", "int32"),
    StaticInstruction(0x100, "add.f32", "fp32", "none", 0, (2,), (2, 1)),
    StaticInstruction(0x110, "ld.global.f32", "load_global", "global", 4, (3,), (2,)),
    StaticInstruction(0x120, "ld.shared.f32", "load_shared", "shared", 4, (2,)),
    StaticInstruction(0x130, "st.global.f32", "store_global", "global", 4, (), (12,)),
)
(BAR, CLUSTER, ARRIVE, EXPECT, WAIT, BULK, COPY, COMMIT, WAIT_1, WAIT_0, WAIT_ALL, NARROW, WIDE, CLOSE, PRODUCTS_1,
 PRODUCTS_0, ADD, LOAD, SHARED, STORE) = range(len(ROWS))  # fmt: skip
FULL, EMPTY, SHARED_WINDOW, ARRAY = 1 << 10, 1 << 11, 0, 1 << 16


def wait(barrier, parity, lanes=32):
    return Step(WAIT, (barrier + parity,) * lanes)


@st.composite
def steps(draw):
    """Work of one warp; marks are few, for older groups than eight are not told apart."""
    groups = (COPY, COPY, WAIT_1, WAIT_0, WAIT_ALL, NARROW, NARROW, WIDE, PRODUCTS_1, PRODUCTS_0)
    row = draw(st.sampled_from((*groups, ADD, ADD, LOAD, SHARED, SHARED, STORE)))
    if not ROWS[row].access_bytes:
        return Step(row)
    lanes = draw(st.sampled_from([0, 1, 8, 32]))
    if row == SHARED:
        return Step(row, evenly(4096, draw(st.sampled_from([0, 4, 8])), lanes))
    return Step(row, evenly(ARRAY + 128 * draw(st.integers(0, 40)), draw(st.sampled_from([4, 16, 132])), lanes))


@st.composite
def work(draw, most=6):
    return draw(st.lists(steps(), max_size=most))


@st.composite
def rings(draw):
    """A block with a producer and consumers of a ring of buffers, and work in between."""
    stages, turns, consumers = draw(st.integers(1, 3)), draw(st.integers(0, 5)), draw(st.integers(1, 3))
    producer: list[Step] = []
    for turn in range(turns):
        stage, round_ = turn % stages, turn // stages
        producer.append(wait(EMPTY + 8 * stage, 1 - round_ % 2, 1))
        producer.append(Step(EXPECT, (FULL + 8 * stage,)))
        for _ in range(draw(st.integers(0, 3))):
            first = ARRAY + 1024 * draw(st.integers(0, 8))
            producer.append(Step(BULK, evenly(first, 32, draw(st.sampled_from([0, 5, 32])))))
    warps = [producer]
    meets = draw(st.booleans())
    for _ in range(consumers):
        warp: list[Step] = []
        for turn in range(turns):
            stage, round_ = turn % stages, turn // stages
            warp.append(wait(FULL + 8 * stage, round_ % 2))
            warp += draw(work())
            if turn < 3:
                warp.append(Step(draw(st.sampled_from((COMMIT, CLOSE)))))
            if meets:  # a barrier of the consumers alone
                warp.append(Step(BAR))
            warp.append(Step(ARRIVE, (EMPTY + 8 * stage,) * draw(st.sampled_from([1, 32]))))
        warps.append(warp)
    return [[*warp, *draw(work(4))] for warp in warps]


@st.composite
def launches(draw):
    """(Blocks, blocks of a cluster); all blocks have as many warps, and begin and end with the same barriers."""
    blocks = draw(st.lists(rings(), min_size=1, max_size=5))
    warps = max(len(block) for block in blocks)
    cluster = draw(st.sampled_from([1, 1, 2]))
    first = draw(st.sampled_from((BAR, CLUSTER)))
    last = [Step(CLUSTER), Step(ADD)] if draw(st.booleans()) else []
    whole = [
        [[Step(first), *warp, *last] for warp in (*block, *[[Step(ADD)]] * (warps - len(block)))] for block in blocks
    ]
    return whole, cluster


@st.composite
def cases(draw):
    blocks, cluster = draw(launches())
    machine = draw(machines())
    # A cluster has to fit: its blocks wait for one another.
    machine = replace(machine, sms=max(machine.sms, cluster))
    interval = st.sampled_from([0.5, 1.0, 4.5])
    latency = st.sampled_from([2.0, 18.0, 32.25])
    products = {name: ("tensor", draw(interval), draw(latency)) for name in ("tensor_n8", "tensor_n64")}
    return (
        blocks,
        cluster,
        replace(machine, timings={**machine.timings, **products}),
        draw(st.sampled_from([5.0, 40.5])),
    )


def package(blocks, cluster, machine, barrier, **options):
    overrides = {"instructions.barrier_cluster.latency": barrier + 1, "instructions.barrier_cluster.interval": 1}
    return final_state(ROWS, blocks, machine, cluster_blocks=cluster, overrides=overrides, **options)


@given(cases())
@settings(max_examples=settings().max_examples * 3, deadline=None)
def test_agrees_with_stepping_every_cycle(case):
    blocks, cluster, machine, barrier = case
    simulation = BackgroundSimulation(ROWS, blocks, machine, cluster_blocks=cluster, cluster_barrier=barrier)
    expected = simulation.run()
    state = package(*case)
    sums = totals_of(state)
    assert sums == {name: expected[name] for name in sums}
    found = counters(state)
    assert found == pytest.approx({key: simulation.counters[key] for key in found}, rel=1e-12)


@given(cases(), st.integers(1, 3))
def test_groups_of_the_trace_change_nothing(case, blocks_per_group):
    whole, cut = package(*case), package(*case, blocks_per_group=blocks_per_group)
    assert totals_of(cut) == totals_of(whole)


def test_kernels_name_kinds_and_roles_as_the_analysis_does():
    roles = (records.NO_GROUP, records.STARTS, records.JOINS, records.MARKS, records.AWAITS)
    assert roles == tuple(GroupRole)
    assert tuple(GroupKind) == (records.COPIES, records.PRODUCTS)
    assert set(COMPUTE) >= {ROWS[COMMIT].instruction_class, ROWS[CLOSE].instruction_class}
