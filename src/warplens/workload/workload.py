"""A kernel as the models see it: a launch and views of one representative warp."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from ..analysis import (
    DependenceGraph,
    InstructionMix,
    IntervalProfile,
    ProfileBatch,
    WorkFlowGraph,
    batch_of_profiles,
    intervals_of_graph,
)
from ..errors import MissingInputError
from ..machine import INSTRUCTION_CLASSES, Gpu, InstructionTiming, Quantity
from .launch import Launch, launch_with_overrides
from .measured import MeasuredRun

#: What a workload can offer, and what each can be worked out from besides being given.
VIEWS = {
    "instruction_mix": "an instruction mix, or a dependence graph",
    "work_flow_graph": "a work flow graph, or a dependence graph",
    "interval_profile": "an interval profile, or a dependence graph",
    "dependence_graph": "a dependence graph",
    "measured_run": "a measured run (of a trace, --option crisp.simulate=true measures one)",
}


@dataclass(frozen=True, eq=False)
class Workload:
    """One kernel launch. Views that were not given are derived when asked for."""

    name: str
    launch: Launch = Launch()
    description: str = ""
    mix: InstructionMix | None = None
    graph: DependenceGraph | None = None
    flow: WorkFlowGraph | None = None
    profile: IntervalProfile | None = None
    run: MeasuredRun | None = None
    launch_index: int = 0
    machine: str | None = None
    machine_overrides: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    launch_overrides: Mapping[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling (workers of a sweep): read-only views of dictionaries cannot be pickled."""
        return {name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in vars(self).items()}

    def offers(self, view: str) -> bool:
        """Whether a view was given or can be derived."""
        given = {
            "instruction_mix": self.mix,
            "work_flow_graph": self.flow,
            "interval_profile": self.profile,
            "dependence_graph": self.graph,
            "measured_run": self.run,
        }[view]
        return given is not None or (self.graph is not None and view != "measured_run")

    def require(self, view: str, needed_by: str) -> None:
        """Raise `MissingInputError` unless the view is there."""
        if not self.offers(view):
            raise MissingInputError(
                f"{needed_by} needs {VIEWS[view]}, which workload {self.name!r} does not give; add a [{view}] table"
            )

    @property
    def sends_requests(self) -> bool:
        """Whether the intervals, given or to be derived, send requests to the memory system."""
        if self.profile is not None:
            return bool(np.any(self.profile.column("read_misses")) or np.any(self.profile.column("write_requests")))
        assert self.graph is not None
        return any(INSTRUCTION_CLASSES[i.instruction_class].kind == "memory" for i in self.graph.instructions)

    @property
    def total_instructions(self) -> float | None:
        """Warp instructions of the whole launch, where more is known than one warp's."""
        return None

    @property
    def recorded_order(self) -> bool:
        """Whether instructions stand in the order in which a warp executed them, rather than in any that fits."""
        return False

    def bytes_per_instruction(self, gpu: Gpu) -> dict[str, float]:
        """Bytes that a warp instruction moves on average, by the part of the memory system that gives them.

        Empty where nothing says so: of an instruction mix or a graph written by hand.
        """
        if self.profile is None or gpu.l1.line_bytes is None:
            return {}
        reads, ratio, writes = (
            self.profile.column(name) for name in ("read_misses", "llc_miss_ratio", "write_requests")
        )
        scale = float(gpu.transfer_bytes) / self.profile.total_instructions
        return {"LLC": scale * float((reads + writes).sum()), "DRAM": scale * float((reads + writes) @ ratio)}

    def summary(self, gpu: Gpu) -> dict[str, Any]:
        """What was found out about the kernel on the way to a prediction (nothing where all was given)."""
        return {}

    def notes(self, gpu: Gpu) -> tuple[str, ...]:
        """What a reader of a prediction should know of this input."""
        return ()

    def timing(self, gpu: Gpu, instruction_class: str, needed_by: str) -> InstructionTiming:
        """λ and Λ of a class for this kernel: the machine's, as nothing is known of its addresses."""
        return gpu.timing(instruction_class, needed_by)

    def memory_latency_cycles(self, gpu: Gpu, needed_by: str) -> Quantity:
        """Unloaded latency of one memory transaction of this kernel."""
        return gpu.memory_latency_cycles_now(needed_by)

    def instruction_mix(self, gpu: Gpu, needed_by: str) -> InstructionMix:
        self.require("instruction_mix", needed_by)
        if self.mix is not None:
            return self.mix
        assert self.graph is not None
        return self.graph.instruction_mix(lambda name: self.timing(gpu, name, needed_by).latency_cycles)

    def work_flow_graph(self, gpu: Gpu, needed_by: str) -> WorkFlowGraph:
        self.require("work_flow_graph", needed_by)
        if self.flow is not None:
            return self.flow
        assert self.graph is not None
        return self.graph.work_flow_graph

    def dependence_graph(self, gpu: Gpu, needed_by: str) -> DependenceGraph:
        self.require("dependence_graph", needed_by)
        assert self.graph is not None
        return self.graph

    def interval_profiles(
        self, gpu: Gpu, size: int, needed_by: str, *, compute_latency: bool = True, min_gap: float = 1.0
    ) -> Iterator[tuple[Any, IntervalProfile]]:
        """(rows of the batch, their profile): one pair where the profile was given.

        A profile derived from the dependence graph depends on latencies and the
        issue rate, so machines that differ in those get a profile of their own.
        """
        self.require("interval_profile", needed_by)
        if self.profile is not None:
            yield slice(None), self.profile
            return
        assert self.graph is not None
        names = sorted({item.instruction_class for item in self.graph.instructions})
        columns = [self.timing(gpu, name, needed_by).latency_cycles for name in names] + [gpu.issue_rate]
        for index, name in enumerate(names):
            if not compute_latency and INSTRUCTION_CLASSES[name].kind != "memory":
                columns[index] = 0.0
        table = np.stack([np.broadcast_to(np.asarray(c, dtype=np.float64), size) for c in columns], axis=1)
        distinct, inverse = np.unique(table, axis=0, return_inverse=True)
        for index, row in enumerate(distinct):
            latencies = dict(zip(names, row, strict=False))
            profile = intervals_of_graph(self.graph, latencies.__getitem__, issue_rate=row[-1], min_gap=min_gap)
            yield np.flatnonzero(inverse.ravel() == index), profile

    def profile_batches(
        self, gpu: Gpu, size: int, needed_by: str, *, compute_latency: bool = True, min_gap: float = 1.0
    ) -> Iterator[tuple[Any, ProfileBatch]]:
        """(rows of the batch, their profiles): `interval_profiles` for models that evaluate many at once."""
        profiles = self.interval_profiles(gpu, size, needed_by, compute_latency=compute_latency, min_gap=min_gap)
        yield slice(None), batch_of_profiles(profiles, size)

    def with_overrides(self, overrides: Mapping[str, Any]) -> Workload:
        """A copy with other residents (`launch.warps_per_sm`, `launch.blocks_per_sm`)."""
        launch = launch_with_overrides(self.launch, overrides)
        applied = {key: getattr(launch, key.removeprefix("launch.")) for key in overrides}
        return dataclasses.replace(self, launch=launch, launch_overrides={**self.launch_overrides, **applied})

    def __repr__(self) -> str:
        views = ", ".join(view for view in VIEWS if self.offers(view))
        return f"<Workload {self.name}: {views or 'no views'}>"
