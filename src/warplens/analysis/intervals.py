"""Interval profile of a warp (Eq. G-2), and the algorithm that makes it (Eq. G-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine import INSTRUCTION_CLASSES
from .dependence import DependenceGraph

#: Causes of stalls, in the order of CPI stacks.
STALL_CAUSES = ("DEP", "L1", "L2", "DRAM")

#: Columns of the matrix that evaluation kernels read.
COLUMNS = (
    "instructions",
    "stall_cycles",
    "memory_instructions",
    "read_misses",
    "write_requests",
    "llc_miss_ratio",
)
_INDEX = {name: index for index, name in enumerate(COLUMNS)}


@dataclass(frozen=True, eq=False)
class IntervalProfile:
    """Intervals of the representative warp, one row each.

    `matrix` has the columns of `COLUMNS`: instructions issued, stall cycles
    after them, memory instructions that miss L1, L1 read misses (requests),
    write requests, and the part of the requests that miss the LLC. `causes`
    says which part of each stall has which cause (`STALL_CAUSES`).
    """

    matrix: NDArray[np.float64]
    causes: NDArray[np.float64]
    average_miss_latency_cycles: float | None = None
    dram_instruction_fraction: float | None = None

    def column(self, name: str) -> NDArray[np.float64]:
        return self.matrix[:, _INDEX[name]]

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def total_instructions(self) -> float:
        return float(self.column("instructions").sum())

    @property
    def stall_by_cause(self) -> NDArray[np.float64]:
        """Stall cycles of the warp per cause."""
        return self.column("stall_cycles") @ self.causes

    @property
    def dram_fraction(self) -> float:
        """Part of the L1-missing memory instructions that go to DRAM (for the average miss latency)."""
        if self.dram_instruction_fraction is not None:
            return self.dram_instruction_fraction
        weights = self.column("memory_instructions")
        total = weights.sum()
        return float(weights @ self.column("llc_miss_ratio") / total) if total > 0 else 0.0


@dataclass(frozen=True, eq=False)
class ProfileBatch:
    """The profiles of a batch of machines: machine i has profile `of_machine[i]`.

    The intervals of profile p are rows `start[p]` to `start[p + 1]` of
    `matrix`; the other arrays have one entry per profile.
    """

    matrix: NDArray[np.float64]
    start: NDArray[np.int64]
    of_machine: NDArray[np.int64]
    total_instructions: float
    stall_cycles: NDArray[np.float64]
    stalls: NDArray[np.float64]
    """Intervals that end in a stall."""
    stall_by_cause: NDArray[np.float64]
    #: NaN if the average follows from `dram_fraction`.
    average_miss_latency_cycles: NDArray[np.float64]
    dram_fraction: NDArray[np.float64]


def batch_of_profiles(profiles: Iterable[tuple[Any, IntervalProfile]], size: int) -> ProfileBatch:
    """Collect (machines, profile) pairs into one batch."""
    of_machine = np.zeros(size, dtype=np.int64)
    found: list[IntervalProfile] = []
    for rows, profile in profiles:
        of_machine[rows] = len(found)
        found.append(profile)
    latency = [profile.average_miss_latency_cycles for profile in found]
    return ProfileBatch(
        matrix=np.concatenate([profile.matrix for profile in found]),
        start=np.cumsum([0, *(len(profile) for profile in found)]),
        of_machine=of_machine,
        total_instructions=found[-1].total_instructions,
        stall_cycles=np.array([profile.column("stall_cycles").sum() for profile in found]),
        stalls=np.array([float(np.count_nonzero(profile.column("stall_cycles"))) for profile in found]),
        stall_by_cause=np.stack([profile.stall_by_cause for profile in found]),
        average_miss_latency_cycles=np.array([np.nan if value is None else value for value in latency]),
        dram_fraction=np.array([profile.dram_fraction for profile in found]),
    )


def default_causes(memory_instructions: float, llc_miss_ratio: float) -> list[float]:
    """A stall behind memory instructions is their L2 and DRAM time; any other is a dependence."""
    if memory_instructions > 0:
        return [0.0, 0.0, 1.0 - llc_miss_ratio, llc_miss_ratio]
    return [1.0, 0.0, 0.0, 0.0]


def intervals_of_graph(
    graph: DependenceGraph,
    latency: Callable[[str], float],
    *,
    issue_rate: float = 1.0,
    min_gap: float = 1.0,
) -> IntervalProfile:
    """The intervals of one warp that executes `graph` alone, in order.

    A warp issues at most one instruction a cycle. An interval closes where the
    next instruction waits `min_gap` cycles or more; shorter waits stay inside
    it. Every memory instruction misses all caches, because its address is
    unknown. The warp ends when its last result arrives; the last interval's
    stall is that wait.
    """
    step = max(1.0, 1.0 / issue_rate)
    done: list[float] = []
    rows: list[list[float]] = []
    causes: list[list[float]] = []
    instructions = reads = writes = 0
    waits = [0.0] * len(STALL_CAUSES)
    issue = -step

    def wait(cycles: float, producer: int) -> None:
        from_memory = INSTRUCTION_CLASSES[graph.instructions[producer].instruction_class].kind == "memory"
        waits[STALL_CAUSES.index("DRAM" if from_memory else "DEP")] += cycles

    def close_interval() -> None:
        nonlocal instructions, reads, writes, waits
        stall = sum(waits)
        rows.append([instructions, stall, reads, reads, writes, float(reads + writes > 0)])
        causes.append([cycles / stall for cycles in waits] if stall else default_causes(reads, 1.0))
        instructions = reads = writes = 0
        waits = [0.0] * len(STALL_CAUSES)

    for item in graph.instructions:
        producer = max(item.depends, key=lambda position: done[position], default=-1)
        next_slot = issue + step
        issue = max(next_slot, done[producer] + step) if producer >= 0 else next_slot  # Eq. (G-4)
        if issue > next_slot:
            wait(issue - next_slot, producer)
            if issue - next_slot >= min_gap:
                close_interval()
        done.append(issue + latency(item.instruction_class))
        instructions += 1
        kind = INSTRUCTION_CLASSES[item.instruction_class].kind
        if item.instruction_class.startswith("store_") and kind == "memory":
            writes += 1
        elif kind == "memory":
            reads += 1
    last = max(range(len(done)), key=lambda position: done[position])
    wait(done[last] - issue, last)
    close_interval()
    return IntervalProfile(np.array(rows, dtype=np.float64), np.array(causes, dtype=np.float64))
