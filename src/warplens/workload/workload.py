"""A kernel launch and all that is given about it: numbers by hand, counts of its PTX, or a trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis import (
    DEFAULT_ORDER,
    DependenceGraph,
    InstructionMix,
    IntervalProfile,
    WorkFlowGraph,
    instruction_kinds,
)
from ..analysis.spills import with_spills
from ..errors import MissingInputError
from ..formatting import bare_name
from ..machine import INSTRUCTION_CLASSES, Gpu, machine_of_batch
from ..traces import LaunchTrace
from .launch import Launch, adapted, launch_of, launch_with_overrides
from .measured import MeasuredRun
from .results import Results

if TYPE_CHECKING:
    from ..frontends.ptx.static_mix import StaticMix

#: Views of a workload, and the inputs that provide each.
VIEWS = {
    "instruction_mix": "an instruction mix, or a dependence graph",
    "work_flow_graph": "a work flow graph, or a dependence graph",
    "interval_profile": "an interval profile, or a dependence graph",
    "dependence_graph": "a dependence graph",
    "measured_run": "a measured run (for a trace, --option crisp.simulate=true measures one)",
}


@dataclass(frozen=True, eq=False)
class Workload:
    """One kernel launch: what is given about it, and the results computed from it.

    A trace or static counts provide all views that can be derived from them.
    Otherwise the given views count, and a dependence graph provides the others.
    """

    name: str
    launch: Launch = Launch()
    description: str = ""
    mix: InstructionMix | None = None
    graph: DependenceGraph | None = None
    flow: WorkFlowGraph | None = None
    profile: IntervalProfile | None = None
    run: MeasuredRun | None = None
    counted: StaticMix | None = None
    trace: LaunchTrace | None = None
    #: How the warps of a trace interleave in the caches, and how the representative warp is chosen.
    order: str = DEFAULT_ORDER
    selection: str = "clustering"
    launch_index: int = 0
    #: The launch whose lines it finds in the L2; none if caches are cold.
    after: Workload | None = field(default=None, repr=False)
    machine: str | None = None
    machine_overrides: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    launch_overrides: Mapping[str, Any] = field(default_factory=dict)
    results: Results = field(default_factory=Results, repr=False)
    #: Called before each cache simulation; an exception it raises stops the work.
    before_simulation: Callable[[], None] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling (workers of a sweep): read-only views of dictionaries cannot be pickled."""
        return {name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in vars(self).items()}

    def offers(self, view: str) -> bool:
        """Whether a view was given or can be derived."""
        if self.counted is not None:
            return view == "instruction_mix"
        if view == "measured_run":
            return self.run is not None
        given = {
            "instruction_mix": self.mix,
            "work_flow_graph": self.flow,
            "interval_profile": self.profile,
            "dependence_graph": self.graph,
        }[view]
        return any(each is not None for each in (given, self.graph, self.trace))

    def require(self, view: str, needed_by: str) -> None:
        """Raise `MissingInputError` unless the view is there."""
        if not self.offers(view):
            raise MissingInputError(
                f"{needed_by} needs {VIEWS[view]}, which workload {self.name!r} does not give; add a [{view}] table"
            )

    def require_trace(self, needed_by: str) -> LaunchTrace:
        """The trace, or a `MissingInputError`."""
        if self.trace is None:
            raise MissingInputError(f"{self.path or self.name}: {needed_by} needs a trace or a CUDA source")
        return self.trace

    @property
    def sends_requests(self) -> bool:
        """Whether the given views contain requests to the memory system."""
        if self.trace is not None:
            kinds = instruction_kinds(self.trace.static)
            return bool(np.any((kinds != 0) & (kinds != 4)))
        if self.profile is not None:
            return bool(np.any(self.profile.column("read_misses")) or np.any(self.profile.column("write_requests")))
        assert self.graph is not None
        return any(INSTRUCTION_CLASSES[i.instruction_class].kind == "memory" for i in self.graph.instructions)

    @property
    def is_ptx(self) -> bool:
        """Whether the trace holds PTX rather than machine instructions."""
        return self.trace is not None and self.trace.header.origin == "ptx"

    def with_overrides(self, overrides: Mapping[str, Any]) -> Workload:
        """A copy with other residents (`launch.warps_per_sm`, `launch.blocks_per_sm`)."""
        launch = launch_with_overrides(self.launch, overrides)
        applied = {key: getattr(launch, key.removeprefix("launch.")) for key in overrides}
        return dataclasses.replace(self, launch=launch, launch_overrides={**self.launch_overrides, **applied})

    def one_of(self, gpu: Gpu, index: int) -> tuple[Gpu, Workload]:
        """One machine of a batch, adapted to this workload, and the workload with its residents there."""
        launch = {
            f"launch.{key}": getattr(self.launch, key)[index]
            for key in ("warps_per_sm", "blocks_per_sm")
            if isinstance(getattr(self.launch, key), np.ndarray)
        }
        own = self.with_overrides(launch) if launch else self
        return adapted(machine_of_batch(gpu, index), own.launch), own

    def __repr__(self) -> str:
        views = ", ".join(view for view in VIEWS if self.offers(view))
        return f"<Workload {self.name}: {views or 'no views'}>"


def workload_of_trace(
    trace: LaunchTrace, *, order: str | None = None, selection: str = "clustering", results: Results | None = None
) -> Workload:
    """A workload whose views come from a recorded launch."""
    trace = with_spills(trace)
    return Workload(
        name=_name_of(trace),
        launch=launch_of(trace),
        launch_index=trace.header.launch_index,
        trace=trace,
        order=order or DEFAULT_ORDER,
        selection=selection,
        results=Results() if results is None else results,
    )


def _name_of(trace: LaunchTrace) -> str:
    """The kernel's name as the source has it, where the trace tells it; compiled names are for machines."""
    readable = trace.header.extra.get("readable_name")
    return bare_name(readable) if isinstance(readable, str) and readable else trace.header.kernel
