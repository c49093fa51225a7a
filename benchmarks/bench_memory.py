"""Cache simulation: accesses (requests to L1) per second of one core, for streams of 5 million of them.

Rates are per second of CPU time, which other load on the machine hardly changes. The
row about threads compares wall-clock times and needs two idle cores.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from run import Row

from warplens.analysis import Events, cache_run, collect_events, instruction_kinds, order_window, simulate_caches
from warplens.machine import load_gpu
from warplens.traces import IRREGULAR, LaunchHeader, MemoryTrace, StaticInstruction, WarpGroup, static_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from reference import cache as oracle
from reference import coalescer
from reference import progress as progress_oracle

BLOCKS, WARPS_PER_BLOCK, BLOCKS_PER_SM = 448, 8, 8
ACCESSES = 5_000_000
#: Bytes of the array that divergent loads gather from: five times the L2 of `accelsim-mdm`.
GATHERED = 16 * 2**20
ROWS = (
    StaticInstruction(0x00, "LDG.E", "load_global", "global", 4, (1,), (2,)),
    StaticInstruction(0x10, "FADD", "fp32", "none", 0, (3,), (1, 3)),
)
KINDS = instruction_kinds(static_table(ROWS))


def stream(divergent: bool) -> MemoryTrace:
    """Warps that load and add in turn: lanes at random addresses, or coalesced."""
    warps = BLOCKS * WARPS_PER_BLOCK
    loads = ACCESSES // (warps * (32 if divergent else 1)) + 1
    count = warps * loads
    if divergent:
        lanes = np.random.default_rng(1).integers(1, GATHERED // 4, 32 * count).astype(np.uint64) * np.uint64(4)
        base, stride = np.zeros(count, dtype=np.uint64), np.full(count, IRREGULAR)
    else:
        lanes = np.zeros(0, dtype=np.uint64)
        line = np.arange(loads)[None, :] * warps + np.arange(warps)[:, None] + 1
        base, stride = (128 * line.ravel()).astype(np.uint64), np.full(count, 4, dtype=np.int64)
    static = np.tile(np.array([0, 1], dtype=np.uint32), count)
    per_warp = np.arange(warps + 1, dtype=np.int64)
    group = WarpGroup(
        block=np.repeat(np.arange(BLOCKS), WARPS_PER_BLOCK),
        warp=np.tile(np.arange(WARPS_PER_BLOCK, dtype=np.int32), BLOCKS),
        start=per_warp * 2 * loads,
        static=static,
        mask=np.full(len(static), 0xFFFFFFFF, dtype=np.uint32),
        access_start=per_warp * loads,
        base=base,
        stride=stride,
        lane_start=per_warp * (32 * loads if divergent else 0),
        lanes=lanes,
    )
    header = LaunchHeader("stream", (BLOCKS, 1, 1), (32 * WARPS_PER_BLOCK, 1, 1))
    return MemoryTrace(header, static_table(ROWS), (group,))


def collect(trace: MemoryTrace) -> list[Events]:
    return list(collect_events(trace, 128, lambda name: 4.0))


def best_of(run: Callable[[], object], clock: Callable[[], float], times: int = 3) -> float:
    """Fewest seconds of several runs, after one that compiles."""
    run()
    seconds = []
    for _ in range(times):
        start = clock()
        run()
        seconds.append(clock() - start)
    return min(seconds)


def first_events(events: Events, per_warp: int) -> oracle.Launch:
    """The first memory instructions of every warp, in the oracle's format."""

    def warp(w: int) -> list[coalescer.Event]:
        first = int(events.event_start[w])
        return [event(i) for i in range(first, min(first + per_warp, int(events.event_start[w + 1])))]

    def event(i: int) -> coalescer.Event:
        lines = {
            int(events.line_id[j]): {granule for granule in range(32) if int(events.line_words[j]) >> granule & 1}
            for j in range(events.line_start[i], events.line_start[i + 1])
        }
        return coalescer.Event(
            int(events.event_static[i]),
            "load",
            int(events.event_instructions[i]),
            float(events.event_gap[i]),
            int(events.event_dependence[i]),
            float(events.event_tail[i]),
            lines,
        )

    starts = events.block_start.tolist()
    return [[warp(w) for w in range(a, b)] for a, b in itertools.pairwise(starts)]


def oracle_rate(events: Events, gpu_name: str, order: str, per_warp: int) -> float:
    """Accesses per second of the plain Python caches, over the beginning of the same stream."""
    gpu = load_gpu(gpu_name)
    launch, geometry = [first_events(events, per_warp)], oracle.Geometry.of(gpu)
    start = time.process_time()
    if order == "progress":
        memory, _ = progress_oracle.simulate_progress(launch, geometry, progress_oracle.Timing.of(gpu), BLOCKS_PER_SM)
    else:
        memory = oracle.simulate_rounds(launch, geometry, BLOCKS_PER_SM, order_window(order))
    seconds = time.process_time() - start
    return sum(count["REQUESTS"] for count in memory.counts.values()) / seconds


def caches_row(name: str, chunks: list[Events], machine: str, order: str, target: float | None) -> Row:
    gpu = load_gpu(machine)
    run = cache_run(gpu, gpu, BLOCKS_PER_SM, order=order)
    found = simulate_caches(chunks, KINDS, run)
    seconds = best_of(lambda: simulate_caches(chunks, KINDS, run), time.process_time)
    rate = found.l1_accesses / seconds
    return Row(
        f"caches of {machine}, {order}, {name} loads",
        rate / 1e6,
        "M accesses/s",
        "plain Python caches",
        rate / oracle_rate(chunks[0], machine, order, 1 if name == "divergent" else 8),
        target,
    )


def coalescing_row(name: str, trace: MemoryTrace) -> Row:
    seconds = best_of(lambda: collect(trace), time.process_time)
    rate = sum(len(chunk.line_id) for chunk in collect(trace)) / seconds
    group = trace.held[0]
    start = time.process_time()
    lines = 0
    for access in range(300):
        if len(group.lanes):
            addresses = group.lanes[32 * access : 32 * access + 32].tolist()
        else:
            addresses = [int(group.base[access]) + 4 * lane for lane in range(32)]
        lines += len(coalescer.lines_touched(addresses, 4, 128))
    slow = lines / (time.process_time() - start)
    return Row(f"coalescing, {name} loads", rate / 1e6, "M lines/s", "plain Python, byte by byte", rate / slow)


def measure() -> list[Row]:
    rows = []
    for name in ("divergent", "coalesced"):
        trace = stream(name == "divergent")
        chunks = collect(trace)
        target = 30.0 if name == "divergent" else None
        rows += [
            caches_row(name, chunks, "accelsim-mdm", "round-robin", target),
            caches_row(name, chunks, "accelsim-mdm", "progress", None),
            caches_row(name, chunks, "h200", "round-robin", None),
            coalescing_row(name, trace),
        ]
        if name == "divergent":
            rows.append(threads_row(chunks))
    return rows


def threads_row(chunks: list[Events]) -> Row:
    """Two simulations in two threads against one after the other: compiled loops release the interpreter lock."""
    gpu = load_gpu("accelsim-mdm")
    run = cache_run(gpu, gpu, BLOCKS_PER_SM, order="round-robin")

    def one(_: int = 0) -> None:
        simulate_caches(chunks, KINDS, run)

    with ThreadPoolExecutor(2) as pool:
        together = best_of(lambda: list(pool.map(one, range(2))), time.perf_counter, 5)
    apart = best_of(lambda: (one(), one()), time.perf_counter, 5)
    return Row(
        "caches of two launches in two threads", apart / together, "x", "one after the other", apart / together
    )
