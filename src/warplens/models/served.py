"""Which level of the memory serves each sampled access, and what it waits for there."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analysis import MissProfile
from ..analysis.block_samples import BlockSample
from . import _network_records as k

#: Fraction of the golden ratio: its first n multiples, modulo 1, spread evenly for every n.
_GOLDEN = 0.6180339887498949


def spread(groups: Any) -> Any:
    """One point of the unit interval per entry; the points of a group spread evenly."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - first
    return ((rank + 0.5) * _GOLDEN) % 1.0


def draw_levels(sample: BlockSample, misses: MissProfile, *, arrivals: bool = True) -> tuple[Any, Any]:
    """(Level that serves each event, remaining fraction of the miss latency if its data is in flight).

    The executions of an instruction spread over the levels in the ratios that the cache simulation found.
    """

    static = sample.static
    levels = misses.levels
    mine = levels[static]
    point = spread(static)
    level = np.where(point < mine[:, 2], k.DRAM, np.where(point < mine[:, 2] + mine[:, 1], k.LLC, k.L1))
    left = np.zeros(len(static))
    if arrivals:
        for of, name, becomes in ((k.L1, "l1", k.COMING), (k.LLC, "llc", k.LLC)):
            found = misses.arrival(name)
            part = found / np.maximum(levels[:, of] * misses.executed, 1.0)
            mean = misses.arrival(f"{name}_left") / np.maximum(found, 1.0)
            here = np.flatnonzero(level == of)
            coming = here[spread(static[here]) < part[static[here]]]
            level[coming] = becomes
            left[coming] = mean[static[coming]]
    return level.astype(np.int64), left


def from_dram(misses: MissProfile) -> Any:
    """The part of the misses of each instruction that DRAM serves, or that wait for what is on its way from there."""
    found = misses.levels[:, 1:] * misses.executed[:, None]
    found[misses.kinds != k.LOAD] = 0.0
    dram = np.minimum(found[:, 1] + misses.arrival("llc_left"), found.sum(axis=1))
    mean = dram.sum() / max(found.sum(), 1e-300)
    return np.where(found.sum(axis=1) > 0.0, dram / np.maximum(found.sum(axis=1), 1e-300), mean)


def crossed(misses: MissProfile) -> Any:
    """Of the executions of each instruction that find their data in the LLC, the share that reaches another part."""
    waits = misses.column("worst_llc") - misses.arrival("llc")
    return np.minimum(misses.arrival("crossed") / np.maximum(waits, 1.0), 1.0)


def crowds_of(misses: MissProfile) -> Any:
    """Requests queued ahead of a miss at its L2 bank and DRAM channel, beyond the mean, per instruction."""
    sent = misses.misses_per_execution * misses.executed, misses.per_execution("dram_reads") * misses.executed
    ahead = misses.arrival("bank_ahead"), misses.arrival("channel_ahead")
    return np.maximum(np.stack(ahead) / np.maximum(np.stack(sent), 1.0), 0.0)


def undrawn(misses: MissProfile, drawn: Any) -> Any:
    """What instructions that the sample lacks add to those of their kind that it has."""
    size = int(misses.kinds.max(initial=0)) + 1
    of_kind = np.bincount(misses.kinds, misses.executed, size)
    here = np.bincount(misses.kinds[drawn], misses.executed[drawn], size)
    return (of_kind / np.maximum(here, 1e-300))[misses.kinds]
