"""Sampled blocks whose long warps are cut down to parts that stand for the rest."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .block_samples import BlockSample
from .mbarriers import NOTHING_AWAITED

#: A warp with too many events keeps this many parts, from its beginning, middle and end.
PARTS = 3
#: Most events of a warp that is kept whole because others wait for it.
MOST_AWAITED = 1 << 14


def _weights(sample: BlockSample, chosen: Any, part: Any, begin: Any, end: Any) -> Any:
    """Number of events in its part of the warp that each kept event stands for.

    A kept event stands for the events of the same static instruction, so that a
    one-off access does not stand for one that a loop repeats. Events of
    instructions that were not kept are spread over kept ones of the same kind.
    """
    counts = end - begin
    of_part = np.repeat(np.arange(len(begin)), counts)
    every = np.arange(len(of_part)) + np.repeat(begin - (np.cumsum(counts) - counts), counts)

    def share(values: Any, kept_weight: Any) -> Any:
        """Per kept event: events of its part with the same value, over the weight of the kept ones."""
        size = int(values.max()) + 1
        whole, mine = of_part * size + values[every], part * size + values[chosen]
        names, inverse = np.unique(mine, return_inverse=True)
        place = np.minimum(np.searchsorted(names, whole), len(names) - 1)
        executed = np.bincount(place[names[place] == whole], minlength=len(names))
        return (executed / np.bincount(inverse, kept_weight))[inverse]

    weight = share(sample.static, np.ones(len(chosen)))
    return weight * share(sample.kind, weight)


def _tails(tail: Any, gap: Any, weight: Any, dependence: Any, event_start: Any) -> Any:
    """Cycles from the result that each kept event needs: no more than what the warp computes between the two.

    Where a loop is cut short, an event stands for several turns, and so does its tail. Events behind one long
    computation each have it in their tail, but it happens once.
    """
    first = np.repeat(event_start[:-1], np.diff(event_start))
    sums = np.concatenate(([0.0], np.cumsum(gap * weight)))
    between = sums[1:] - sums[first + dependence + 1]
    return np.where(dependence >= 0, np.minimum(tail, np.maximum(between, 0.0) / weight), tail)


#: Columns whose sum over a part is preserved: its kept events share it.
_SUMMED = ("instructions", "gap", "shared_cycles", "counts")
_COPIED = ("static", "kind", "tail", "lines", "access_bytes", "granules", "bank_words")


def shortened(sample: BlockSample, most_events: int) -> BlockSample:
    """Keep at most `most_events` per warp; parts stand for the rest, and the work of the warp stays the same.

    Warps that wait for one another at mbarriers stay whole: few of them have many events. Parts of longer ones wait
    for nobody.
    """
    starts, counts = sample.event_start, np.diff(sample.event_start)
    if counts.max(initial=0) <= (MOST_AWAITED if len(sample.awaited.pairs) else most_events):
        return sample
    keep = most_events // PARTS
    index: list[Any] = []
    part_start: list[Any] = []
    part_end: list[Any] = []
    dependence: list[Any] = []
    new_counts = []
    for start, count in zip(starts[:-1].tolist(), counts.tolist(), strict=True):
        if count <= most_events:
            kept = np.arange(start, start + count)
            begin, end = kept, kept + 1
            needed = sample.dependence[kept]
        else:
            edges = start + np.linspace(0, count, PARTS + 1).astype(np.int64)
            firsts = [*edges[:-2], edges[-1] - keep]
            kept = np.concatenate([np.arange(first, first + keep) for first in firsts])
            begin, end = np.repeat(edges[:-1], keep), np.repeat(edges[1:], keep)
            # A kept event depends on the event the same distance before it.
            needed = sample.dependence[kept]
            place = np.arange(len(kept)) - (kept - start - needed)
            needed = np.where(needed >= 0, np.maximum(place, -1), -1)
        index.append(kept)
        part_start.append(begin)
        part_end.append(end)
        dependence.append(needed)
        new_counts.append(len(kept))
    chosen, begin, end = map(np.concatenate, (index, part_start, part_end))
    # Kept events of a part are adjacent: a part begins where the bounds change.
    new = np.ones(len(chosen), dtype=bool)
    new[1:] = (begin[1:] != begin[:-1]) | (end[1:] != end[:-1])
    part = np.cumsum(new) - 1
    kept_of_part = np.bincount(part)
    weight = _weights(sample, chosen, part, begin[new], end[new])
    changed = {name: getattr(sample, name)[chosen] for name in _COPIED}
    for name in _SUMMED:
        values = getattr(sample, name)
        columns = values.reshape(len(values), -1)
        sums = np.concatenate((np.zeros((1, columns.shape[1])), np.cumsum(columns, axis=0)))
        whole = sums[end] - sums[begin]
        held = np.stack([np.bincount(part, column) for column in columns[chosen].T], axis=1)[part]
        # Work that no kept event of the part has is spread over all of them.
        scaled = np.where(
            held > 0.0, columns[chosen] * whole / np.maximum(held, 1e-300), whole / kept_of_part[part, None]
        )
        changed[name] = (scaled / weight[:, None]).reshape(-1, *values.shape[1:])
    event_start = np.concatenate(([0], np.cumsum(new_counts))).astype(np.int64)
    needs = np.concatenate(dependence)
    changed["tail"] = _tails(changed["tail"], changed["gap"], weight, needs, event_start)
    lines = [sample.line_id[sample.line_start[i] : sample.line_start[i + 1]] for i in chosen.tolist()]
    return dataclasses.replace(
        sample,
        event_start=event_start,
        dependence=needs,
        weight=weight,
        line_start=np.cumsum([0, *map(len, lines)]),
        line_id=np.concatenate(lines) if lines else sample.line_id[:0],
        awaited=NOTHING_AWAITED,
        **changed,
    )
