"""Thread blocks that stand for all of a launch: what their warps ask of an SM, from one memory access to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory import collect_events_of, compute_latencies, instruction_kinds
from ..memory.banks import conflict_degrees, shared_accesses
from ..trace import CLASS_NAMES, LaunchTrace, WarpGroup

#: An event that is no access and no barrier: the warp's last instruction.
END = 5
#: Thread blocks and their warps that are looked at, at most.
MOST_BLOCKS, MOST_WARPS = 24, 256
#: Events of a warp that are kept. Of a longer warp, parts from its beginning, middle and end stand for the rest.
MOST_EVENTS, PARTS = 48, 3


@dataclass(frozen=True, eq=False)
class BlockSample:
    """Events (accesses, barriers and ends) of the warps of some thread blocks, as flat columns.

    Warps of block b are `block_start[b]` to `block_start[b + 1]`, events of warp
    w `event_start[w]` to `event_start[w + 1]`. `gap`, `dependence` (within the
    warp) and `tail` are as the coalescer gives them, `instructions`, `counts`
    (by class) and `shared_cycles` those since the event before. An event with
    weight n stands for n like it.
    """

    block_start: NDArray[np.int64]
    event_start: NDArray[np.int64]
    static: NDArray[np.int64]
    kind: NDArray[np.int64]
    dependence: NDArray[np.int64]
    instructions: NDArray[np.float64]
    gap: NDArray[np.float64]
    tail: NDArray[np.float64]
    lines: NDArray[np.float64]
    line_start: NDArray[np.int64]
    line_id: NDArray[np.int64]
    access_bytes: NDArray[np.float64]
    shared_cycles: NDArray[np.float64]
    counts: NDArray[np.float64]
    weight: NDArray[np.float64]
    classes: tuple[str, ...]

    @property
    def blocks(self) -> int:
        return len(self.block_start) - 1

    def sets(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(The L1 set, of `count`, in which most lines of each event lie; how many of them do)."""
        found = np.zeros(len(self.static), dtype=np.int64)
        most = np.zeros(len(self.static))
        event = np.repeat(np.arange(len(self.static)), np.diff(self.line_start))
        pairs, sizes = np.unique(event * count + self.line_id % count, return_counts=True)
        order = np.argsort(sizes, kind="stable")  # of equals the last one stays
        found[pairs[order] // count] = pairs[order] % count
        most[pairs[order] // count] = sizes[order]
        return found, most


def sample_blocks(
    trace: LaunchTrace, recorded: int, line_bytes: int, latency_of_class: Callable[[str], float]
) -> BlockSample:
    """Blocks at even distances among the recorded ones."""
    group = _chosen_blocks(trace, recorded)
    static = trace.static
    kinds = instruction_kinds(static)
    ends = group.static[group.start[1:] - 1][np.diff(group.start) > 0]
    ends = np.unique(ends)
    kinds[ends[kinds[ends] == 0]] = END
    offsets, degrees = conflict_degrees(group, static)
    shared = np.flatnonzero(shared_accesses(static)[group.static])
    latencies = compute_latencies(static, latency_of_class)
    executions = np.maximum(np.bincount(group.static[shared], minlength=len(static)), 1)
    conflicts = np.bincount(group.static[shared], degrees, len(static)) / executions
    latencies += np.maximum(conflicts - 1.0, 0.0)  # the last of the words that banks give one after the other
    events = collect_events_of(group, static, kinds, latencies, line_bytes)
    at = _instruction_of_event(group, events)
    before = np.concatenate(([-1], at[:-1]))
    before[events.event_start[:-1][np.diff(events.event_start) > 0]] = -1  # set below to the warp's begin
    first = np.repeat(group.start[:-1], np.diff(events.event_start))
    begin = np.maximum(before + 1, first)

    def since(values: Any) -> Any:
        sums = np.concatenate(([0.0], np.cumsum(values)))
        return sums[at + 1] - sums[begin]

    held = np.zeros(len(group.static))
    held[shared] = degrees
    classes = np.unique(static.class_id[group.static])
    executed = static.class_id[group.static]
    lanes = np.unpackbits(group.mask[at].view(np.uint8).reshape(-1, 4), axis=1).sum(axis=1)
    sample = BlockSample(
        block_start=events.block_start,
        event_start=events.event_start,
        static=events.event_static.astype(np.int64),
        kind=kinds[events.event_static].astype(np.int64),
        dependence=events.event_dependence,
        instructions=events.event_instructions.astype(np.float64),
        gap=events.event_gap.astype(np.float64),
        tail=events.event_tail.astype(np.float64),
        lines=np.diff(events.line_start).astype(np.float64),
        line_start=events.line_start,
        line_id=events.line_id,
        access_bytes=lanes * static.access_bytes[events.event_static].astype(np.float64),
        shared_cycles=since(held),
        counts=np.stack([since(executed == index) for index in classes], axis=1),
        weight=np.ones(len(events.event_static)),
        classes=tuple(CLASS_NAMES[index] for index in classes),
    )
    return _shortened(sample)


def _chosen_blocks(trace: LaunchTrace, recorded: int) -> WarpGroup:
    """Some of the recorded blocks as a group of their own."""
    per_block = max(1, -(-trace.header.threads_per_block // 32))
    count = int(np.clip(MOST_WARPS // per_block, 1, min(MOST_BLOCKS, recorded)))
    wanted = np.unique(((np.arange(count) + 0.5) * recorded / count).astype(np.int64))
    parts: list[WarpGroup] = []
    seen = 0
    for group in trace.groups():
        if not len(group):
            continue
        begins = np.concatenate(([0], np.flatnonzero(np.diff(group.block)) + 1, [len(group)]))
        here = wanted[(wanted >= seen) & (wanted < seen + len(begins) - 1)] - seen
        parts += [_warps(group, int(begins[b]), int(begins[b + 1])) for b in here]
        seen += len(begins) - 1
    return _joined(parts)


def _warps(group: WarpGroup, first: int, last: int) -> WarpGroup:
    def part(offsets: Any, *columns: Any) -> Iterator[Any]:
        yield offsets[first : last + 1] - offsets[first]
        yield from (column[offsets[first] : offsets[last]] for column in columns)

    start, static, mask = part(group.start, group.static, group.mask)
    access_start, base, stride = part(group.access_start, group.base, group.stride)
    lane_start, lanes = part(group.lane_start, group.lanes)
    return WarpGroup(
        group.block[first:last], group.warp[first:last], start, static, mask, access_start, base, stride, lane_start, lanes
    )


def _joined(parts: list[WarpGroup]) -> WarpGroup:
    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    def offsets(name: str, values: str) -> Any:
        bases = np.cumsum([0, *(len(getattr(part, values)) for part in parts)])
        moved = [getattr(part, name)[:-1] + base for part, base in zip(parts, bases, strict=False)]
        return np.concatenate([*moved, bases[-1:]])

    return WarpGroup(
        joined("block"),
        joined("warp"),
        offsets("start", "static"),
        joined("static"),
        joined("mask"),
        offsets("access_start", "base"),
        joined("base"),
        joined("stride"),
        offsets("lane_start", "lanes"),
        joined("lanes"),
    )


def _instruction_of_event(group: WarpGroup, events: Any) -> Any:
    """Place of each event among the group's instructions."""
    per_warp = np.diff(events.event_start)
    sums = np.concatenate(([0], np.cumsum(events.event_instructions)))
    first = np.repeat(sums[events.event_start[:-1]], per_warp)
    return np.repeat(group.start[:-1], per_warp) + sums[1:] - first - 1


def _shortened(sample: BlockSample) -> BlockSample:
    """Of warps with many events, parts that stand for the rest; the work of a warp stays what it is."""
    starts, counts = sample.event_start, np.diff(sample.event_start)
    if counts.max(initial=0) <= MOST_EVENTS:
        return sample
    keep = MOST_EVENTS // PARTS
    chosen, weights, dependences, new_counts = [], [], [], []
    for start, count in zip(starts[:-1].tolist(), counts.tolist(), strict=True):
        if count <= MOST_EVENTS:
            chosen.append(np.arange(start, start + count))
            weights.append(np.ones(count))
            dependences.append(sample.dependence[start : start + count])
            new_counts.append(count)
            continue
        edges = np.linspace(0, count, PARTS + 1).astype(np.int64)
        kept = []
        for part, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
            first = end - keep if part == PARTS - 1 else begin
            kept.append(np.arange(first, first + keep))
            weights.append(np.full(keep, (end - begin) / keep))
        indices = np.concatenate(kept)
        chosen.append(start + indices)
        # What an event waits for lies as far before it as in the whole.
        needed = sample.dependence[start + indices]
        place = np.arange(len(indices)) - (indices - needed)
        dependences.append(np.where(needed >= 0, np.maximum(place, -1), -1))
        new_counts.append(len(indices))
    index = np.concatenate(chosen)
    held = [sample.line_id[sample.line_start[i] : sample.line_start[i + 1]] for i in index.tolist()]
    per_event = ("static", "kind", "instructions", "gap", "tail", "lines", "access_bytes", "shared_cycles", "counts")
    return dataclasses.replace(
        sample,
        event_start=np.concatenate(([0], np.cumsum(new_counts))).astype(np.int64),
        dependence=np.concatenate(dependences),
        weight=np.concatenate(weights),
        line_start=np.cumsum([0, *map(len, held)]),
        line_id=np.concatenate(held) if held else sample.line_id[:0],
        **{name: getattr(sample, name)[index] for name in per_event},
    )
