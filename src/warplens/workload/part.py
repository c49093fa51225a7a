"""A part of a long trace, for questions that simulate the caches over and over."""

from __future__ import annotations

from dataclasses import replace

from ..analysis.events import EVENT_BYTES, LINE_BYTES
from ..machine import Gpu
from ..traces.chosen_blocks import chosen_blocks
from ..traces.grouping import only_blocks
from .analyse import analyse
from .results import Results
from .workload import Workload

#: What a cache simulation costs: bytes of coalesced accesses, and so many per instruction.
INSTRUCTION_BYTES = 4
#: From this on a trace is long, and a part of it costs less.
LONG_BYTES, PART_BYTES = 288 * 2**20, 96 * 2**20


def part_if_long(workload: Workload, gpu: Gpu) -> Workload:
    """The launch with some recorded blocks, spread over the grid, where all take too long; else as it is."""
    facts = analyse(workload, gpu, needed_by="a part of a trace")
    if workload.trace is None or facts.traced is None:
        return workload
    warp, misses = facts.traced.warp, facts.traced.misses
    cost = INSTRUCTION_BYTES * warp.recorded_instructions
    cost += EVENT_BYTES * misses.executed.sum() + LINE_BYTES * misses.column("lines").sum()
    if cost <= LONG_BYTES:
        return workload
    limit = max(int(warp.recorded_blocks * PART_BYTES / cost), 1)
    wave = int(facts.residency.blocks_per_sm * gpu.sms)
    chosen = chosen_blocks(warp.recorded_blocks, limit, wave)
    return replace(workload, trace=only_blocks(workload.trace, chosen), results=Results())
