"""Facts: what models see of a launch on a machine, or on a batch of machines. Arrays and records only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import (
    CacheRun,
    DependenceGraph,
    InstructionMix,
    IntervalProfile,
    MissProfile,
    ProfileBatch,
    WorkFlowGraph,
)
from ..analysis.representative import Representative, WarpChoice
from ..errors import InputError
from ..machine import Gpu, InstructionTiming, Quantity
from ..traces import LaunchTrace, WarpGroup
from .launch import Launch, Residency
from .workload import Workload


@dataclass(frozen=True)
class Needs:
    """What a model needs of a workload besides what every model gets."""

    #: One of `VIEWS`; the other views are not worked out.
    view: str = ""
    #: Whether the model takes warp events instead of intervals: sampled blocks of a trace, or a dependence graph.
    events: bool = False
    #: How intervals are cut: the shortest stall that ends one, and whether compute latencies of a graph count.
    min_gap: float = 1.0
    compute_latency: bool = True


NOTHING_MORE = Needs()


@dataclass(frozen=True, eq=False)
class CacheResults:
    """The cache simulations of a batch: machine i uses run `which[i]`."""

    runs: tuple[CacheRun, ...]
    which: NDArray[np.int64]
    misses: tuple[MissProfile, ...]

    def groups(self) -> Iterator[tuple[NDArray[np.int64], MissProfile]]:
        """(rows of the batch, their cache simulation)."""
        for number, misses in enumerate(self.misses):
            yield np.flatnonzero(self.which == number), misses


@dataclass(frozen=True, eq=False)
class TraceFacts:
    """Results of the analysis of a trace."""

    trace: LaunchTrace
    caches: CacheResults
    choice: WarpChoice
    warp: Representative
    #: Sampled thread blocks, if the model takes events.
    blocks: WarpGroup | None = None

    @property
    def misses(self) -> MissProfile:
        """The cache simulation of a single machine; in an occupancy sweep, the one with the most residents."""
        blocks = [run.config.blocks_per_sm for run in self.caches.runs]
        return self.caches.misses[blocks.index(max(blocks))]

    @property
    def recorded_blocks(self) -> int:
        return self.warp.recorded_blocks

    @property
    def instructions_per_block(self) -> float:
        """Warp instructions of a recorded thread block on average."""
        return self.warp.recorded_instructions / max(self.warp.recorded_blocks, 1)

    @property
    def divergent_loads_per_kilo_instruction(self) -> float:
        """DPKI: loads that touch more than one line, per thousand warp instructions (MDM §IV)."""
        return 1000.0 * self.misses.divergent_loads / self.warp.recorded_instructions


@dataclass(frozen=True, eq=False)
class Facts:
    """One launch on one machine or on a batch; quantities are arrays for a batch.

    `views` holds the requested views, by the names of `VIEWS`: a model must declare
    every view that it reads in its `Needs`.
    """

    workload: Workload
    gpu: Gpu
    shape: tuple[int, ...]
    residency: Residency
    views: Mapping[str, Any] = field(default_factory=dict)
    #: λ and Λ of memory classes for this kernel, if its addresses are known; else the machine's apply.
    timings: Mapping[str, InstructionTiming] = field(default_factory=dict)
    #: Notes on this input for readers of a prediction.
    notes: tuple[str, ...] = ()
    #: Warp instructions of the whole launch; None if only one warp is known.
    total_instructions: float | None = None
    traced: TraceFacts | None = None

    @property
    def size(self) -> int:
        return self.shape[0] if self.shape else 1

    @property
    def mix(self) -> InstructionMix:
        found: InstructionMix = self.views["instruction_mix"]
        return found

    @property
    def flow(self) -> WorkFlowGraph:
        found: WorkFlowGraph = self.views["work_flow_graph"]
        return found

    @property
    def graph(self) -> DependenceGraph:
        found: DependenceGraph = self.views["dependence_graph"]
        return found

    @property
    def profiles(self) -> Iterable[tuple[Any, ProfileBatch]]:
        """(rows of the batch, their interval profiles), in parts that fit in memory."""
        found: Iterable[tuple[Any, ProfileBatch]] = self.views["interval_profile"].batches(self.size)
        return found

    @property
    def intervals(self) -> Iterable[tuple[Any, IntervalProfile]]:
        """(rows of the batch, their interval profile), one profile at a time."""
        found: Iterable[tuple[Any, IntervalProfile]] = self.views["interval_profile"].one_by_one()
        return found

    def timing(self, instruction_class: str, needed_by: str) -> InstructionTiming:
        """λ and Λ of a class for this kernel; the machine's if the addresses are unknown."""
        return self.timings.get(instruction_class) or self.gpu.timing(instruction_class, needed_by)

    def memory_latency_cycles(self, needed_by: str) -> Quantity:
        """Unloaded latency of one memory transaction of this kernel."""
        if self.traced is None:
            return self.gpu.memory_latency_cycles_now(needed_by)
        names = [name for name, _ in self.mix.of_kind("memory")]
        loads = [name for name in names if not name.startswith("store")] or names
        return np.mean([self.timing(name, needed_by).latency_cycles for name in loads], axis=0)

    def bytes_per_instruction(self) -> dict[str, float]:
        """Average bytes per warp instruction at each level of the memory system.

        For the LLC, those of the busier direction, as its bandwidth is: loads come in, stores go out.
        Empty if unknown: for an instruction mix or a graph written by hand.
        """
        gpu, given = self.gpu, self.workload.profile
        if self.traced is not None:
            misses, count = self.traced.misses, self.traced.warp.recorded_instructions
            lines = float(misses.executed @ misses.per_execution("lines")) * float(gpu.l1.line_bytes)
            llc = float(max(misses.llc_loads, misses.llc_accesses - misses.llc_loads) * misses.transfer_bytes)
            dram = float(misses.dram_read_bytes + misses.dram_write_bytes)
            return {name: found / count for name, found in (("L1", lines), ("LLC", llc), ("DRAM", dram))}
        if given is None or gpu.l1.line_bytes is None:
            return {}
        reads, ratio, writes = (given.column(name) for name in ("read_misses", "llc_miss_ratio", "write_requests"))
        scale = float(gpu.transfer_bytes) / given.total_instructions
        return {"LLC": scale * float(max(reads.sum(), writes.sum())), "DRAM": scale * float((reads + writes) @ ratio)}

    def summary(self) -> dict[str, Any]:
        """The cache simulation and the representative warp with its quality; empty without a trace."""
        if self.traced is None:
            return {}
        misses, warp = self.traced.misses, self.traced.warp
        return {
            "order": self.workload.order,
            "l1_miss_ratio": misses.l1_miss_ratio,
            "llc_miss_ratio": misses.llc_miss_ratio,
            "dram_read_bytes": misses.dram_read_bytes,
            "dram_write_bytes": misses.dram_write_bytes,
            "dpki": self.traced.divergent_loads_per_kilo_instruction,
            "representative_warp": warp.index,
            "warps": warp.warps,
            "cluster_sizes": list(warp.cluster_sizes),
            "mean_distance": warp.mean_distance,
            "instructions": len(warp.instructions),
            "mean_instructions": warp.mean_instructions,
        }


def batch_shape(launch: Launch, gpu: Gpu) -> tuple[int, ...]:
    """() for one machine, (size,) for a batch; an error for arrays of different lengths."""
    parts: list[Any] = [gpu, gpu.l1, gpu.llc, gpu.noc, gpu.dram, gpu.occupancy, gpu.power, *gpu.instructions.values()]
    numbers = [getattr(part, item.name) for part in parts for item in dataclasses.fields(part)]
    arrays = [each for each in (launch.warps_per_sm, launch.blocks_per_sm, *numbers) if isinstance(each, np.ndarray)]
    try:
        return np.broadcast_shapes(*(each.shape for each in arrays))
    except ValueError:
        lengths = sorted({np.size(value) for value in arrays if np.ndim(value)})
        raise InputError(f"arrays of a batch must have the same length: {lengths}") from None
