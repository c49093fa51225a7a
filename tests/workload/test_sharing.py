"""Traced workloads share what they can: caches are simulated no more than needed, the representative stays."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.api import place, predict
from warplens.machine import load_gpu
from warplens.workload import Needs, Workload, analyse, traced, workload_of_trace
from warplens.workload.traced import cache_misses, representative_of

from .traces import FFMA, GATHER, LDG, MUFU, ROWS, STG, fresh, machine

#: Values of parameters that change neither what hits nor who goes first.
CONTENTION = {
    "dram.bandwidth": [120e9, 480e9, 960e9],
    "noc.bandwidth": [262e9, 1050e9, 2100e9],
    "dram.latency": [50.0, 220.0, 700.5],
    "llc.latency": [60.0, 120.0, 121.7],
    "clock": [0.7e9, 1.4e9, 1.93e9],
}

# -- simulations are shared --------------------------------------------------------------------------


@pytest.fixture
def simulations(monkeypatch) -> list[tuple[int, int]]:
    """(SMs, blocks per SM) of each cache simulation that is really made."""
    made: list[tuple[int, int]] = []
    real = traced.simulate_caches

    def counting(events, kinds, run, *before):
        made.append((run.config.sms, run.config.blocks_per_sm))
        return real(events, kinds, run, *before)

    monkeypatch.setattr(traced, "simulate_caches", counting)
    return made


@pytest.mark.parametrize("order", ("round-robin", "progress"))
def test_contention_alone_needs_one_simulation(simulations, order):
    workload = fresh(order=order)
    for name in ("mdm", "gpumech", "roofline", "wfg"):
        predict(workload, machine(), name)
        for key, values in CONTENTION.items():
            predict(*place(workload, machine(), {key: np.array(values)}), name)
            predict(*place(workload, machine(), {key: values[0]}), name)
    assert len(simulations) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    (
        ("l1.size", 24 * 1024),
        ("l1.ways", 3),
        ("l1.sector", 32),
        ("llc.size", 24 * 8 * 1024),
        ("llc.banks", 12),
        ("llc.write_policy", "through"),
        ("llc.write_allocate", False),
        ("l1.write_policy", "back"),
        ("l1.write_allocate", True),
        ("sms", 14),
    ),
)
def test_other_caches_need_another_simulation(simulations, key, value):
    workload = fresh()
    before = cache_misses(workload, machine())
    overridden = place(workload, machine(), {key: value})[1]
    changed = cache_misses(workload, overridden)
    assert len(simulations) == 2
    assert changed is not before
    described = cache_misses(fresh(), dataclasses.replace(overridden, original=None))
    assert np.array_equal(changed.counters, described.counters)
    simulations.pop()
    assert cache_misses(workload, place(workload, machine(), {key: value, "dram.bandwidth": 1e9})[1]) is changed
    assert cache_misses(workload, machine()) is before
    assert len(simulations) == 2


@pytest.mark.parametrize(
    ("key", "value", "given"),
    (
        ("scheduler", "lrr", {}),
        ("l1.mshrs", 4, {}),
        ("l1.queue", 2, {}),
        ("l1.streaming", True, {}),
        ("noc.queue", 8, {"l1__streaming": True}),
    ),
)
def test_what_decides_who_goes_first_matters_where_that_is_estimated(simulations, key, value, given):
    for order, count in (("round-robin", 1), ("oldest-4", 1), ("progress", 2)):
        simulations.clear()
        workload, gpu = fresh(order=order), machine(**given)
        cache_misses(workload, gpu)
        cache_misses(workload, place(workload, gpu, {key: value})[1])
        assert len(simulations) == count


def test_a_queue_that_nothing_waits_in_needs_no_other_simulation(simulations):
    """The MSHRs limit the misses of an L1 that keeps lines, the queue of the NoC those of one that streams."""
    for key, given in (("noc.queue", {"l1__streaming": False}), ("l1.mshrs", {"l1__streaming": True})):
        simulations.clear()
        workload, gpu = fresh(), machine(**given)
        cache_misses(workload, gpu)
        cache_misses(workload, place(workload, gpu, {key: 8})[1])
        assert len(simulations) == 1


def test_other_residents_need_another_simulation(simulations):
    workload = fresh()
    cache_misses(workload, machine())
    few = workload.with_overrides({"launch.blocks_per_sm": 1})
    cache_misses(few, machine())
    assert [blocks for _, blocks in simulations] == [3, 1]  # 70 blocks on 28 SMs
    cache_misses(workload, machine())
    assert len(simulations) == 2


def test_overridden_times_do_not_change_what_hits():
    """The order of accesses is estimated with the times of the machine as named."""
    workload, other = fresh(), fresh()
    changed = machine(dram__latency=5000, dram__bandwidth=1e9, instructions__fp32__latency=900)
    assert np.array_equal(cache_misses(workload, machine()).counters, cache_misses(other, changed).counters)


def test_machines_of_one_name_or_shape_are_told_apart():
    """A described machine with other times orders accesses otherwise, whatever was simulated before."""
    gpu = machine()
    gpu = dataclasses.replace(gpu, original=None, l1=dataclasses.replace(gpu.l1, size_bytes=6 * 128 * 2))
    slow = dataclasses.replace(gpu, dram=dataclasses.replace(gpu.dram, latency_cycles=9000.0))
    workload = fresh()
    first = cache_misses(workload, gpu)
    assert cache_misses(workload, slow).estimated_cycles == cache_misses(fresh(), slow).estimated_cycles
    assert cache_misses(workload, slow).estimated_cycles > 2 * first.estimated_cycles
    assert cache_misses(workload, gpu) is first


# -- the representative is chosen on the machine as named -------------------------------------------


def two_kinds() -> Workload:
    """Warps that wait for loads and warps that wait for special functions: which are faster is up to the machine."""
    waits_for_load = [Step(LDG, evenly(2**20, 4)), Step(FFMA)] * 4
    waits_for_sfu = [Step(MUFU), Step(STG, evenly(2**20, 4))] * 4
    trace = memory_trace(ROWS, [[waits_for_load, waits_for_sfu]] * 3)
    return workload_of_trace(trace, selection="max", order="round-robin")


def test_an_override_does_not_change_the_representative():
    gpu, slow = machine(), machine(instructions__sfu__latency=5000)
    assert representative_of(two_kinds(), gpu).index == 1
    # On a machine that is described that way the other kind is faster.
    described = dataclasses.replace(slow, original=None)
    assert representative_of(two_kinds(), described).index == 0
    for machines in ((gpu, slow), (slow, gpu)):
        workload = two_kinds()
        assert [representative_of(workload, each).index for each in machines] == [1, 1]
    # Its intervals follow the override.
    profile = next(iter(analyse(two_kinds(), slow, Needs("interval_profile")).intervals))[1]
    assert profile.column("stall_cycles").sum() == pytest.approx(4 * 5000)


def reuse_that_residents_destroy() -> Workload:
    """One kind of warp reuses lines that stay in L1 with one block per SM and not with all of them."""
    launch = []
    for block in range(28 * 8):
        private = [128 * (10_000 + 8 * block + part) for part in range(8)]
        reuses = [step for _ in range(6) for address in private for step in (Step(LDG, (address,)), Step(FFMA))]
        shares = [step for turn in range(48) for step in (Step(GATHER, (128 * (50_000 + turn),)), Step(FFMA))]
        launch.append([reuses, shares])
    trace = memory_trace(ROWS, launch)
    return workload_of_trace(trace, order="round-robin", selection="max")


def test_a_launch_override_does_not_change_the_representative():
    gpu = dataclasses.replace(load_gpu("accelsim-mdm"), l1=dataclasses.replace(machine().l1, size_bytes=6 * 128 * 8))
    plain = representative_of(reuse_that_residents_destroy(), gpu)
    crowded = cache_misses(reuse_that_residents_destroy(), gpu).levels[LDG, 0]
    workload = reuse_that_residents_destroy().with_overrides({"launch.blocks_per_sm": 1})
    assert cache_misses(workload, gpu).levels[LDG, 0] > crowded + 0.3
    assert representative_of(workload, gpu).index == plain.index
    assert representative_of(workload, gpu).mean_distance == plain.mean_distance


def test_selection_and_order_have_representatives_of_their_own():
    workload = two_kinds()
    slowest = dataclasses.replace(workload, selection="min")  # shares what is remembered
    assert representative_of(workload, machine()).index == 1
    assert representative_of(slowest, machine()).index == 0
    assert representative_of(workload, machine()).index == 1
