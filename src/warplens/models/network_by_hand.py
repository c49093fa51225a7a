"""The demand of a warp written by hand, as a dependence graph or as intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..analysis import DependenceGraph, IntervalProfile
from ..machine import INSTRUCTION_CLASSES
from . import _network_records as k
from .base import Case
from .network import FLIT_BYTES, Demand


def demands_by_hand(case: Case) -> Iterator[tuple[Any, Demand]]:
    """(Rows of the batch, their demand), from the interval profile or else from the dependence graph."""
    workload = case.workload
    if workload.profile is None and workload.graph is not None:
        names = sorted({item.instruction_class for item in workload.graph.instructions})
        timings = [case.timing(name) for name in names]
        times = [case.array(value) for timing in timings for value in (timing.latency_cycles, timing.interval_cycles)]
        for rows in _alike(np.stack(times, axis=1)):
            latency = {name: float(times[2 * i][rows[0]]) for i, name in enumerate(names)}
            yield rows, _of_graph(workload.graph, latency, case, rows[0])
        return
    for rows, profile in case.facts.intervals:
        yield np.arange(case.size)[rows], _of_profile(profile, case)


def _alike(table: Any) -> Iterator[Any]:
    """Group the rows with equal values."""
    _, inverse = np.unique(table, axis=0, return_inverse=True)
    for group in range(int(inverse.max()) + 1):
        yield np.flatnonzero(inverse.ravel() == group)


class _Warp:
    """Collects the events of one warp."""

    def __init__(self, case: Case) -> None:
        line = case.gpu.l1.line_bytes
        self.flits = 1.0 if line is None else float(np.max(case.gpu.transfer_bytes)) / FLIT_BYTES
        self.events: list[dict[str, float]] = []

    def add(self, kind: int, issued: float, gap: float, needs: int = -1, tail: float = 0.0) -> dict[str, float]:
        self.events.append(
            {"kind": kind, "issue": issued, "gap": gap, "needs": needs, "tail": tail, "level": k.GIVEN, "weight": 1.0}
        )
        return self.events[-1]

    def send(self, event: dict[str, float], requests: float, to_dram: float, latency: float) -> None:
        """Let an event send requests of one transfer each; its result takes `latency` cycles."""
        load = event["kind"] != k.STORE
        event |= {
            "port": max(requests, 1.0),
            "misses": requests,
            "places": requests,
            "requests": requests,
            "flits_out": requests if load else requests * max(self.flits, 2.0),
            "flits_in": requests * self.flits if load else requests,
            "dram_reads" if load else "dram_writes": requests * to_dram,
            "left": latency,
        }

    def demand(self, units: Any, instructions: float) -> Demand:
        names = k.EVENT.names or ()
        events = np.array([tuple(event.get(name, 0.0) for name in names) for event in self.events], k.EVENT)
        stream = k.Stream(
            block_start=np.array([0, 1]),
            event_start=np.array([0, len(events)]),
            events=events,
            units=units,
            order=np.zeros(1, dtype=np.int64),
            traffic=np.ones(1),
            divided=np.ones(units.shape[1], dtype=bool),
            slower=np.ones(units.shape[1], dtype=bool),
        )
        return Demand(stream, instructions)


def _of_profile(profile: IntervalProfile, case: Case) -> Demand:
    """One load or store for each interval that sends requests; the interval's stall is the load's latency."""
    warp = _Warp(case)
    gap, issued, needed = 0.0, 0.0, -1
    for instructions, stall, _, reads, writes, to_dram in profile.matrix.tolist():
        issued += instructions
        gap += instructions
        for kind, requests in ((k.STORE, writes), (k.LOAD, reads)):
            if requests > 0.0:
                event = warp.add(kind, issued, gap, needed, gap)
                warp.send(event, requests, to_dram, stall if kind == k.LOAD else 0.0)
                gap, issued, needed = 0.0, 0.0, -1
        if reads > 0.0 and stall > 0.0:
            needed = len(warp.events) - 1
        else:
            gap += stall
    warp.add(k.END, issued, gap, needed, gap)
    return warp.demand(np.zeros((len(warp.events), 1)), profile.total_instructions)


def _of_graph(graph: DependenceGraph, latency: Mapping[str, float], case: Case, machine: int) -> Demand:
    """Memory instructions go to DRAM because their addresses are unknown; the others hold their units."""
    warp = _Warp(case)
    bandwidth = case.gpu.dram.bandwidth_bytes_per_s is not None
    ready: list[float] = []
    loads: dict[int, int] = {}
    held: list[dict[str, float]] = [{}]
    time = previous = tail_from = 0.0
    issued, needed = 0, -1
    for position, item in enumerate(graph.instructions):
        name = item.instruction_class
        kind = INSTRUCTION_CLASSES[name].kind
        issue = max([time, *(ready[source] for source in item.depends)])
        for source in item.depends:
            if loads.get(source, -1) > needed:
                needed, tail_from = loads[source], issue
        time = issue + 1.0
        issued += 1
        ready.append(0.0 if kind in ("memory", "barrier") else issue + latency[name])  # the network opens barriers
        if kind != "memory" or not bandwidth:  # with a bandwidth, the requests take the time of memory instructions
            timing = case.timing(name)
            busy = float(case.array(timing.interval_cycles)[machine])
            held[-1][timing.subsystem] = held[-1].get(timing.subsystem, 0.0) + busy
        if kind not in ("memory", "barrier"):
            continue
        what = k.BARRIER if kind == "barrier" else k.STORE if name.startswith("store_") else k.LOAD
        event = warp.add(what, issued, issue - previous, needed, issue - tail_from)
        if kind == "memory":
            warp.send(event, 1.0, 1.0, latency[name] if what == k.LOAD else 0.0)
            if what == k.LOAD:
                loads[position] = len(warp.events) - 1
        previous, issued = issue, 0
        held.append({})
    last = warp.add(k.END, issued, time - previous, needed, time - tail_from)
    last["left"] = max([0.0, *(each - time for each in ready)])  # the warp ends when its last result arrives
    units = sorted({unit for each in held for unit in each})
    table = (
        np.array([[each.get(unit, 0.0) for unit in units] for each in held]) if units else np.zeros((len(held), 1))
    )
    return warp.demand(table, float(len(graph.instructions)))
