"""Producers and consumers: who waits for what, for how long, and what overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from reference.detailed_background import BackgroundSimulation
from reference.traces import Step, evenly, memory_trace
from warplens.analysis.async_groups import GroupKind, GroupRole, group_roles
from warplens.errors import SimulationError
from warplens.simulators.detailed import simulate_detailed
from warplens.traces import StaticInstruction, static_table
from warplens.workload import workload_of_trace

from .machines import final_state, gpu_of, totals
from .test_background_reference import (
    ADD,
    ARRAY,
    ARRIVE,
    BAR,
    BULK,
    CLOSE,
    CLUSTER,
    COMMIT,
    COPY,
    EMPTY,
    EXPECT,
    FULL,
    LOAD,
    NARROW,
    PRODUCTS_0,
    PRODUCTS_1,
    ROWS,
    SHARED,
    WAIT_0,
    WAIT_1,
    WAIT_ALL,
    WIDE,
    wait,
)
from .test_properties import WIDE as ROOMY

MACHINE = replace(
    ROOMY,
    sms=1,
    schedulers=4,
    timings={
        "int32": ("alu", 1.0, 4.0),
        "fp32": ("fma", 1.0, 4.0),
        "tensor_n8": ("tensor", 4.5, 18.0),
        "tensor_n64": ("tensor", 8.0, 32.0),
    },
)
#: Cycles from the issue of a load of DRAM to its data.
DRAM = MACHINE.llc_latency + MACHINE.dram_latency


def bulk(number: int) -> Step:
    return Step(BULK, evenly(ARRAY + 1024 * number, 32))


def ring(turns: int, stages: int, *, work: Sequence[Step] = (), consumers: int = 1) -> list[list[Step]]:
    """A block whose first warp fills a ring of buffers for the others."""
    producer, consumer = [], []
    for turn in range(turns):
        stage, again = turn % stages, turn // stages
        producer += [wait(EMPTY + 8 * stage, 1 - again % 2, 1), Step(EXPECT, (FULL + 8 * stage,)), bulk(turn)]
        consumer += [wait(FULL + 8 * stage, again % 2), *work, Step(ARRIVE, (EMPTY + 8 * stage,))]
    return [producer, *[consumer] * consumers]


def cycles(*warps: Sequence[Step], machine=MACHINE) -> float:
    return totals(ROWS, [list(warps)], machine)["CYCLES"]


def test_a_consumer_does_not_run_before_the_copy_is_there():
    copies = [Step(EXPECT, (FULL,)), bulk(0)]
    alone = cycles([*copies, wait(FULL, 0), *[Step(ADD)] * 10])
    assert alone > DRAM + 10
    assert cycles(copies, [wait(FULL, 0), *[Step(ADD)] * 10]) == pytest.approx(alone, abs=4)
    assert cycles(copies, [*[Step(ADD)] * 10]) < DRAM + 30 < alone


def test_the_last_copy_of_a_phase_counts_whichever_it_is():
    """The first copy comes from DRAM, the second from the L2: the wait is for both."""
    load = Step(LOAD, evenly(ARRAY + 1024, 4))
    warm = [load, Step(ADD), Step(NARROW), *[Step(SHARED, (0,))] * 600]
    slow_first = [Step(EXPECT, (FULL,)), bulk(0), bulk(1)]
    after = cycles([*warm, *slow_first, wait(FULL, 0), *[Step(ADD)] * 200])
    without = cycles([*warm, *slow_first, *[Step(ADD)] * 200])
    assert after - without > MACHINE.dram_latency / 2


def test_copies_hold_neither_their_warp_nor_the_load_store_unit():
    copies = [Step(EXPECT, (FULL,)), *[bulk(number) for number in range(40)]]
    state = final_state(ROWS, [[[*copies, Step(SHARED, (0,)), Step(ADD)]]], replace(MACHINE, lsu_queue=1, mshrs=4))
    assert state.slots[5] == 0  # no slot is lost to a full queue
    assert float(state.totals["issued"][0]) == len(copies) + 2


def test_waits_at_mbarriers_are_sync():
    workload = workload_of_trace(memory_trace(ROWS, [ring(8, 2)]))
    gpu = gpu_of(MACHINE)
    found = simulate_detailed(workload, gpu)
    assert found.stack["SYNC"] > 0.15 * found.cpi
    assert sum(found.stack.values()) == pytest.approx(found.cpi)
    waiting = found.stalled_slots["barrier"]
    assert waiting.sum() == pytest.approx(found.stack["SYNC"] / found.cpi)


def test_producer_and_consumer_overlap():
    work = [Step(ADD)] * 60
    apart = cycles(*ring(12, 1, work=work))
    together = cycles(*ring(12, 4, work=work))
    assert together < 0.7 * apart


def test_more_stages_never_make_it_slower():
    found = [cycles(*ring(24, stages, work=[Step(ADD)] * 30)) for stages in (1, 2, 3, 4, 6, 8)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 2 * found[-1]


def test_a_missing_arrival_is_an_error_that_names_the_wait():
    warps = [[Step(EXPECT, (FULL,)), bulk(0), wait(EMPTY, 0), Step(ADD)], [wait(FULL, 0), Step(ADD)]]
    with pytest.raises(SimulationError, match=r"warp 0 of thread block 0 waits at an mbarrier for 1 arrival or copy"):
        cycles(*warps)
    cycles(*warps[:1], [wait(FULL, 0), Step(ARRIVE, (EMPTY,) * 32)])


def test_a_barrier_of_consumers_does_not_wait_for_a_producer_that_waits_for_them():
    work = [Step(BAR), Step(ADD)]
    assert cycles(*ring(6, 1, work=work, consumers=2)) < 6 * (DRAM + 100)


@pytest.mark.parametrize(("waits", "held"), [(WAIT_0, True), (WAIT_ALL, True), (WAIT_1, False)])
def test_a_wait_for_groups_of_copies_leaves_the_last_ones(waits, held):
    near, far = Step(COPY, evenly(ARRAY, 16)), Step(COPY, evenly(2 * ARRAY, 16))
    warm = [Step(LOAD, evenly(ARRAY, 16)), Step(WIDE), Step(CLOSE), Step(PRODUCTS_0)]  # the product needs the load
    start = [*warm, near, Step(COMMIT), far, Step(COMMIT)]
    took = cycles([*start, Step(waits), *[Step(ADD)] * 100])
    base = cycles([*start, *[Step(ADD)] * 100])
    assert (took - base > MACHINE.dram_latency / 2) == held


def test_products_work_behind_their_warp():
    """What is between a product and the wait for it takes no more time than the longer of both."""
    product = [Step(WIDE)] * 8
    close, work = [Step(CLOSE)], [Step(ADD)] * 40
    waiting = cycles([*product, *close, Step(PRODUCTS_0), *work])
    behind = cycles([*product, *close, *work, Step(PRODUCTS_0)])
    assert waiting - behind == pytest.approx(40 * 4, abs=12)
    assert behind == pytest.approx(8 * 32, abs=12)
    left = cycles([*product, *close, *product[:1], *close, Step(PRODUCTS_1), *work])
    assert left < cycles([*product, *close, *product[:1], *close, Step(PRODUCTS_0), *work])


def test_tensor_cores_take_their_interval():
    """Four warps on four schedulers, whose sums are apart: two products at a time would be too fast."""
    rows = [replace(ROWS[WIDE], destinations=(each,), sources=(each, 3, 4)) for each in range(20, 28)]
    table = (*ROWS, *rows)
    program = [*(Step(len(ROWS) + each % 8) for each in range(64)), Step(CLOSE), Step(PRODUCTS_0)]
    found = totals(table, [[program] * 4], MACHINE)["CYCLES"]
    assert found == pytest.approx(64 * 4 * 8.0, rel=0.05)


def test_operands_of_products_and_shared_accesses_share_the_port():
    """A warp's share of n8 takes 4.5 cycles of the port, and of the tensor cores: accesses make it slower."""
    products = [*[Step(NARROW)] * 60, Step(CLOSE), Step(PRODUCTS_0)]
    accesses = [Step(SHARED, evenly(0, 8))] * 200  # two cycles of the port each
    alone = cycles(products), cycles(accesses)
    four = [products] * 4
    both = cycles(*four, accesses)
    assert both >= 60 * 4 * 4.5 + 200 * 2
    assert both > max(cycles(*four), alone[1]) + 100


