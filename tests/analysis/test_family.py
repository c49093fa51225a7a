"""Caches that differ in their ways, in one pass: what each of them gives alone, bit for bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.traces import Step, memory_trace
from warplens.analysis import (
    cache_run,
    collect_events,
    events,
    family_of,
    instruction_kinds,
    simulate_caches,
    simulate_family,
)

from .strategies import ROWS, latency, launches, machines, small_gpu

orders = st.sampled_from(("round-robin", "oldest-1", "oldest-2", "oldest-5"))


def family(gpu, blocks_per_sm, order):
    return family_of(cache_run(gpu, gpu, blocks_per_sm, order=order))


def with_ways(gpu, ways):
    """The same sets, with other ways."""
    per_way = gpu.llc.size_bytes // gpu.llc.ways
    return dataclasses.replace(gpu, llc=dataclasses.replace(gpu.llc, ways=ways, size_bytes=per_way * ways))


def assert_same(found, expected):
    assert np.array_equal(found.counters, expected.counters)
    assert found.dirty_left == expected.dirty_left
    assert found.l1_dirty_left == expected.l1_dirty_left
    assert (found.busiest_bank, found.busiest_channel) == (expected.busiest_bank, expected.busiest_channel)
    assert np.array_equal(found.arrivals, expected.arrivals)
    assert found.transfer_bytes == expected.transfer_bytes
    assert (found.order, found.estimated_cycles) == (expected.order, expected.estimated_cycles)


@given(
    launches(),
    machines(),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(1, 3),
    orders,
    st.booleans(),
)
def test_one_pass_equals_a_simulation_of_each(blocks, gpu, ways, blocks_per_sm, order, together):
    common = family(gpu, blocks_per_sm, order)
    if common is None:
        return
    gpus = [with_ways(gpu, each) for each in ways]
    assert {family(each, blocks_per_sm, order) for each in gpus} == {common}
    trace = memory_trace(ROWS, blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "CHUNK_BYTES", 2**30 if together else 0)
        chunks = list(collect_events(trace, int(gpu.l1.line_bytes), latency))
    kinds = instruction_kinds(trace.static)
    runs = [cache_run(each, each, blocks_per_sm, order=order) for each in gpus]
    for run, each in zip(runs, simulate_family(chunks, kinds, runs), strict=True):
        assert_same(each, simulate_caches(chunks, kinds, run))


@pytest.mark.parametrize("write_policy", ["back", "through"])
def test_a_larger_cache_can_miss_what_a_smaller_one_fetched_for_an_atomic(write_policy):
    """It still holds the word that was written, which is all that the atomic needs, but not all of the line."""
    gpu = small_gpu(
        sms=1,
        l1={"line_bytes": 32, "sector_bytes": None, "size_bytes": None},
        llc={"size_bytes": 32, "ways": 1, "banks": None, "write_policy": write_policy},
    )
    store, load, atomic = 3, 0, 5
    warp = [Step(store, (128,)), Step(load, (4,)), Step(atomic, (128,)), Step(load, (128,))]
    trace = memory_trace(ROWS, [[warp]])
    chunks, kinds = list(collect_events(trace, 32, latency)), instruction_kinds(trace.static)
    runs = [cache_run(each, each, 1, order="round-robin") for each in (gpu, with_ways(gpu, 2))]
    found = simulate_family(chunks, kinds, runs)
    for run, each in zip(runs, found, strict=True):
        assert_same(each, simulate_caches(chunks, kinds, run))
    assert [each.column("llc_hits")[load] for each in found] == [1, 0]


def test_what_an_l1_writes_back_counts_in_every_cache():
    gpu = small_gpu(
        sms=1,
        l1={"size_bytes": 2 * 128, "ways": 2, "write_policy": "back", "write_allocate": True},
        llc={"size_bytes": 4 * 128, "ways": 4, "banks": 1},
    )
    store, load = 3, 0
    warp = [Step(store, (128, 256)), Step(load, (384, 512)), Step(store, (640,)), Step(load, (128, 256))]
    trace = memory_trace(ROWS, [[warp]])
    chunks, kinds = list(collect_events(trace, 128, latency)), instruction_kinds(trace.static)
    runs = [cache_run(each, each, 1, order="round-robin") for each in (gpu, with_ways(gpu, 8))]
    for run, each in zip(runs, simulate_family(chunks, kinds, runs), strict=True):
        assert_same(each, simulate_caches(chunks, kinds, run))
        assert each.column("writeback_hits")[load] + each.column("writeback_misses")[load] == 3


LLC = {"size_bytes": 4096, "ways": 4, "banks": 1}


def test_where_one_pass_is_exact():
    gpu = small_gpu(llc=LLC)
    assert family(gpu, 1, "round-robin") is not None
    assert family(gpu, 1, "oldest-4") != family(gpu, 1, "round-robin")
    assert family(gpu, 1, "round-robin") != family(gpu, 2, "round-robin")
    assert family(gpu, 1, "progress") is None  # what hits decides who is next
    assert family(small_gpu(llc=LLC | {"write_allocate": False}), 1, "round-robin") is None
    assert family(small_gpu(llc=LLC | {"size_bytes": None}), 1, "round-robin") is None
    more_sets = small_gpu(llc=LLC | {"size_bytes": 8192})
    assert family(more_sets, 1, "round-robin") != family(gpu, 1, "round-robin")
