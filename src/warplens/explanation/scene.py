"""What rules look at: a kernel on a GPU, its trace, what the caches made of it, and the solved model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import MissProfile
from ..analysis.banks import conflict_degrees, shared_accesses
from ..analysis.block_samples import BlockSample
from ..analysis.def_use import DefUse, chased_loads, def_use, turns_apart
from ..categories import CATEGORIES
from ..machine import Gpu, with_overrides
from ..models import Model, get_model, solve
from ..models.attribution import InstructionTimes, time_by_instruction
from ..models.prediction import Prediction
from ..models.warplens_model import Warplens
from ..traces import CLASS_IDS, CLASS_NAMES, SPACES, LaunchHeader, LaunchTrace, StaticTable, WarpGroup
from ..traces.inlining import Chain, chains_of
from ..traces.machine_code import MACHINE_CODE, code_of
from ..traces.rewrite import (
    Change,
    LaneAddresses,
    changed,
    keep_executions,
    lane_addresses,
    merge_blocks,
    repeat_executions,
    split_blocks,
    split_warps,
)
from ..workload import Workload, analyse
from ..workload.instructions import InstructionTable, executions_of, instruction_table
from ..workload.part import part_if_long
from ..workload.results import Results
from ..workload.samples import block_sample
from .answer import Line

MODEL = "warplens"
#: The least part of the time that must go for advice to be worth reading.
LEAST_GAIN = 0.03


@dataclass(frozen=True, eq=False)
class Scene:
    """One traced kernel on one GPU. Columns have one entry per static instruction."""

    workload: Workload
    gpu: Gpu
    model: Model
    #: What the model says, where it is known already.
    solved: Prediction | None = None

    @functools.cached_property
    def prediction(self) -> Prediction:
        return solve(self.workload, self.gpu, self.model) if self.solved is None else self.solved

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

    @functools.cached_property
    def spilled(self) -> NDArray[np.bool_]:
        """Accesses that the compiler added to PTX, to keep registers in local memory."""
        found = np.zeros(len(self.static), dtype=bool)
        code = code_of(self.trace.header)
        found[list(code.spills.values()) if code else []] = True
        return found

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

    @property
    def recorded_threads(self) -> int:
        return int(self.facts.traced.recorded_blocks) * self.trace.header.threads_per_block

    @functools.cached_property
    def sample(self) -> WarpGroup:
        """Some thread blocks, spread over the grid: enough to recognise patterns."""
        found: WarpGroup = self.facts.traced.blocks
        return found

    def addresses(self, chosen: NDArray[np.bool_]) -> LaneAddresses:
        """Addresses of the sampled executions of chosen instructions, lane by lane."""
        return lane_addresses(self.sample, self.static, chosen)

    @functools.cached_property
    def table(self) -> InstructionTable:
        """Executions, sectors, hits and DRAM bytes of every instruction."""
        return instruction_table(self.workload, self.gpu)

    @functools.cached_property
    def times(self) -> InstructionTimes:
        """Each instruction's part of the time, as the model sees it."""
        assert isinstance(self.model, Warplens)
        return time_by_instruction(self.model, self.facts, self.prediction)

    @functools.cached_property
    def conflict_ways(self) -> NDArray[np.float64]:
        """Cycles that an access to shared memory holds the banks, on average; 0 for others."""
        shared = shared_accesses(self.static)
        _, degrees = conflict_degrees(self.sample, self.static)
        which = self.sample.static[shared[self.sample.static]]
        counts = np.bincount(which, minlength=len(self.static))
        return np.bincount(which, degrees, len(self.static)) / np.maximum(counts, 1)

    @functools.cached_property
    def warps(self) -> int:
        """Warps of the recorded thread blocks."""
        return int(self.facts.traced.recorded_blocks * float(self.facts.residency.warps_per_block))

    @property
    def warps_per_block(self) -> int:
        return -(-self.trace.header.threads_per_block // 32)

    @property
    def most_threads(self) -> int:
        """Of a block."""
        return int(self.gpu.with_defaults.occupancy.max_threads_per_block or 1024)

    @property
    def has_given_residents(self) -> bool:
        """Whether the residents of an SM were given, and do not follow from the launch."""
        launch = self.workload.launch
        return launch.blocks_per_sm is not None or launch.warps_per_sm is not None

    @property
    def has_free_warps(self) -> bool:
        """Whether the warps of a block have nothing to do with each other: no barriers and no shared memory."""
        shared = self.workload.launch.shared_memory_per_block_bytes or 0
        return not shared and not bool((self.kind("barrier") & (self.executions > 0)).any())

    @functools.cached_property
    def loop_trips(self) -> int:
        """Turns of a warp's longest loop, as its accesses show, that do not need each other: so many parts it has."""
        accesses = np.where((self.static.access_bytes > 0) & ~self.chased, self.executions, 0)
        if self.chases_pointers:
            return 1  # each turn needs the one before
        most = accesses.max(initial=0)
        apart = turns_apart(self.sample, self.static, self.flow)[2 * self.executions > most].min(initial=np.inf)
        return int(min(most // max(self.warps, 1), np.ceil(apart)))

    @property
    def chases_pointers(self) -> bool:
        """Whether most loads that a warp repeats have addresses that come from the loads before them."""
        if self.workload.trace is None:
            return False
        repeated = self.kind("load_global") & (self.executions > self.warps)
        return bool(2 * self.executions[repeated & self.chased].sum() > self.executions[repeated].sum())

    @functools.cached_property
    def chased(self) -> NDArray[np.bool_]:
        """Loads that chase pointers (and atomics): nothing lets them begin earlier."""
        return chased_loads(self.flow, self.static)

    @functools.cached_property
    def block_sample(self) -> BlockSample:
        """Accesses and barriers of the sampled blocks' warps, and what they wait for."""
        return block_sample(self.facts, self.gpu, "advice", self.workload.is_ptx)

    def accesses_per_wait(self, chosen: NDArray[np.bool_]) -> float:
        """Accesses of some instructions that a warp issues from one wait for their data to the next, on average."""
        events = self.block_sample
        warp = np.repeat(np.arange(len(events.event_start) - 1), np.diff(events.event_start))
        waits = np.flatnonzero(events.dependence >= 0)
        needed = events.event_start[:-1][warp[waits]] + events.dependence[waits]
        mine = np.unique(needed[chosen[events.static[needed]]])
        return float(chosen[events.static].sum()) / max(len(mine), 1)

    @functools.cached_property
    def flow(self) -> DefUse:
        """Who makes the values that instructions read."""
        return def_use(self.sample, self.static)

    def most_gain(self, chosen: NDArray[np.bool_]) -> float:
        """The most that can be saved of the time without some instructions that compute: their issue slots and units,
        or their latency if nothing of it is hidden."""
        cycles, residency = float(self.prediction.cycles), self.facts.residency
        executed = np.where(chosen, self.executions, 0) / self.facts.traced.recorded_blocks
        blocks = float(residency.total_warps) / float(residency.warps_per_block)
        held, waited = 0.0, 0.0
        for name in set(self.classes[chosen & (executed > 0)].tolist()):
            timing = self.gpu.timing(name, "advice")
            count = float(executed[self.classes == name].sum())
            held += count * max(float(timing.interval_cycles), 1.0 / float(self.gpu.issue_rate))
            waited += count * float(timing.latency_cycles) / float(residency.warps_per_block)
        held *= blocks / float(residency.active_sms)
        return max(held, waited * float(np.ceil(residency.runs))) / cycles

    def busy(self, resource: str) -> float:
        """How full a resource of the model is: issue, units, L1, NoC_SM, NoC or DRAM."""
        return float(self.prediction.terms[f"busy_{resource}"])

    def group_share(self, group: str) -> float:
        """The part of the time of a group of stall categories ("memory", "synchronisation", …)."""
        return sum(self.share(name) for name, each in CATEGORIES.items() if each.group == group)

    def share(self, category: str) -> float:
        """A stall category's part of the time."""
        stack = self.prediction.stack or {}
        return float(stack.get(category, 0.0) / self.prediction.cpi)

    # -- places in the source

    @property
    def is_triton(self) -> bool:
        return self.trace.header.extra.get("language") == "triton"

    def lines_of(self, weights: NDArray[np.float64], most: int = 3) -> tuple[Line, ...]:
        """The source lines with most weight, given by instruction; none where the trace has no lines."""
        lines, which = np.unique(self.static.line, return_inverse=True)
        by_line = np.where(lines > 0, np.bincount(which, weights), 0.0)
        total = by_line.sum()
        if total <= 0.0:
            return ()
        heaviest = np.argsort(-by_line, kind="stable")[:most]
        return tuple(
            Line(self.source_name, int(lines[each]), float(by_line[each] / total), self.text_of(int(lines[each])))
            for each in heaviest
            if by_line[each] > 0.0
        )

    @functools.cached_property
    def chains(self) -> list[Chain]:
        """Places in other files that instructions were inlined from, the innermost first."""
        return chains_of(self.trace.header, len(self.static))

    @functools.cached_property
    def source_name(self) -> str:
        extra = self.trace.header.extra
        return str(extra.get("source") or extra.get("source_file", "")).replace("\\", "/").rsplit("/", 1)[-1]

    @functools.cached_property
    def _source(self) -> list[str]:
        text = self.trace.header.extra.get("source_text")
        return text.splitlines() if isinstance(text, str) else []

    def text_of(self, line: int) -> str:
        return self._source[line - 1].strip() if 0 < line <= len(self._source) else ""

    # -- without a cause

    @functools.cached_property
    def part(self) -> Scene:
        """The scene of some recorded blocks, spread over the grid, where all take too long; else the scene itself."""
        some = part_if_long(self.workload, self.gpu)
        return self if some is self.workload else scene_of(some, self.gpu, self.model)

    def with_addresses(self, change: Change) -> Scene:
        """The scene where accesses go elsewhere. Instructions stay as they are, in machine code too."""
        return self._with(trace=changed(self.trace, change), results=Results())

    @functools.cached_property
    def in_ptx(self) -> Scene:
        """The scene without machine code, which nobody knows of changed instructions; itself where it has none."""
        assert isinstance(self.model, Warplens)
        if not self.model.machine_code or MACHINE_CODE not in self.trace.header.extra:
            return self
        return self.with_option(machine_code=False)

    def with_trace(
        self,
        change: Change | None = None,
        *,
        header: LaunchHeader | None = None,
        static: StaticTable | None = None,
        together: int = 1,
        **columns: Any,
    ) -> Scene:
        """The scene of a changed trace, in PTX.

        `columns` replace those of the static table, `header` the grid and blocks.
        """
        static = replace(static or self.static, **columns) if columns else static
        trace = changed(self.trace, change, static=static, header=header, together=together)
        launch = self.workload.launch
        if header is not None:
            launch = replace(launch, blocks=float(header.blocks), threads_per_block=header.threads_per_block)
        return self.in_ptx._with(trace=trace, launch=launch, results=Results())

    def with_classes(self, chosen: NDArray[np.bool_], name: str) -> Scene:
        """The scene where some instructions are of another class."""
        return self.with_trace(class_id=np.where(chosen, CLASS_IDS[name], self.static.class_id).astype(np.uint8))

    def with_repeats(self, chosen: NDArray[np.bool_], times: int) -> Scene:
        """The scene where some instructions that access no memory are executed several times."""
        return self.with_trace(lambda group, _: repeat_executions(group, np.where(chosen[group.static], times, 1)))

    def without_rows(self, chosen: NDArray[np.bool_]) -> Scene:
        """The scene where some instructions are not executed: in PTX, or in machine code where it spills them."""

        def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
            return keep_executions(group, static, ~chosen[group.static])

        return self.with_addresses(change) if not (chosen & ~self.spilled).any() else self.with_trace(change)

    def with_more_blocks(self, parts: int, *, of_warps: bool) -> Scene:
        """The scene where each block becomes several: with some of its warps each, or with parts of its loops."""
        header, per_block = self.trace.header, self.warps_per_block
        x, y, z = header.grid
        more = replace(header, grid=(x * parts, y, z))
        if not of_warps:
            return self.with_trace(lambda group, static: split_warps(group, static, parts), header=more)
        fewer = replace(more, block=(32 * -(-per_block // parts), 1, 1))
        return self.with_trace(lambda group, _: split_blocks(group, parts, per_block), header=fewer)

    def with_larger_blocks(self, factor: int, *, same_work: bool) -> Scene:
        """The scene where blocks have several times the warps: those of their neighbours, or more for their loops."""
        header, per_block = self.trace.header, self.warps_per_block
        larger = replace(header, block=(32 * per_block * factor, 1, 1))
        if same_work:
            return self.with_trace(
                lambda group, static: split_warps(group, static, factor, in_block=True), header=larger
            )
        x, y, z = header.grid
        fewer = replace(larger, grid=(-(-x * y * z // factor), 1, 1))
        return self.with_trace(lambda group, _: merge_blocks(group, factor, per_block), header=fewer, together=factor)

    def with_launch(self, **values: Any) -> Scene:
        """The scene of another launch: blocks, registers_per_thread, shared_memory_per_block_bytes, …"""
        return self._with(launch=replace(self.workload.launch, **values))

    def with_option(self, **options: Any) -> Scene:
        """The scene under other options of the model."""
        return scene_of(self.workload, self.gpu, replace(self.model, **options))

    def with_gpu(self, overrides: Mapping[str, Any]) -> Scene:
        """The scene on a changed GPU."""
        return scene_of(self.workload, with_overrides(self.gpu, overrides), self.model)

    def _with(self, **values: Any) -> Scene:
        return scene_of(replace(self.workload, **values), self.gpu, self.model)


def scene_of(workload: Workload, gpu: Gpu, model: Model | None = None) -> Scene:
    """The scene of a placed workload; the model is solved when its prediction is asked for."""
    return Scene(workload, gpu, model or get_model(MODEL))


Removal = Callable[[Scene], Scene]
