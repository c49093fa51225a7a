"""The dependence graphs of a core's warps as flat arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...analysis import DependenceGraph
from ...errors import WorkloadError
from ...machine import INSTRUCTION_CLASSES

if TYPE_CHECKING:
    from ...traces import LaunchTrace

Integers = NDArray[np.int64]
#: Classes by number, as traces store them.
CLASS_NAMES = tuple(INSTRUCTION_CLASSES)
_BARRIERS = np.array([item.kind == "barrier" for item in INSTRUCTION_CLASSES.values()])


@dataclass(frozen=True, eq=False)
class WarpGraphs:
    """One or more graphs. Positions in `feeds` are relative to their graph; classes are numbered as in traces.

    The instructions `feeds[feed_start[i]:feed_start[i + 1]]` wait for instruction
    i, which waits for `waits[i]` others. `warp_graph` is the graph of each warp of
    the core, block by block; None: all warps have the first.
    """

    class_id: Integers
    feed_start: Integers
    feeds: Integers
    waits: NDArray[np.int32]
    graph_start: Integers
    warp_graph: Integers | None = None

    @property
    def classes(self) -> list[str]:
        """Names of the classes that occur."""
        return [CLASS_NAMES[number] for number in np.unique(self.class_id)]

    @property
    def longest(self) -> int:
        """Instructions of the longest graph."""
        return int(np.diff(self.graph_start).max())

    def counts(self) -> dict[str, int]:
        """Instructions of each class, all graphs together."""
        found = np.bincount(self.class_id, minlength=len(CLASS_NAMES))
        return {CLASS_NAMES[number]: int(found[number]) for number in np.flatnonzero(found)}

    def names(self, graph: int) -> list[str]:
        """Classes of the instructions of one graph."""
        part = self.class_id[self.graph_start[graph] : self.graph_start[graph + 1]]
        return [CLASS_NAMES[number] for number in part]

    def first_instructions(self, most: int) -> WarpGraphs:
        """Every graph cut after `most` instructions."""
        lengths = np.minimum(np.diff(self.graph_start), most)
        keep = np.concatenate(
            [np.arange(start, start + n) for start, n in zip(self.graph_start[:-1], lengths, strict=True)]
        )
        feeds = [self.feeds[self.feed_start[i] : self.feed_start[i + 1]] for i in keep]
        feeds = [each[each < most] for each in feeds]
        return WarpGraphs(
            class_id=self.class_id[keep],
            feed_start=_offsets([len(each) for each in feeds]),
            feeds=np.concatenate(feeds).astype(np.int64),
            waits=self.waits[keep],  # dependences point backwards, so the cut removes none
            graph_start=_offsets(lengths),
            warp_graph=self.warp_graph,
        )

    def instructions(self, pipelines: Mapping[str, int], times: Mapping[str, tuple[int, int]]) -> NDArray[Any]:
        """Kernel input: pipeline, λ, Λ (ticks) and whether it is a barrier, per instruction."""
        from ._records import INSTRUCTION

        by_class = np.zeros(len(CLASS_NAMES), INSTRUCTION)
        for name, (interval, latency) in times.items():
            row = CLASS_NAMES.index(name)
            by_class[row] = pipelines[name], interval, latency, _BARRIERS[row]
        return by_class[self.class_id]


def _offsets(counts: Any) -> Integers:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def warp_graphs_of(graphs: Sequence[DependenceGraph], warp_graph: Sequence[int] | None = None) -> WarpGraphs:
    """Graphs as arrays; `warp_graph` assigns one to each warp of a core (None: all warps have the first)."""
    if not graphs or not all(graph.instructions for graph in graphs):
        raise WorkloadError("a dependence graph has no instructions")
    class_ids: list[int] = []
    waits: list[int] = []
    sources: list[int] = []
    followers: list[int] = []
    starts = [0]
    numbers = {name: number for number, name in enumerate(CLASS_NAMES)}
    for graph in graphs:
        begin = starts[-1]
        for position, item in enumerate(graph.instructions):
            class_ids.append(numbers[item.instruction_class])
            depends = set(item.depends)
            waits.append(len(depends))
            for other in depends:
                if not 0 <= other < position:
                    raise WorkloadError(f"instruction {position} depends on {other}, which does not come before it")
                sources.append(begin + other)
                followers.append(position)
        starts.append(begin + len(graph.instructions))
    order = np.argsort(np.array(sources, dtype=np.int64), kind="stable")
    chosen = None if warp_graph is None else np.asarray(warp_graph, dtype=np.int64)
    if chosen is not None and (chosen.size == 0 or chosen.min() < 0 or chosen.max() >= len(graphs)):
        raise WorkloadError(f"a warp names a graph beyond the {len(graphs)} given")
    return WarpGraphs(
        class_id=np.array(class_ids, dtype=np.int64),
        feed_start=_offsets(np.bincount(np.array(sources, dtype=np.int64), minlength=len(class_ids))),
        feeds=np.array(followers, dtype=np.int64)[order],
        waits=np.array(waits, dtype=np.int32),
        graph_start=np.array(starts, dtype=np.int64),
        warp_graph=chosen,
    )


def warp_graphs_of_trace(trace: LaunchTrace, sms: int, most_issues: float) -> tuple[WarpGraphs, float]:
    """(graphs of the warps of the busiest SM, instructions of the SM over those in the graphs).

    Blocks go to the SMs in turn. Warps with the same instructions share a graph.
    After `most_issues` instructions, the SM's other blocks are left out.
    """
    from . import _link_kernels

    per_sm = np.zeros(sms, dtype=np.int64)
    for group in trace.groups():
        np.add.at(per_sm, group.block % sms, np.diff(group.start))
    busiest = int(np.argmax(per_sm))
    distinct: dict[bytes, int] = {}
    parts: list[NDArray[np.uint32]] = []
    warp_graph: list[int] = []
    taken = 0
    last_block = -1
    for group in trace.groups():
        for w in np.flatnonzero(group.block % sms == busiest):
            if taken > most_issues and group.block[w] != last_block:
                break
            last_block = group.block[w]
            instructions = group.static[group.start[w] : group.start[w + 1]]
            key = instructions.tobytes()
            if key not in distinct:
                distinct[key] = len(parts)
                parts.append(instructions.copy())
            warp_graph.append(distinct[key])
            taken += len(instructions)
    static = trace.static
    starts = _offsets([len(part) for part in parts])
    together = np.concatenate(parts)
    waits, sources, followers = _link_kernels.link(
        together,
        starts,
        static.destinations,
        static.destination_offsets,
        static.sources,
        static.source_offsets,
    )
    order = np.argsort(sources, kind="stable")
    return WarpGraphs(
        class_id=static.class_id[together].astype(np.int64),
        feed_start=_offsets(np.bincount(sources, minlength=len(together))),
        feeds=followers[order],
        waits=waits,
        graph_start=starts,
        warp_graph=np.array(warp_graph, dtype=np.int64),
    ), float(per_sm[busiest]) / taken
