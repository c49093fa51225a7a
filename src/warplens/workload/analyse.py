"""From a workload and a machine to facts: the step between inputs and models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..analysis import IntervalProfile, ProfileBatch, batch_of_profiles, intervals_of_graph
from ..machine import INSTRUCTION_CLASSES, Gpu
from .facts import NOTHING_MORE, Facts, Needs, batch_shape
from .launch import adapted, resident
from .workload import Workload


def analyse(workload: Workload, gpu: Gpu, needs: Needs = NOTHING_MORE, needed_by: str = "the analysis") -> Facts:
    """Work out what models need to know of a workload on a machine or a batch of machines.

    Only what `needs` asks for is worked out. Errors about missing machine
    parameters name `needed_by`.
    """
    if needs.view:
        workload.require(needs.view, needed_by)
    gpu = adapted(gpu, workload.launch)
    if workload.trace is not None:
        from .traced import analyse_trace

        return analyse_trace(workload, gpu, needs, needed_by)
    if workload.counted is not None:
        from .static import analyse_counts

        return analyse_counts(workload, gpu, needed_by)
    return _analyse_numbers(workload, gpu, needs, needed_by)


def _analyse_numbers(workload: Workload, gpu: Gpu, needs: Needs, needed_by: str) -> Facts:
    """Facts of a workload written by hand: its views, or those derived from its dependence graph."""
    facts = Facts(workload, gpu, batch_shape(workload.launch, gpu), resident(workload.launch, gpu))
    views: dict[str, Any] = {}
    graph = workload.graph
    if needs.view == "instruction_mix":
        if workload.mix is not None:
            views[needs.view] = workload.mix
        elif graph is not None:
            views[needs.view] = graph.instruction_mix(lambda name: gpu.timing(name, needed_by).latency_cycles)
    elif needs.view == "work_flow_graph":
        views[needs.view] = workload.flow if workload.flow is not None or graph is None else graph.work_flow_graph
    elif needs.view == "dependence_graph":
        views[needs.view] = graph
    elif needs.view == "interval_profile" and not (needs.events and workload.profile is None):
        views[needs.view] = GivenIntervals(tuple(_intervals(workload, gpu, facts.size, needs, needed_by)))
    return replace(facts, views=views)


@dataclass(frozen=True, eq=False)
class GivenIntervals:
    """Interval profiles of groups of machines."""

    groups: tuple[tuple[Any, IntervalProfile], ...]

    def batches(self, size: int) -> Iterator[tuple[Any, ProfileBatch]]:
        yield slice(None), batch_of_profiles(self.groups, size)

    def one_by_one(self) -> Iterator[tuple[Any, IntervalProfile]]:
        return iter(self.groups)


def _intervals(
    workload: Workload, gpu: Gpu, size: int, needs: Needs, needed_by: str
) -> Iterator[tuple[Any, IntervalProfile]]:
    """(rows of the batch, their profile): one pair where the profile was given.

    A profile derived from the dependence graph depends on latencies and the
    issue rate, so machines that differ in those get a profile of their own.
    """
    if workload.profile is not None:
        yield slice(None), workload.profile
        return
    assert workload.graph is not None
    names = sorted({item.instruction_class for item in workload.graph.instructions})
    columns = [gpu.timing(name, needed_by).latency_cycles for name in names] + [gpu.issue_rate]
    for index, name in enumerate(names):
        if not needs.compute_latency and INSTRUCTION_CLASSES[name].kind != "memory":
            columns[index] = 0.0
    table = np.stack([np.broadcast_to(np.asarray(c, dtype=np.float64), size) for c in columns], axis=1)
    distinct, inverse = np.unique(table, axis=0, return_inverse=True)
    for index, row in enumerate(distinct):
        latencies = dict(zip(names, row, strict=False))
        profile = intervals_of_graph(workload.graph, latencies.__getitem__, issue_rate=row[-1], min_gap=needs.min_gap)
        yield np.flatnonzero(inverse.ravel() == index), profile
