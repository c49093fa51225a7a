"""What is kept on disk: found again, never wrong, bounded, and safe for many writers."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.analysis import caches as caches
from warplens.api import load_workloads, place
from warplens.result_cache import ResultCache
from warplens.traces import StaticInstruction
from warplens.traces.digest import trace_digest
from warplens.workload import Results, analyse, traced, workload_of_trace
from warplens.workload.traced import cache_misses, representative_of
from warplens_studies.validate import accelsim


@pytest.fixture
def kept(tmp_path):
    return ResultCache(tmp_path / "kept")


@pytest.fixture
def workload(kept):
    (found,) = load_workloads(accelsim.trace_path("strided8"))
    return dataclasses.replace(found, results=Results(kept))


def fresh(workload, **changes):
    """The same on disk, nothing in memory."""
    return dataclasses.replace(workload, **{"results": Results(workload.results.disk), **changes})


def test_simulations_and_representatives_come_back_the_same(workload, monkeypatch):
    _, gpu = place(workload, accelsim.GPU)
    misses, warp = cache_misses(workload, gpu), representative_of(workload, gpu)
    monkeypatch.setattr(traced, "simulate_caches", lambda *_, **__: pytest.fail("simulated again"))
    monkeypatch.setattr(traced, "representative_warp", lambda *_, **__: pytest.fail("chosen again"))
    again = fresh(workload)
    found, same_warp = cache_misses(again, gpu), representative_of(again, gpu)
    for item in dataclasses.fields(caches.MissProfile):
        one, other = getattr(misses, item.name), getattr(found, item.name)
        assert type(one) is type(other)
        assert np.array_equal(one, other)
    for item in dataclasses.fields(warp):
        assert type(getattr(warp, item.name)) is type(getattr(same_warp, item.name))
        assert np.array_equal(getattr(warp, item.name), getattr(same_warp, item.name))
    assert analyse(again, gpu).summary() == analyse(workload, gpu).summary()


@pytest.mark.parametrize(
    "changes",
    [
        {"sms": 14},
        {"l1.size": 24576},
        {"llc.size": 1572864},
        {"l1.mshrs": 32},
        {"scheduler": "lrr"},
        {"max_warps": 16},
    ],
)
def test_what_changes_a_simulation_is_an_entry_of_its_own(workload, changes):
    _, gpu = place(workload, accelsim.GPU)
    _, other = place(workload, accelsim.GPU, changes)
    cache_misses(workload, gpu)
    without = cache_misses(fresh(workload, results=Results()), other)
    assert np.array_equal(cache_misses(fresh(workload), other).counters, without.counters)
    assert len(list(workload.results.disk.folder.glob("*/*.entry"))) == 2


@pytest.mark.parametrize("changes", [{"dram.bandwidth": "1GB/s"}, {"clock": "2GHz"}, {"dram.latency": 9}])
def test_what_does_not_shares_it(workload, changes):
    cache_misses(workload, place(workload, accelsim.GPU)[1])
    cache_misses(fresh(workload), place(workload, accelsim.GPU, changes)[1])
    assert len(list(workload.results.disk.folder.glob("*/*.entry"))) == 1


def test_orders_and_traces_are_told_apart(workload):
    _, gpu = place(workload, accelsim.GPU)
    (other,) = load_workloads(accelsim.trace_path("strided32"))
    assert trace_digest(other.trace) != trace_digest(workload.trace)
    (same,) = load_workloads(accelsim.trace_path("strided8"))
    assert trace_digest(same.trace) == trace_digest(workload.trace)
    for each in (
        workload,
        fresh(workload, order="round-robin"),
        dataclasses.replace(other, results=Results(workload.results.disk)),
    ):
        cache_misses(each, gpu)
    assert len(list(workload.results.disk.folder.glob("*/*.entry"))) == 3


def test_how_warps_are_grouped_is_no_part_of_a_trace(workload):
    """Recorded on several cores, groups end wherever a core was done."""
    rows = [StaticInstruction(0, "LDG", "load_global", "global", 4, (1,)), StaticInstruction(8, "IADD", "int32")]
    uneven = tuple(int(place) for place in np.random.default_rng(0).integers(0, 1 << 20, 32) * 4)
    blocks = [
        [[Step(0, evenly(4096 * block, 4)), *[Step(1)] * block, Step(0, uneven)] for _ in range(1 + block % 3)]
        for block in range(3, 10)
    ]
    traces = [memory_trace(rows, blocks, blocks_per_group=count) for count in (1, 2, 3, 100)]
    assert len({trace_digest(trace) for trace in traces}) == 1
    _, gpu = place(workload, accelsim.GPU)
    first, *same = [cache_misses(workload_of_trace(trace), gpu) for trace in traces]
    for item in dataclasses.fields(first):
        assert all(np.array_equal(getattr(first, item.name), getattr(each, item.name)) for each in same)
    shorter = memory_trace(rows, [*blocks[:-1], [warp[:-1] for warp in blocks[-1]]])
    (only, *others), (second, *rest) = blocks[:2]
    moved = memory_trace(rows, [[only[:-1], *others], [[only[-1], *second], *rest], *blocks[2:]])
    assert len({trace_digest(trace) for trace in (traces[0], shorter, moved)}) == 3


def test_threads_share_a_workload(workload):
    found = []

    def ask():
        found.append(cache_misses(workload, place(workload, accelsim.GPU)[1]).counters.sum())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 4
