"""A workload from a trace: caches simulated, intervals found, a representative warp chosen when asked for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..analysis import (
    DEFAULT_ORDER,
    CacheRun,
    Coalescing,
    DependenceGraph,
    Events,
    InstructionMix,
    IntervalProfile,
    MissProfile,
    MixEntry,
    ProfileBatch,
    WorkFlowGraph,
    cache_run,
    collect_events,
    instruction_kinds,
    simulate_caches,
    simulate_families,
)
from ..analysis.block_samples import BlockSample, chosen_blocks, sample_of_blocks
from ..analysis.representative import (
    Representative,
    average_latency,
    graph_of_warp,
    latencies,
    level_latencies,
    profile_of_warp,
    profiles_of_warp,
    representative_warp,
)
from ..machine import INSTRUCTION_CLASSES, Gpu, InstructionTiming, Quantity, distinct, machine_of_batch
from ..machine.schema import parameters
from ..result_cache import ResultCache
from ..traces import CLASS_NAMES, LaunchTrace, WarpGroup
from .batches import cache_keys, is_batch
from .launch import launch_of, resident
from .results import Remembering
from .workload import Workload

T = TypeVar("T")

#: Mean distance of the warps from their representative beyond which a prediction says so.
LARGE_DISTANCE = 0.25

#: Interval profiles of a batch that are held at once.
_MOST_PROFILE_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class TracedWorkload(Remembering, Workload):
    """One traced launch. `order` is how warps interleave in the caches, `selection` how the warp is chosen."""

    trace: LaunchTrace | None = None
    order: str = DEFAULT_ORDER
    selection: str = "clustering"
    #: Where cache simulations and representative warps are kept between processes; None: nowhere.
    kept: ResultCache | None = field(default=None, repr=False)
    #: Called before each cache simulation that is not known yet; what it raises ends the work.
    before_simulation: Callable[[], None] | None = field(default=None, repr=False)
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def _trace(self) -> LaunchTrace:
        assert self.trace is not None
        return self.trace

    def offers(self, view: str) -> bool:
        return view != "measured_run" or self.run is not None

    def with_overrides(self, overrides: Mapping[str, Any]) -> TracedWorkload:
        changed = super().with_overrides(overrides)
        assert isinstance(changed, TracedWorkload)
        return changed

    @property
    def sends_requests(self) -> bool:
        kinds = self._kinds
        return bool(np.any((kinds != 0) & (kinds != 4)))

    @property
    def total_instructions(self) -> float:
        """Of the whole launch; blocks that were not recorded are taken to be like those that were."""
        recorded, instructions = self._recorded
        return instructions * self._trace.header.blocks / max(recorded, 1)

    @property
    def is_ptx(self) -> bool:
        """Whether the recorded instructions are those of PTX, not of the machine."""
        return self._trace.header.origin == "ptx"

    @property
    def recorded_blocks(self) -> int:
        """Thread blocks that the trace holds."""
        return self._recorded[0]

    @property
    def recorded_size(self) -> tuple[int, float]:
        """Thread blocks that the trace holds, and the warp instructions of each on average."""
        blocks, instructions = self._recorded
        return blocks, instructions / max(blocks, 1)

    @property
    def _recorded(self) -> tuple[int, float]:
        """Thread blocks and warp instructions that the trace holds."""

        def count() -> tuple[int, float]:
            counts = [(group.blocks, group.instructions) for group in self._trace.groups()]
            return sum(blocks for blocks, _ in counts), float(sum(instructions for _, instructions in counts))

        return self.once("recorded", count)

    @property
    def recorded_order(self) -> bool:
        return True

    def divergent_loads_per_kilo_instruction(self, gpu: Gpu) -> float:
        """DPKI: loads that touch more than one line, per thousand warp instructions (MDM §IV)."""
        return 1000.0 * self.misses(gpu).divergent_loads / self._recorded[1]

    def bytes_per_instruction(self, gpu: Gpu) -> dict[str, float]:
        """Lines asked of the L1, and what moves to and from the LLC and DRAM."""
        misses = self.misses(gpu)
        lines = float(misses.executed @ misses.per_execution("lines")) * float(gpu.l1.line_bytes)
        llc = float(misses.llc_accesses * misses.transfer_bytes)
        dram = float(misses.dram_read_bytes + misses.dram_write_bytes)
        return {name: found / self._recorded[1] for name, found in (("L1", lines), ("LLC", llc), ("DRAM", dram))}

    def summary(self, gpu: Gpu) -> dict[str, Any]:
        """The cache simulation and the representative warp with its quality, on the machine as named for a batch."""
        machine = (gpu.original or gpu) if is_batch(gpu, self.launch) else gpu
        misses, warp = self.misses(machine), self.representative(machine)
        return {
            "order": self.order,
            "l1_miss_ratio": misses.l1_miss_ratio,
            "llc_miss_ratio": misses.llc_miss_ratio,
            "dram_read_bytes": misses.dram_read_bytes,
            "dram_write_bytes": misses.dram_write_bytes,
            "dpki": self.divergent_loads_per_kilo_instruction(machine),
            "representative_warp": warp.index,
            "warps": warp.warps,
            "cluster_sizes": list(warp.cluster_sizes),
            "mean_distance": warp.mean_distance,
            "instructions": len(warp.instructions),
            "mean_instructions": warp.mean_instructions,
        }

    def notes(self, gpu: Gpu) -> tuple[str, ...]:
        found = []
        coverage = self._trace.header.extra.get("opcode_coverage", 1.0)
        if coverage < 1.0:
            found.append(
                f"{100 * coverage:.1f} % of the instructions have a known opcode; the others count as computation"
            )
        recorded, blocks = self._recorded[0], self._trace.header.blocks
        if recorded < blocks:
            found.append(
                f"{recorded} of {blocks} thread blocks are recorded; the others are taken to be like them on average"
            )
        if self._trace.header.extra.get("registers_estimated"):
            found.append(
                f"{self._trace.header.registers_per_thread} registers per thread are an estimate from the PTX; "
                "give registers_per_thread in the workload file if you know them"
            )
        warp = self.representative(gpu)
        if warp.mean_distance > LARGE_DISTANCE:
            found.append(
                f"warps differ: on average {warp.mean_distance:.2f} from representative warp {warp.index} "
                f"(features over their means; its cluster has {max(warp.cluster_sizes)} of {warp.warps} warps)"
            )
        return tuple(found)

    @property
    def _kinds(self) -> Any:
        return self.once("kinds", lambda: instruction_kinds(self._trace.static))

    # -- what the machine decides ---------------------------------------------------

    def misses(self, gpu: Gpu, needed_by: str = "the cache simulation") -> MissProfile:
        """The cache simulation of one machine.

        The order of accesses is estimated with the times of the machine as
        named, so that changed bandwidths, latencies or clocks do not change what
        hits: those sweeps share one simulation.
        """

        def simulate() -> MissProfile:
            if self.before_simulation is not None:
                self.before_simulation()
            run = self._cache_run(gpu, needed_by)
            return simulate_caches(self._events(run.coalescing), self._kinds, run)

        return self._kept(self._misses_key(gpu), simulate, MissProfile)

    def _blocks_per_sm(self, gpu: Gpu) -> int:
        return int(np.floor(np.max(resident(self.launch, gpu).blocks_per_sm)))

    def _misses_key(self, gpu: Gpu) -> tuple[Any, ...]:
        values = (gpu.get(path) for path in cache_keys(self.order))
        return ("misses", *self._named(gpu), self.order, self._blocks_per_sm(gpu), *values)

    def _cache_run(self, gpu: Gpu, needed_by: str) -> CacheRun:
        classes = [CLASS_NAMES[index] for index in np.unique(self._trace.static.class_id)]
        blocks = self._blocks_per_sm(gpu)
        return cache_run(gpu, gpu.original or gpu, blocks, order=self.order, classes=classes, needed_by=needed_by)

    def _simulate_families(self, pairs: Sequence[tuple[Gpu, TracedWorkload]], needed_by: str) -> None:
        """Cache simulations that one pass can do together, before they are asked for one by one."""
        keyed = {workload._misses_key(gpu): (gpu, workload) for gpu, workload in pairs}
        unknown = {key: pair for key, pair in keyed.items() if self._known(key, MissProfile) is None}
        runs = [workload._cache_run(gpu, needed_by) for gpu, workload in unknown.values()]
        found = simulate_families(self._events, self._kinds, runs)
        for index, key in enumerate(unknown):
            if index in found:
                self._kept(key, functools.partial(found.pop, index), MissProfile)

    def _events(self, coalescing: Coalescing) -> list[Events]:
        return self.once(
            ("events", coalescing),
            lambda: list(collect_events(self._trace, coalescing.line_bytes, coalescing.latency_of)),
        )

    def block_sample(
        self, gpu: Gpu, needed_by: str = "the thread blocks", *, reorder: bool | None = None
    ) -> BlockSample:
        """Thread blocks that stand for all, with the compute latencies of one machine.

        `reorder` puts instructions in the order of an assembler; None: those of PTX.
        """
        line_bytes = int(gpu.require("l1.line_bytes", needed_by))
        latency = {name: float(value) for name, value in self.compute_latencies(gpu, needed_by).items()}
        order = self.is_ptx if reorder is None else reorder

        def sampled() -> BlockSample:
            blocks = self._kept(
                ("blocks", *self._named(gpu)), lambda: chosen_blocks(self._trace, self.recorded_blocks), WarpGroup
            )
            return sample_of_blocks(
                blocks, self._trace, line_bytes, lambda name: latency.get(name, 0.0), reorder=order
            )

        return self.once(("sample", line_bytes, order, *latency.values()), sampled)

    def compute_latencies(self, gpu: Gpu, needed_by: str) -> dict[str, Quantity]:
        """Latencies of the classes that the kernel has, memory apart."""
        used = [CLASS_NAMES[index] for index in np.unique(self._trace.static.class_id)]
        computing = [name for name in used if INSTRUCTION_CLASSES[name].kind != "memory"]
        return {name: gpu.timing(name, needed_by).latency_cycles for name in computing}

    def representative(self, gpu: Gpu, needed_by: str = "the representative warp") -> Representative:
        """Chosen once per trace, on the machine as named and with the launch as traced (GPUMech §VI-D)."""
        named = gpu.original or gpu
        return self._kept(
            ("representative", *self._named(gpu), self.order, self.selection),
            lambda: representative_warp(
                self._trace,
                latencies(self._trace.static, self._as_traced.misses(named, needed_by), named, needed_by),
                float(named.issue_rate),
                self.selection,
            ),
            Representative,
        )

    @property
    def _as_traced(self) -> TracedWorkload:
        """This workload without overrides of its launch; what is worked out for one serves the other."""
        return dataclasses.replace(self, launch=launch_of(self._trace), launch_overrides={})

    def profile_on(self, gpu: Gpu, needed_by: str, *, min_gap: float = 1.0) -> IntervalProfile:
        """Intervals of the representative warp on one machine."""
        misses = self.misses(gpu, needed_by)
        static = self._trace.static
        return profile_of_warp(
            self.representative(gpu, needed_by),
            static,
            latencies(static, misses, gpu, needed_by),
            misses,
            float(gpu.issue_rate),
            min_gap=min_gap,
        )

    # -- the views that models ask for ---------------------------------------------------

    def interval_profiles(
        self, gpu: Gpu, size: int, needed_by: str, *, compute_latency: bool = True, min_gap: float = 1.0
    ) -> Iterator[tuple[Any, IntervalProfile]]:
        for index in range(size):
            machine, workload = self.one_of(gpu, index)
            yield slice(index, index + 1), workload.profile_on(machine, needed_by, min_gap=min_gap)

    def profile_batches(
        self, gpu: Gpu, size: int, needed_by: str, *, compute_latency: bool = True, min_gap: float = 1.0
    ) -> Iterator[tuple[Any, ProfileBatch]]:
        """One profile for all machines that differ in nothing that intervals depend on."""
        key = (gpu, self.launch, min_gap)
        kept_key, kept = self._memo.get("profiles", ((None,) * 3, []))
        # Models that are asked about the same batch one after the other share its profiles.
        if kept_key[0] is gpu and kept_key[1] is self.launch and kept_key[2] == min_gap:
            yield from kept
            return
        made: list[tuple[Any, ProfileBatch]] = []
        total = 0
        for rows, misses in self._cache_groups(gpu, size, needed_by):
            for part in self._profiles_of_group(gpu, rows, misses, needed_by, min_gap):
                yield part
                total += part[1].matrix.nbytes
                if total <= _MOST_PROFILE_BYTES:
                    made.append(part)
        if total <= _MOST_PROFILE_BYTES:
            self._memo["profiles"] = (key, made)

    def _profiles_of_group(
        self, gpu: Gpu, rows: Any, misses: MissProfile, needed_by: str, min_gap: float
    ) -> Iterator[tuple[Any, ProfileBatch]]:
        """Profiles of machines that share a cache simulation, in parts that fit in memory."""
        from ..analysis import _cache_records as memory

        static = self._trace.static
        warp = self.representative(gpu, needed_by)
        used = [int(index) for index in np.unique(static.class_id)]
        computing = [index for index in used if INSTRUCTION_CLASSES[CLASS_NAMES[index]].kind != "memory"]
        columns = [gpu.timing(CLASS_NAMES[index], needed_by).latency_cycles for index in computing]
        columns += [*level_latencies(gpu, needed_by), gpu.issue_rate]
        chosen = [column[rows] if np.ndim(column) else column for column in map(np.asarray, columns)]
        first, inverse = distinct(chosen, len(rows))
        table = np.stack([np.broadcast_to(column, len(rows))[first] for column in chosen], axis=1).astype(np.float64)
        loads = np.isin(misses.kinds, (memory.LOAD, memory.ATOMIC))
        levels = misses.levels
        at_once = max(1, _MOST_PROFILE_BYTES // (48 * (len(warp.instructions) + 1)))
        for begin in range(0, len(table), at_once):
            part = table[begin : begin + at_once]
            latency = np.zeros((len(part), len(static)))
            for column, index in enumerate(computing):
                latency[:, static.class_id == index] = part[:, column, None]
            latency[:, loads] = average_latency(levels[loads].T[:, None, :], part[:, -4:-1].T[:, :, None])
            batch = profiles_of_warp(warp, static, latency, misses, part[:, -1], min_gap=min_gap)
            inside = np.flatnonzero((inverse >= begin) & (inverse < begin + len(part)))
            yield rows[inside], dataclasses.replace(batch, of_machine=inverse[inside] - begin)

    def timing(self, gpu: Gpu, instruction_class: str, needed_by: str) -> InstructionTiming:
        """Of memory classes: the average latency of their executions, and the interval of the busiest part.

        Parts are the L1 port (a line a cycle), an SM's share of the NoC and of the DRAM.
        """
        if INSTRUCTION_CLASSES[instruction_class].kind != "memory":
            return gpu.timing(instruction_class, needed_by)
        # Models ask for the few classes of one machine again and again.
        now = (gpu, self.launch, self.order)
        kept: tuple[Any, dict[str, InstructionTiming]] = self._memo.get("timings", ((), {}))
        if len(kept[0]) != len(now) or any(one is not other for one, other in zip(kept[0], now, strict=True)):
            kept = self._memo["timings"] = (now, {})
        if instruction_class not in kept[1]:
            kept[1][instruction_class] = self._memory_timing(gpu, instruction_class, needed_by)
        return kept[1][instruction_class]

    def _memory_timing(self, gpu: Gpu, instruction_class: str, needed_by: str) -> InstructionTiming:
        size = self._size(gpu)
        latency, interval = np.empty(size), np.empty(size)
        levels = level_latencies(gpu, needed_by)
        active = resident(self.launch, gpu).active_sms
        for rows, misses in self._cache_groups(gpu, size, needed_by):

            def at(value: Any, rows: Any = rows) -> Any:
                return value[rows] if np.ndim(value) else value

            weights = np.where(
                self._trace.static.class_id == CLASS_NAMES.index(instruction_class), misses.executed, 0
            )
            total = weights.sum()
            if not total:
                own = gpu.timing(instruction_class, needed_by)
                latency[rows], interval[rows] = at(own.latency_cycles), at(own.interval_cycles)
                continue
            served = [float(weights @ part / total) for part in misses.levels.T]
            parts = [float(weights @ misses.per_execution("lines") / total)]
            share = float(weights @ misses.dram_requests_per_execution / total)
            parts.append(share * at(gpu.service_cycles_now("dram", needed_by)) * at(active))
            if gpu.noc.bandwidth_bytes_per_s is not None:
                leaving = misses.misses_per_execution + misses.writebacks_per_execution
                share = float(weights @ leaving / total)
                parts.append(share * at(gpu.service_cycles_now("noc", needed_by)) * at(active))
            latency[rows] = average_latency(served, [at(level) for level in levels])
            interval[rows] = functools.reduce(np.maximum, parts)
        if not is_batch(gpu, self.launch):
            return InstructionTiming(float(latency[0]), float(interval[0]), "memory")
        return InstructionTiming(latency, interval, "memory")

    def memory_latency_cycles(self, gpu: Gpu, needed_by: str) -> Quantity:
        names = [name for name, _ in self.instruction_mix(gpu, needed_by).of_kind("memory")]
        loads = [name for name in names if not name.startswith("store")] or names
        return np.mean([self.timing(gpu, name, needed_by).latency_cycles for name in loads], axis=0)

    def instruction_mix(self, gpu: Gpu, needed_by: str) -> InstructionMix:
        """Of the representative warp. An access that touches more than one line is uncoalesced."""
        base = self.dependence_graph(gpu, needed_by).instruction_mix(
            lambda name: self.timing(gpu, name, needed_by).latency_cycles
        )
        named = gpu.original or gpu
        misses = self._as_traced.misses(named, needed_by)
        static = self._trace.static
        executed = np.bincount(self.representative(gpu, needed_by).instructions, minlength=len(static))
        divergent = executed * misses.per_execution("divergent")
        entries = {}
        for name, entry in base.entries.items():
            chosen = static.class_id == CLASS_NAMES.index(name)
            uncoalesced = float(divergent[chosen].sum()) if INSTRUCTION_CLASSES[name].kind == "memory" else 0.0
            entries[name] = MixEntry(entry.count, entry.independent, min(uncoalesced, entry.count))
        lines = divergent @ misses.per_execution("lines")
        transactions = float(lines / divergent.sum()) if divergent.sum() > 0 else None
        return InstructionMix(entries, base.synchronizations, transactions)

    def work_flow_graph(self, gpu: Gpu, needed_by: str) -> WorkFlowGraph:
        return self.dependence_graph(gpu, needed_by).work_flow_graph

    def dependence_graph(self, gpu: Gpu, needed_by: str) -> DependenceGraph:
        return self.once(
            ("graph", self._named(gpu), self.order, self.selection),
            lambda: graph_of_warp(self.representative(gpu, needed_by), self._trace.static),
        )

    def _named(self, gpu: Gpu) -> tuple[Any, ...]:
        """What the machine as named is, whatever its name: results kept for one must not serve another."""
        named = gpu.original or gpu
        # Kept with the machine, so that no other one can come to have its identity.
        known: dict[int, Any] = self.once("named", dict)
        entry = known.get(id(named))
        if entry is None:
            if len(known) > 64:
                known.clear()
            # Other threads may clear it: what is returned is not looked up again.
            entry = known[id(named)] = named, tuple(named.get(path) for path in parameters())
        return entry[1]

    # -- batches ---------------------------------------------------------------------------

    def _size(self, gpu: Gpu) -> int:
        arrays = [*gpu.overrides.values(), self.launch.warps_per_sm, self.launch.blocks_per_sm]
        return max([np.size(value) for value in arrays if isinstance(value, np.ndarray)], default=1)

    def one_of(self, gpu: Gpu, index: int) -> tuple[Gpu, TracedWorkload]:
        """One machine of a batch, and this workload with its residents there."""
        launch = {
            f"launch.{key}": getattr(self.launch, key)[index]
            for key in ("warps_per_sm", "blocks_per_sm")
            if isinstance(getattr(self.launch, key), np.ndarray)
        }
        return machine_of_batch(gpu, index), self.with_overrides(launch) if launch else self

    def _cache_groups(self, gpu: Gpu, size: int, needed_by: str) -> Iterator[tuple[Any, MissProfile]]:
        """(rows, cache simulation) of a batch: machines that differ in nothing that caches see share one."""
        blocks = np.floor(resident(self.launch, gpu).blocks_per_sm)
        first, inverse = distinct([blocks, *(gpu.get(path) for path in cache_keys(self.order))], size)
        pairs = [self.one_of(gpu, int(index)) for index in first]
        if len(pairs) > 1 and self.order != "progress":
            self._simulate_families(pairs, needed_by)
        for group, (machine, workload) in enumerate(pairs):
            rows = np.arange(size) if len(first) == 1 else np.flatnonzero(inverse == group)
            yield rows, workload.misses(machine, needed_by)


def workload_of_trace(
    trace: LaunchTrace, *, order: str | None = None, selection: str = "clustering"
) -> TracedWorkload:
    """A workload whose views come from a recorded launch."""
    return TracedWorkload(
        name=trace.header.kernel,
        launch=launch_of(trace),
        launch_index=trace.header.launch_index,
        trace=trace,
        order=order or DEFAULT_ORDER,
        selection=selection,
    )