def test_blocks_of_a_cluster_wait_for_one_another():
    slow, fast = [*[Step(ADD)] * 400, Step(CLUSTER), Step(ADD)], [Step(CLUSTER), *[Step(ADD)] * 300]
    machine = replace(MACHINE, sms=2)
    overrides = {"instructions.barrier_cluster.latency": 101, "instructions.barrier_cluster.interval": 1}

    def took(blocks):
        return float(final_state(ROWS, blocks, machine, cluster_blocks=2, overrides=overrides).totals["cycles"][0])

    assert took([[fast], [fast]]) == pytest.approx(100 + 300 * 4, abs=20)
    assert took([[slow], [fast]]) == pytest.approx(400 * 4 + 100 + 300 * 4, abs=20)


def test_a_cluster_that_does_not_fit_is_an_error():
    with pytest.raises(SimulationError, match="wait for each other"):
        final_state(ROWS, [[[Step(CLUSTER)] * 2]] * 4, replace(MACHINE, blocks_per_sm=1), cluster_blocks=4)


def test_what_a_launch_counts_is_what_it_does():
    blocks = [ring(6, 2, work=[Step(NARROW), Step(CLOSE), Step(PRODUCTS_0)], consumers=4)]
    simulation = BackgroundSimulation(ROWS, blocks, MACHINE)
    simulation.run()
    state = final_state(ROWS, blocks, MACHINE)
    assert state.counters["executed"][BULK] == 6 == simulation.counters[BULK, "EXECUTED"]
    assert not state.warps["awaits"].max() >= 0 and not state.sms["awaiting"].any()
    assert not state.groups["left"].any() and not state.sms["products"].any()


