"""What rules look at: a kernel on a GPU, its trace, what the caches made of it, and the solved model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import MissProfile
from ..analysis.banks import conflict_degrees, shared_accesses
from ..machine import Gpu
from ..models import Model, get_model, solve
from ..models.prediction import Prediction
from ..traces import CLASS_NAMES, SPACES, LaunchTrace, StaticTable, WarpGroup
from ..traces.rewrite import Change, LaneAddresses, changed, lane_addresses
from ..workload import Workload, analyse
from ..workload.instructions import executions_of
from ..workload.results import Results
from .answer import Line

MODEL = "warplens"


@dataclass(frozen=True, eq=False)
class Scene:
    """One traced kernel on one GPU. Columns have one entry per static instruction."""

    workload: Workload
    gpu: Gpu
    model: Model
    prediction: Prediction

    @functools.cached_property
    def trace(self) -> LaunchTrace:
        return self.workload.require_trace("advice")

    @property
    def static(self) -> StaticTable:
        return self.trace.static

    @functools.cached_property
    def classes(self) -> NDArray[np.str_]:
        """Names of instruction classes."""
        return np.array(CLASS_NAMES)[self.static.class_id]

    @functools.cached_property
    def spaces(self) -> NDArray[np.str_]:
        return np.array(SPACES)[self.static.space]

    def kind(self, *names: str) -> NDArray[np.bool_]:
        """Which instructions are of some classes."""
        return np.isin(self.classes, names)

    @functools.cached_property
    def facts(self) -> Any:
        return analyse(self.workload, self.gpu, self.model.requirements, "advice")

    @property
    def misses(self) -> MissProfile:
        """The cache simulation: executions, sectors (`requests`), lines, hits and DRAM transfers per instruction."""
        found: MissProfile = self.facts.traced.misses
        return found

    @property
    def executions(self) -> NDArray[np.int64]:
        """Of the recorded thread blocks."""
        return executions_of(self.workload)[0]

    @property
    def lanes(self) -> NDArray[np.float64]:
        """Active lanes of an execution on average."""
        executions, lanes = executions_of(self.workload)
        return lanes / np.maximum(executions, 1)

    @functools.cached_property
    def sample(self) -> WarpGroup:
        """Some thread blocks, spread over the grid: enough to recognise patterns."""
        found: WarpGroup = self.facts.traced.blocks
        return found

    def addresses(self, chosen: NDArray[np.bool_]) -> LaneAddresses:
        """Addresses of the sampled executions of chosen instructions, lane by lane."""
        return lane_addresses(self.sample, self.static, chosen)

    @functools.cached_property
    def conflict_ways(self) -> NDArray[np.float64]:
        """Cycles that an access to shared memory holds the banks, on average; 0 for others."""
        shared = shared_accesses(self.static)
        _, degrees = conflict_degrees(self.sample, self.static)
        which = self.sample.static[shared[self.sample.static]]
        counts = np.bincount(which, minlength=len(self.static))
        return np.bincount(which, degrees, len(self.static)) / np.maximum(counts, 1)

    def busy(self, resource: str) -> float:
        """How full a resource of the model is: issue, units, L1, NoC_SM, NoC or DRAM."""
        return float(self.prediction.terms[f"busy_{resource}"])

    def share(self, category: str) -> float:
        """A stall category's part of the time."""
        stack = self.prediction.stack or {}
        return float(stack.get(category, 0.0) / self.prediction.cpi)

    # -- places in the source

    def lines_of(self, weights: NDArray[np.float64], most: int = 3) -> tuple[Line, ...]:
        """The source lines with most weight, given by instruction; none where the trace has no lines."""
        line = self.static.line
        by_line = np.bincount(line, weights)
        by_line[0] = 0.0
        total = by_line.sum()
        if total <= 0.0:
            return ()
        heaviest = np.argsort(-by_line, kind="stable")[:most]
        return tuple(
            Line(self.source_name, int(number), float(by_line[number] / total), self.text_of(int(number)))
            for number in heaviest
            if by_line[number] > 0.0
        )

    @functools.cached_property
    def source_name(self) -> str:
        return str(self.trace.header.extra.get("source", "")).replace("\\", "/").rsplit("/", 1)[-1]

    @functools.cached_property
    def _source(self) -> list[str]:
        text = self.trace.header.extra.get("source_text")
        return text.splitlines() if isinstance(text, str) else []

    def text_of(self, line: int) -> str:
        return self._source[line - 1].strip() if 0 < line <= len(self._source) else ""

    # -- without a cause

    def with_trace(self, change: Change | None = None, **columns: Any) -> Scene:
        """The scene of a changed trace. `columns` replace those of the static table."""
        static = replace(self.static, **columns) if columns else None
        return self._with(trace=changed(self.trace, change, static=static), results=Results())

    def with_launch(self, **values: Any) -> Scene:
        """The scene of another launch: blocks, registers_per_thread, shared_memory_per_block_bytes, …"""
        return self._with(launch=replace(self.workload.launch, **values))

    def with_option(self, **options: Any) -> Scene:
        """The scene under other options of the model."""
        return scene_of(self.workload, self.gpu, replace(self.model, **options))

    def _with(self, **values: Any) -> Scene:
        return scene_of(replace(self.workload, **values), self.gpu, self.model)


def scene_of(workload: Workload, gpu: Gpu, model: Model | None = None) -> Scene:
    """The scene of a placed workload: solves the model."""
    model = model or get_model(MODEL)
    return Scene(workload, gpu, model, solve(workload, gpu, model))


Removal = Callable[[Scene], Scene]
