"""What blocks share that are far apart in the grid, where a trace has only some of them.

Each recorded part of a launch touches lines for the first time, which then come from DRAM. The blocks between the
parts touch some of the same lines: in a launch such a line comes from DRAM once, not once for each part. How much of
its lines the last part finds touched by those before it says how much the other blocks will find.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..traces import LaunchTrace
from ._cache_records import ARRIVALS, COUNTERS, LOAD, CacheConfig, records_of
from .caches import MissProfile
from .events import Events, EventStream

#: Parts of a trace whose blocks are all side by side; fewest blocks of such a trace.
_PARTS, _LEAST_BLOCKS = 4, 16


@dataclass(frozen=True, eq=False)
class FirstTouches:
    """Of each static load: lines that it touches first."""

    #: In the recorded blocks; and for each of these, of all blocks of the launch, as a share of the recorded blocks'.
    lines: NDArray[np.int64]
    share: NDArray[np.float64]
    #: Blocks of the launch for each recorded one.
    repeats: float

    def applied(self, found: MissProfile, config: CacheConfig) -> MissProfile:
        """Misses of the whole launch: lines that other blocks have brought are in the L2, if it holds them all."""
        held = config.llc_banks * config.llc_sets * config.llc_ways  # of one part: each brings what its SMs read
        if not held or (self.lines * self.share).sum() * self.repeats > held or np.all(self.share == 1.0):
            return found
        counters = found.counters.copy()
        own = records_of(counters, COUNTERS)
        touched = self.lines * own["requests"] / np.maximum(own["lines"], 1)
        cold = np.minimum(touched / np.maximum(own["llc_misses"], 1), 1.0)
        brought = (1.0 - self.share) * cold
        for far, near in (("llc_misses", "llc_hits"), ("worst_dram", "worst_llc")):
            moved = np.rint(own[far] * brought).astype(np.int64)
            own[far] -= moved
            own[near] += moved
        own["dram_reads"] -= np.rint(own["dram_reads"] * brought).astype(np.int64)
        if found.arrivals is None:
            return replace(found, counters=counters)
        arrivals = found.arrivals.copy()
        waits = records_of(arrivals, ARRIVALS)
        for name in ("llc", "llc_left", "crossed"):  # nobody waits for a line that is there
            waits[name] *= self.share
        return replace(found, counters=counters, arrivals=arrivals)


def first_touches(trace: LaunchTrace, chunks: EventStream, kinds: NDArray[np.uint8]) -> FirstTouches | None:
    """First touches of a partly recorded launch; None if all of it is recorded, or too little to tell."""
    blocks, launched = chunks.blocks, trace.header.blocks
    if not 0 < blocks < launched:
        return None
    part = _parts(trace)
    if part[-1] == 0:
        return None
    new, own = np.zeros((2, part[-1] + 1, len(kinds)), dtype=np.int64)
    seen = np.zeros(0, dtype=np.int64)
    first = 0
    for chunk in chunks:
        here = part[first : first + chunk.blocks]
        edges = [0, *(np.flatnonzero(np.diff(here)) + 1).tolist(), len(here)]
        for begin, end in pairwise(edges):
            lines, static = _loaded(chunk, begin, end, kinds)
            own[here[begin]] += np.bincount(static, minlength=len(kinds))
            fresh = ~np.isin(lines, seen, assume_unique=True)
            new[here[begin]] += np.bincount(static[fresh], minlength=len(kinds))
            seen = np.union1d(seen, lines[fresh])
        first += chunk.blocks
    recorded = new.sum(axis=0)
    still_new = new[-1] / np.maximum(own[-1], 1)
    part_recorded = blocks / launched
    share = part_recorded + (1.0 - part_recorded) * still_new * own.sum(axis=0) / np.maximum(recorded, 1)
    share = np.where((recorded > 0) & (own[-1] > 0), np.minimum(share, 1.0), 1.0)
    return FirstTouches(recorded, share, launched / blocks)


def _parts(trace: LaunchTrace) -> NDArray[np.int64]:
    """The part of each recorded block: blocks of a part are side by side."""
    numbers = [
        group.block[np.concatenate(([True], np.diff(group.block) != 0))] for group in trace.groups() if len(group)
    ]
    block = np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64)
    part = np.concatenate(([0], np.cumsum(np.diff(block) != 1)))[: len(block)]
    if len(block) >= _LEAST_BLOCKS and part[-1] == 0:
        part = np.arange(len(block)) * _PARTS // len(block)
    return part.astype(np.int64)


def _loaded(
    chunk: Events, begin: int, end: int, kinds: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lines that some blocks load, in ascending order, and the instruction that is the first to load each."""
    first, last = chunk.event_start[chunk.block_start[[begin, end]]]
    low, high = chunk.line_start[[first, last]]
    static = np.repeat(chunk.event_static[first:last], np.diff(chunk.line_start[first : last + 1])).astype(np.int64)
    loads = kinds[static] == LOAD
    lines, places = np.unique(chunk.line_id[low:high][loads], return_index=True)
    return lines, static[loads][places]
