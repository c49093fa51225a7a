"""Every static instruction of a traced launch: executions, divergence and misses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..machine import Gpu
from ..traces import SPACES, LaunchTrace, StaticTable, active_lanes
from .analyse import analyse
from .workload import Workload


@dataclass(frozen=True, eq=False)
class InstructionTable:
    """Columns with one entry per static instruction; counts are those of the recorded thread blocks.

    A hit ratio is NaN if the cache got no request.
    """

    static: StaticTable
    executions: NDArray[np.int64]
    active_lanes: NDArray[np.float64]
    """Average active threads of a warp."""
    lines: NDArray[np.float64]
    """Cache lines that one execution touches."""
    requests: NDArray[np.float64]
    """Sectors that all executions ask of the L1."""
    least_requests: NDArray[np.float64]
    """Those that hold as many bytes, where lanes lie side by side."""
    l1_hit_ratio: NDArray[np.float64]
    llc_hit_ratio: NDArray[np.float64]
    dram_bytes: NDArray[np.float64]

    @property
    def is_memory(self) -> NDArray[np.bool_]:
        """Instructions that reach the L1."""
        return np.asarray(self.requests > 0)

    @property
    def is_load(self) -> NDArray[np.bool_]:
        """Instructions that load into a register."""
        return self.is_memory & (np.diff(self.static.destination_offsets) > 0)

    def space(self, index: int) -> str:
        return SPACES[int(self.static.space[index])]


def instruction_table(workload: Workload, gpu: Gpu) -> InstructionTable:
    """What a traced launch does on a machine, instruction by instruction."""
    needed_by = "the table of instructions"
    trace = workload.require_trace("a table of instructions")
    traced = analyse(workload, gpu, needed_by=needed_by).traced
    assert traced is not None
    static, misses = trace.static, traced.misses
    executions, lanes = executions_of(workload)
    mean_lanes = lanes / np.maximum(executions, 1)
    counted = misses.executed.astype(np.float64)
    requests, l1_hits, llc_hits, llc_misses, reads, writes = (
        misses.per_execution(name) * counted
        for name in ("requests", "l1_hits", "llc_hits", "llc_misses", "dram_reads", "dram_writes")
    )
    return InstructionTable(
        static,
        executions,
        mean_lanes,
        misses.per_execution("lines"),
        requests,
        counted * np.maximum(np.ceil(mean_lanes * static.access_bytes / misses.transfer_bytes), 1.0),
        _ratio(l1_hits, requests),
        _ratio(llc_hits, llc_hits + llc_misses),
        (reads + writes) * misses.transfer_bytes,
    )


def executions_of(workload: Workload) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How often each instruction of a trace was executed, and by how many threads in all."""
    trace = workload.require_trace("a count of executions")
    return workload.results.once("executions", lambda: _executions(trace))


def _executions(trace: LaunchTrace) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How often each instruction was executed, and by how many threads in all: one pass over the trace."""
    executions, lanes = np.zeros(len(trace.static), dtype=np.int64), np.zeros(len(trace.static))
    for group in trace.groups():
        active = active_lanes(group.mask)
        executions += np.bincount(group.static, minlength=len(trace.static))
        lanes += np.bincount(group.static, weights=active, minlength=len(trace.static))
    return executions, lanes


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
