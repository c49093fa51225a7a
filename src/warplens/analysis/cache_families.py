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

import numpy as np
from numpy.typing import NDArray

from ..machine import Gpu
from .caches import (
    MissProfile,
    cache_parameters,
    empty_caches,
    order_window,
    placed_lines,
    unevenness,
    written_sectors,
)
from .events import Events

#: Machines from which on one pass is faster than one each.
FEWEST = 6


def family_of(gpu: Gpu, blocks_per_sm: int, order: str) -> tuple[int, ...] | None:
    """Equal for machines that one pass is exact for; None where it is for no other machine."""
    from . import _cache_kernels as _kernels

    if order == "progress":
        return None
    parameters = cache_parameters(gpu, blocks_per_sm, order_window(order), "the cache simulation")
    allocates, holds = parameters[_kernels.P_LLC_ALLOCATE], parameters[_kernels.P_LLC_SETS]
    if not allocates or not holds or parameters[_kernels.P_FETCH] > 1:
        return None
    parameters[_kernels.P_LLC_WAYS] = 0
    return tuple(parameters.tolist())


def simulate_families(
    events_of: Callable[[Gpu], Sequence[Events]],
    kinds: NDArray[np.uint8],
    gpus: Sequence[Gpu],
    blocks_per_sm: Sequence[int],
    *,
    order: str,
) -> dict[int, MissProfile]:
    """By index, the profiles of machines of families that are large enough; the rest is to be simulated."""
    families: dict[tuple[int, ...], list[int]] = {}
    for index, (gpu, blocks) in enumerate(zip(gpus, blocks_per_sm, strict=True)):
        family = family_of(gpu, blocks, order)
        if family is not None:
            families.setdefault(family, []).append(index)
    found: dict[int, MissProfile] = {}
    for members in families.values():
        if len(members) >= FEWEST:
            some = [gpus[index] for index in members]
            made = simulate_family(events_of(some[0]), kinds, some, blocks_per_sm[members[0]], order=order)
            found |= dict(zip(members, made, strict=True))
    return found


def simulate_family(
    chunks: Iterable[Events],
    kinds: NDArray[np.uint8],
    gpus: Sequence[Gpu],
    blocks_per_sm: int,
    *,
    order: str,
    needed_by: str = "the cache simulation",
) -> list[MissProfile]:
    """What `simulate_caches` gives for each of some machines of one family, bit for bit."""
    from . import _cache_kernels as _kernels
    from . import _family_kernels

    wanted = [int(gpu.llc.ways or 1) for gpu in gpus]
    largest = gpus[int(np.argmax(wanted))]
    ways = np.unique(wanted)
    parameters = cache_parameters(largest, blocks_per_sm, order_window(order), needed_by)
    l1_tags, l1_states, tags, _ = empty_caches(parameters)
    records = np.arange(len(tags))
    states = np.zeros((len(tags), len(ways)), dtype=np.int64)
    dirty = np.zeros(len(tags), dtype=np.bool_)
    counters = np.zeros((len(ways), len(kinds), _kernels.COUNTERS), dtype=np.int64)
    bank_load = np.zeros(int(parameters[_kernels.P_LLC_BANKS]), dtype=np.int64)
    channels = np.zeros((len(bank_load), len(ways)), dtype=np.int64)
    family = _family_kernels.Family(
        l1_tags, l1_states, ways, tags, records, states, dirty, parameters, counters, bank_load, channels
    )
    for chunk in chunks:
        lines = placed_lines(chunk, parameters)
        _family_kernels.simulate_family(
            chunk.block_start, chunk.event_start, chunk.event_static, chunk.line_start, kinds, lines, family
        )
    sectors = int(parameters[_kernels.P_SECTORS])
    l1_dirty = written_sectors(l1_states, sectors) if parameters[_kernels.P_L1_WRITE_BACK] else 0
    made = {}
    place_in_stack = np.arange(len(tags)) % int(parameters[_kernels.P_LLC_WAYS])
    for index, count in enumerate(ways.tolist()):
        held = states[records[place_in_stack < count], index]
        left = written_sectors(held, sectors) if parameters[_kernels.P_LLC_WRITE_BACK] else 0
        made[count] = MissProfile(
            counters[index].copy(),
            kinds,
            int(largest.transfer_bytes),
            left,
            order,
            0.0,
            l1_dirty,
            unevenness(bank_load),
            unevenness(channels[:, index]),
            np.zeros((len(kinds), _kernels.ARRIVALS)),
        )
    return [made[count] for count in wanted]
