"""One pass simulates all machines whose L2 caches differ only in their number of ways.

An LRU cache with w ways holds the first w lines of each set's LRU stack. One
pass over the accesses is therefore exact for every number of ways, provided
that all caches see the same accesses and every access moves its line to the
front. Three conditions ensure that:

- The order of the warps does not depend on hits. This holds for round-robin and
  oldest-N, not for `progress`, where a warp that misses falls back.
- The accesses that reach the L2 do not depend on the L2: it never evicts lines
  of an L1, so an equal L1 suffices.
- The L2 allocates on stores. Otherwise a store updates a line only where it is
  present, which orders the stacks of small and large caches differently.

A cache with more sets has other stacks and belongs to another family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ._cache_records import ARRIVALS, COUNTERS, table_of
from .cache_run import CacheRun, Coalescing
from .caches import MissProfile, empty_caches, placed_lines, unevenness, written_sectors
from .events import Events

#: Smallest family for which one pass is faster than a simulation per run.
FEWEST = 6


def family_of(run: CacheRun) -> CacheRun | None:
    """A key that is equal for runs that share a pass; None if the run cannot share one."""
    config = run.config
    if run.order == "progress" or not config.llc_allocate or not config.llc_sets:
        return None
    if config.fetch_sectors > 1 or config.llc_partitions > 1:
        return None
    return replace(run, config=config._replace(llc_ways=0))


def simulate_families(
    events_of: Callable[[Coalescing], Iterable[Events]],
    kinds: NDArray[np.uint8],
    runs: Sequence[CacheRun],
    launched: int = 0,
) -> dict[int, MissProfile]:
    """Profiles, by index, of the runs in large enough families; the caller simulates the others."""
    families: dict[CacheRun, list[int]] = {}
    for index, run in enumerate(runs):
        family = family_of(run)
        if family is not None:
            families.setdefault(family, []).append(index)
    found: dict[int, MissProfile] = {}
    for family, members in families.items():
        if len(members) >= FEWEST:
            some = [runs[index] for index in members]
            made = simulate_family(events_of(family.coalescing), kinds, some, launched)
            found |= dict(zip(members, made, strict=True))
    return found


def simulate_family(
    chunks: Iterable[Events], kinds: NDArray[np.uint8], runs: Sequence[CacheRun], launched: int = 0
) -> list[MissProfile]:
    """The results of `simulate_caches` for the runs of one family, bit for bit."""
    from . import _family_kernels

    ways = np.unique([run.config.llc_ways for run in runs])
    config = runs[0].config._replace(llc_ways=int(ways[-1]))
    l1_tags, l1_states, tags, _ = empty_caches(config)
    records = np.arange(len(tags))
    states = np.zeros((len(tags), len(ways)), dtype=np.int64)
    dirty = np.zeros(len(tags), dtype=np.bool_)
    counters = np.zeros((len(ways), len(kinds)), dtype=COUNTERS)
    bank_load = np.zeros(config.llc_banks, dtype=np.int64)
    channels = np.zeros((config.llc_banks, len(ways)), dtype=np.int64)
    family = _family_kernels.Family(
        l1_tags, l1_states, ways, tags, records, states, dirty, config, counters, bank_load, channels
    )
    for chunk in chunks:
        lines = placed_lines(chunk, config)
        part, _ = runs[0].filled_by(chunk.blocks, launched)
        family = family._replace(config=config._replace(sms=part.config.sms))
        _family_kernels.simulate_family(
            chunk.block_start, chunk.event_start, chunk.event_static, chunk.line_start, kinds, lines, family
        )
        del chunk, lines  # the next ones take their room
    l1_dirty = written_sectors(l1_states, config.sectors) if config.l1_write_back else 0
    made = {}
    place_in_stack = np.arange(len(tags)) % config.llc_ways
    for index, count in enumerate(ways.tolist()):
        held = states[records[place_in_stack < count], index]
        made[count] = MissProfile(
            table_of(counters[index].copy()),
            kinds,
            runs[0].transfer_bytes,
            written_sectors(held, config.sectors) if config.llc_write_back else 0,
            runs[0].order,
            0.0,
            l1_dirty,
            unevenness(bank_load),
            unevenness(channels[:, index]),
            table_of(np.zeros(len(kinds), dtype=ARRIVALS)),
        )
    return [made[run.config.llc_ways] for run in runs]
