"""Cache simulations of machines whose last-level caches differ in their ways alone: one pass for all of them.

The lines that an LRU cache of w ways holds of a set are the first w of the
set's LRU stack, so one pass over the accesses is exact for every number of
ways, as long as the accesses are the same and every one of them brings its line
to the front. That is so where

- the order of the warps does not depend on what hits: round-robin and oldest-N,
  and not `progress`, which lets a warp that missed fall back;
- what reaches the LLC does not depend on the LLC: no cache here takes lines out
  of another, so all that matters is that the L1 is the same;
- stores take room in the LLC: a store that only touches a line which is there
  orders the stacks of small and large caches differently.

A cache that is larger by more sets has other stacks, and is another family.
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

#: Runs from which on one pass is faster than one each.
FEWEST = 6


def family_of(run: CacheRun) -> CacheRun | None:
    """Equal for runs that one pass is exact for; None where it is for no other run."""
    config = run.config
    if run.order == "progress" or not config.llc_allocate or not config.llc_sets or config.fetch_sectors > 1:
        return None
    return replace(run, config=config._replace(llc_ways=0))


def simulate_families(
    events_of: Callable[[Coalescing], Sequence[Events]], kinds: NDArray[np.uint8], runs: Sequence[CacheRun]
) -> dict[int, MissProfile]:
    """By index, the profiles of runs whose families are large enough; the rest is to be simulated."""
    families: dict[CacheRun, list[int]] = {}
    for index, run in enumerate(runs):
        family = family_of(run)
        if family is not None:
            families.setdefault(family, []).append(index)
    found: dict[int, MissProfile] = {}
    for family, members in families.items():
        if len(members) >= FEWEST:
            made = simulate_family(events_of(family.coalescing), kinds, [runs[index] for index in members])
            found |= dict(zip(members, made, strict=True))
    return found


def simulate_family(
    chunks: Iterable[Events], kinds: NDArray[np.uint8], runs: Sequence[CacheRun]
) -> list[MissProfile]:
    """What `simulate_caches` gives for each of some runs of one family, bit for bit."""
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
        _family_kernels.simulate_family(
            chunk.block_start, chunk.event_start, chunk.event_static, chunk.line_start, kinds, lines, family
        )
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
