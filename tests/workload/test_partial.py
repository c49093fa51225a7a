"""Launches of which only some blocks are recorded: the rest is assumed to be like them."""

from __future__ import annotations

import dataclasses

import pytest

import warplens
from reference.traces import Step, evenly, memory_trace
from warplens.analysis import events
from warplens.analysis.events import EventStream
from warplens.machine import load_gpu, with_overrides
from warplens.traces import StaticInstruction
from warplens.workload import workload_of_trace
from warplens.workload.traced import cache_misses

ROWS = [
    StaticInstruction(0, "LDG.E", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(16, "STG.E", "store_global", "global", 4, (), (1,)),
]
MACHINE = with_overrides(load_gpu("h200"), {"sms": 8, "max_blocks": 4})


def misses(recorded: int, launched: int, order: str = "progress"):
    """Blocks that all read the same 64 lines, and one line each of their own."""
    blocks = [
        [[*(Step(0, evenly(2**20 + 128 * k, 4)) for k in range(64)), Step(0, evenly(2**24 + 128 * block, 4))]]
        for block in range(recorded)
    ]
    trace = memory_trace(ROWS, blocks)
    header = dataclasses.replace(trace.header, grid=(launched, 1, 1))
    return cache_misses(workload_of_trace(dataclasses.replace(trace, header=header), order=order), MACHINE)


def test_an_sm_has_as_many_blocks_as_in_the_launch():
    """Four blocks share an L1, whether a wave of 32 is recorded or a part of it."""
    whole, part = misses(32, 32), misses(8, 32)
    assert part.l1_misses / 8 == pytest.approx(whole.l1_misses / 32)
    alone = misses(8, 8)  # on an SM each
    assert alone.l1_misses > 2.5 * part.l1_misses


@pytest.mark.parametrize("order", ["progress", "round-robin"])
def test_chunks_of_a_long_trace_fill_their_sms(monkeypatch, order):
    """A chunk has an eighth of a wave: spread over all SMs, none would share an L1."""
    whole = misses(32, 32, order)
    monkeypatch.setattr(events, "CHUNK_BYTES", 4 * 65 * (events.EVENT_BYTES + events.LINE_BYTES))
    chunks = misses(32, 32, order)
    assert chunks.l1_misses / whole.l1_misses < 1.1
    assert chunks.estimated_cycles == pytest.approx(whole.estimated_cycles, rel=0.3)


def test_the_estimate_is_that_of_the_launch():
    once, thrice = misses(32, 32), misses(32, 96)
    assert thrice.estimated_cycles == pytest.approx(3 * once.estimated_cycles)
    assert misses(8, 32).estimated_cycles == pytest.approx(once.estimated_cycles, rel=0.3)


def test_what_the_whole_launch_leaves_dirty_goes_to_dram():
    """64 KiB that the recorded blocks write are 16 MiB in the launch; the L2 keeps some of them."""
    blocks = [[[Step(1, evenly(2**20 + 8192 * block + 128 * k, 4)) for k in range(64)]] for block in range(8)]
    trace = memory_trace(ROWS, blocks)
    trace = dataclasses.replace(trace, header=dataclasses.replace(trace.header, grid=(2048, 1, 1)))

    def dram(kept):
        machine = with_overrides(MACHINE, {"llc.dirty": kept})
        return warplens.predict(workload_of_trace(trace), machine).terms["busy_DRAM"]

    assert dram("1 MiB") == pytest.approx(15 / 16 * dram(1), rel=1e-3) and dram("64 MiB") == 0.0


def test_blocks_are_counted_however_a_trace_is_cut(monkeypatch):
    """Ten blocks, two to a group, in one chunk and in several."""
    trace = memory_trace(ROWS, [[[Step(0, evenly(2**20, 4))]] for _ in range(10)], blocks_per_group=2)
    assert EventStream(trace, 128, lambda name: 1.0).blocks == 10
    monkeypatch.setattr(events, "CHUNK_BYTES", 1)
    assert EventStream(trace, 128, lambda name: 1.0).blocks == 10
