"""Lower bounds on the cycles of each kernel by part of the machine, to see what bounds the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warplens.analysis import MissProfile, collect_events
from warplens.analysis import _cache_records as memory
from warplens.machine import Gpu
from warplens.workload import Needs, Workload, analyse, resident
from warplens.workload.traced import cache_misses

#: Parts of the machine, with the attribute of `Bounds` that holds their cycles.
PARTS = {"issue": "issue", "L1 port": "l1_port", "NoC": "noc", "DRAM": "dram", "latency": "latency"}


@dataclass(frozen=True)
class Bounds:
    """Fewest cycles that each part of the machine alone needs for a launch, and the reference's cycles.

    `issue`: warp instructions at the issue rate. `l1_port`: lines at one a
    cycle. `noc`: lines of read replies. `dram`: lines read, and written back
    before the end. `latency`: one warp alone, times the number of waves. Two more
    numbers show uneven L2 banks: `busiest_bank` is the busiest bank's line accesses
    over the mean; `in_step` is not a bound, but the cycles of the bank ports if all
    warps made their n-th load at the same time. `estimate` is the end of the last
    access in the estimate behind the default order, which models latencies,
    barriers, MSHRs, L1 ways and bank ports.
    """

    kernel: str
    reference_cycles: float
    issue: float
    l1_port: float
    noc: float
    dram: float
    latency: float
    busiest_bank: float
    in_step: float
    estimate: float
    dram_lines_read: float
    dram_lines_written: float
    dirty_lines_left: float

    @property
    def largest(self) -> str:
        """The part that needs the most cycles."""
        return max(PARTS, key=lambda part: getattr(self, PARTS[part]))

    @property
    def share(self) -> float:
        """The largest bound over the reference's cycles."""
        return float(getattr(self, PARTS[self.largest]) / self.reference_cycles)

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "largest": self.largest, "share": self.share}


def bounds_of(kernel: str, workload: Workload, gpu: Gpu, reference_cycles: float) -> Bounds:
    """The bounds of a traced launch on one machine."""
    needed_by = "the bounds"
    trace = workload.trace
    assert trace is not None
    found = cache_misses(workload, gpu, needed_by)
    residency = resident(workload.launch, gpu)
    sms = float(residency.active_sms)
    reads = np.isin(found.kinds, (memory.LOAD, memory.ATOMIC))
    replies = float((found.misses_per_execution * found.executed)[reads].sum())
    lines = float((found.per_execution("lines") * found.executed).sum())
    _, profile = next(iter(analyse(workload, gpu, Needs("interval_profile"), needed_by).intervals))
    alone = profile.total_instructions / gpu.issue_rate + profile.column("stall_cycles").sum()
    traffic = (found.dram_read_bytes + found.dram_write_bytes) / gpu.transfer_bytes
    busiest, in_step = _banks(workload, gpu, found, needed_by)
    return Bounds(
        kernel=kernel,
        reference_cycles=reference_cycles,
        issue=sum(group.instructions for group in trace.groups()) / float(gpu.issue_rate) / sms,
        l1_port=lines / sms,
        noc=replies * float(gpu.service_cycles_now("noc", needed_by)),
        dram=traffic * float(gpu.service_cycles_now("dram", needed_by)),
        latency=float(alone * residency.runs),
        busiest_bank=busiest,
        in_step=in_step,
        estimate=found.estimated_cycles,
        dram_lines_read=found.dram_read_bytes / gpu.transfer_bytes,
        dram_lines_written=found.dram_write_bytes / gpu.transfer_bytes,
        dirty_lines_left=float(found.dirty_left),
    )


def _banks(workload: Workload, gpu: Gpu, found: MissProfile, needed_by: str) -> tuple[float, float]:
    """(Accesses of the busiest bank over the mean, cycles of the bank ports if loads were in step)."""
    assert workload.trace is not None
    banks = int(gpu.with_defaults.llc.banks)
    line_bytes = int(gpu.require("l1.line_bytes", needed_by))
    accesses = np.zeros(banks)
    steps = np.zeros((0, banks))
    leaving = found.misses_per_execution / np.maximum(found.per_execution("lines"), 1e-300)
    for chunk in collect_events(workload.trace, line_bytes, lambda _: 0.0):
        bank = chunk.line_id % banks
        accesses += np.bincount(bank, minlength=banks)
        load = found.kinds[chunk.event_static] == memory.LOAD
        before = np.concatenate(([0], np.cumsum(load)))
        turn = before[:-1] - np.repeat(before[chunk.event_start[:-1]], np.diff(chunk.event_start))
        lines = np.diff(chunk.line_start)
        chosen = np.repeat(load, lines)
        places = (np.repeat(turn, lines) * banks + bank)[chosen]
        weights = np.repeat(leaving[chunk.event_static], lines)[chosen]
        counts = np.asarray(np.bincount(places, weights, minlength=steps.size), dtype=np.float64)
        here = np.pad(counts, (0, -counts.size % banks)).reshape(-1, banks)
        here[: len(steps)] += steps
        steps = here
    port = float(gpu.service_cycles_now("noc", needed_by)) * banks
    mean = accesses.mean()
    return (float(accesses.max() / mean) if mean else 1.0), float(steps.max(axis=1, initial=0.0).sum() * port)