@pytest.mark.parametrize(
    ("opcode", "immediate", "expected"),
    [
        ("LDGSTS.E.128", 0, (GroupRole.STARTS, GroupKind.COPIES, 0)),
        ("LDGDEPBAR", 0, (GroupRole.MARKS, GroupKind.COPIES, 0)),
        ("DEPBAR.LE.2", 0, (GroupRole.AWAITS, GroupKind.COPIES, 2)),
        ("HGMMA.64x128x16.F32", 0, (GroupRole.JOINS, GroupKind.PRODUCTS, 0)),
        ("WARPGROUP.ARRIVE", 0, (GroupRole.MARKS, GroupKind.PRODUCTS, 0)),
        ("WARPGROUP.DEPBAR.LE.1", 0, (GroupRole.AWAITS, GroupKind.PRODUCTS, 1)),
        ("cp.async.wait_group", 3, (GroupRole.AWAITS, GroupKind.COPIES, 3)),
        ("cp.async.bulk.wait_group.read", 0, (GroupRole.NONE, GroupKind.COPIES, 0)),
        ("WARPGROUP.DEPBAR.LE", 0, (GroupRole.NONE, GroupKind.COPIES, 0)),
    ],
)
def test_roles_of_ptx_and_of_machine_code(opcode, immediate, expected):
    row = StaticInstruction(0, opcode, "async_copy" if "LDG" in opcode else "control", immediate=immediate)
    waits = [StaticInstruction(16, name, "control") for name in ("DEPBAR.LE.0", "WARPGROUP.DEPBAR.LE.0")]
    roles = group_roles(static_table([row, *waits]))
    assert tuple(int(column[0]) for column in roles) == expected


def test_work_that_nothing_waits_for_by_group_is_as_it_was():
    """Old traces of machine code do not say how many groups a wait leaves: their products give registers."""
    rows = [StaticInstruction(0, "HGMMA.64x8x16.F32", "tensor_n8", destinations=(1,), sources=(1,)), ROWS[ADD]]
    rows[1] = replace(rows[1], sources=(1,))
    assert not np.any(group_roles(static_table(rows)).role)
    assert totals(rows, [[[Step(0), Step(1)]]], MACHINE)["CYCLES"] == 18 + 1
