"""The package's cache simulation and the oracle's, on the same trace and machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference import cache, coalescer
from reference.traces import Block, Step, memory_trace
from warplens.analysis import MissProfile, cache_run, collect_events, instruction_kinds, simulate_caches
from warplens.analysis import _cache_records as records
from warplens.machine import Gpu
from warplens.traces import StaticInstruction

from .strategies import ROWS, latency, small_gpu

#: What is noted of arrivals, in the order of the columns.
NOTED = ("L1", "L1 left", "LLC", "LLC left", "bank", "channel", "shared", "crossed")
COUNTERS = [name.upper() for name in records.COUNTERS.names]


def simulate(
    blocks: Sequence[Block],
    gpu: Gpu,
    blocks_per_sm: int = 2,
    order: str = "round-robin",
    *,
    rows: Sequence[StaticInstruction] = ROWS,
    blocks_per_group: int = 1_000_000,
) -> MissProfile:
    trace = memory_trace(rows, blocks, blocks_per_group=blocks_per_group)
    chunks = collect_events(trace, gpu.l1.line_bytes, latency)
    run = cache_run(gpu, gpu, blocks_per_sm, order=order)
    return simulate_caches(chunks, instruction_kinds(trace.static), run)


SMALL_LLC = {"size_bytes": 128 * 16, "ways": 16, "banks": 1}


def one_warp(
    *steps: tuple[int, int | tuple[int, ...]],
    l1_ways: int = 2,
    sector_bytes: int | None = None,
    l1: dict[str, Any] | None = None,
    **llc: Any,
) -> MissProfile:
    """Steps as (row, address or addresses) on an SM with one L1 set."""
    gpu = small_gpu(
        1,
        {"size_bytes": 128 * l1_ways, "ways": l1_ways, "sector_bytes": sector_bytes} | (l1 or {}),
        SMALL_LLC | llc,
    )
    warp = [Step(row, (where,) if isinstance(where, int) else where) for row, where in steps]
    return simulate([[warp]], gpu)


def as_events(blocks: Sequence[Block], gpu: Gpu, rows: Sequence[StaticInstruction] = ROWS) -> cache.Launch:
    """Blocks as the oracle takes them."""
    return [[coalescer.events_of(warp, rows, gpu.l1.line_bytes, latency) for warp in block] for block in blocks]


def assert_same(found: MissProfile, expected: cache.Memory) -> None:
    """Every counter of every static instruction, and the totals that follow."""
    for row in range(len(found.counters)):
        counts = expected.counts.get(row, {})
        counted = dict(zip(COUNTERS, found.counters[row].tolist(), strict=True))
        assert counted == {name: counts.get(name, 0) for name in COUNTERS}, ROWS[row].opcode
    if found.order == "progress":
        for row in range(len(found.counters)):
            noted = expected.arrivals.get(row, {})
            assert found.arrivals[row].tolist() == [noted.get(n, 0) for n in NOTED]
    totals = {name: sum(counts[name] for counts in expected.counts.values()) for name in COUNTERS}
    assert (found.l1_dirty_left, found.dirty_left) == (expected.l1_dirty_left, expected.dirty_left)
    written_back = totals["WRITEBACK_HITS"] + totals["WRITEBACK_MISSES"]
    assert found.l1_accesses == totals["REQUESTS"]
    assert found.l1_misses == totals["REQUESTS"] - totals["L1_HITS"]
    assert found.llc_accesses == totals["LLC_HITS"] + totals["LLC_MISSES"] + written_back
    assert found.llc_misses == totals["LLC_MISSES"] + totals["WRITEBACK_MISSES"]
    assert found.dram_read_bytes == totals["DRAM_READS"] * found.transfer_bytes
    assert found.dram_write_bytes == totals["DRAM_WRITES"] * found.transfer_bytes
