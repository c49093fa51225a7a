"""From a trace to facts: cache simulation, representative warp, and the views that a model needs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import (
    CacheRun,
    Coalescing,
    DependenceGraph,
    EventStream,
    InstructionMix,
    IntervalProfile,
    MissProfile,
    MixEntry,
    ProfileBatch,
    cache_runs,
    instruction_kinds,
    simulate_caches,
    simulate_families,
)
from ..analysis.banks import mean_bank_cycles, shared_accesses, with_conflicts
from ..analysis.block_samples import BlockChoice, chosen_blocks
from ..analysis.caches import LlcContent, empty_caches
from ..analysis.first_touches import first_touches
from ..analysis.representative import (
    Representative,
    WarpChoice,
    average_latency,
    graph_of_warp,
    latencies,
    level_latencies,
    profile_of_warp,
    profiles_of_warp,
    representative_warp,
)
from ..machine import INSTRUCTION_CLASSES, Gpu, InstructionTiming, Quantity, distinct
from ..traces import CLASS_NAMES, LaunchTrace, WarpGroup
from .facts import CacheResults, Facts, Needs, TraceFacts, batch_shape
from .launch import Residency, adapted, launch_of, resident
from .workload import Workload

#: A prediction warns if the warps' mean distance from their representative exceeds this.
LARGE_DISTANCE = 0.25
#: What came with clusters, by its opcodes in PTX and in machine code.
_CLUSTERS_SINCE = 9
_OF_CLUSTERS = {
    "wgmma": ("wgmma", "HGMMA", "IGMMA", "QGMMA", "BGMMA"),
    "bulk copies (TMA)": ("cp.async.bulk", "UTMA", "UBLKCP", "UBLKPF", "UBLKRED"),
}
#: Most interval profiles of a batch held in memory at once.
_MOST_PROFILE_BYTES = 64 * 2**20


def analyse_trace(workload: Workload, gpu: Gpu, needs: Needs, needed_by: str) -> Facts:
    """Run the steps that a model needs of a trace, each once, in order."""
    assert workload.trace is not None
    trace = workload.trace
    shape = batch_shape(workload.launch, gpu)
    residency = resident(workload.launch, gpu)
    caches = _simulate(workload, *runs_of(workload, gpu, residency, shape, needed_by))
    choice = _warp_choice(workload, gpu, needed_by, () if shape else caches.runs)
    warp = _representative(workload, choice)
    blocks = sampled_blocks(workload, warp) if needs.events else None
    facts = Facts(
        workload,
        gpu,
        shape,
        residency,
        notes=(*_notes(trace, warp), *_missing_on(trace, gpu)),
        # Blocks that were not recorded count like the recorded ones on average.
        total_instructions=warp.recorded_instructions * trace.header.blocks / max(warp.recorded_blocks, 1),
        traced=TraceFacts(trace, caches, choice, warp, blocks),
    )
    if needs.view == "interval_profile" and not needs.events:
        return replace(facts, views={needs.view: WarpIntervals(facts, needs, needed_by)})
    if needs.view in ("instruction_mix", "work_flow_graph", "dependence_graph"):
        return _with_graph(facts, needs.view, needed_by)
    return facts


def cache_misses(workload: Workload, gpu: Gpu, needed_by: str = "the cache simulation") -> MissProfile:
    """Only the cache simulation of a traced workload on one machine."""
    workload.require_trace(needed_by)
    (run,), _ = runs_of(workload, gpu, resident(workload.launch, gpu), (), needed_by)
    return simulated(workload, run)


def representative_of(workload: Workload, gpu: Gpu, needed_by: str = "the representative warp") -> Representative:
    """Only the representative warp of a traced workload."""
    workload.require_trace(needed_by)
    return _representative(workload, _warp_choice(workload, gpu, needed_by))


# -- the costly steps ----------------------------------------------------------------------------


def runs_of(
    workload: Workload, gpu: Gpu, residency: Residency, shape: tuple[int, ...], needed_by: str
) -> tuple[list[CacheRun], NDArray[np.int64]]:
    """The distinct cache simulations of a batch, and the index of each machine's."""
    assert workload.trace is not None
    return cache_runs(
        adapted(gpu, workload.launch),
        gpu.original or gpu,
        residency.blocks_per_sm,
        shape[0] if shape else 1,
        order=workload.order,
        classes=classes_of(workload.trace),
        ptx=workload.is_ptx,
        needed_by=needed_by,
    )


def _simulate(workload: Workload, runs: Sequence[CacheRun], which: NDArray[np.int64]) -> CacheResults:
    """Simulate every run without a result once; runs of one family share a pass."""
    if len(runs) > 1 and workload.after is None:
        _simulate_families(workload, runs)
    return CacheResults(tuple(runs), which, tuple(simulated(workload, run) for run in runs))


def simulated(workload: Workload, run: CacheRun) -> MissProfile:
    """The result of one cache simulation."""
    trace = workload.require_trace("the cache simulation")

    def simulate() -> MissProfile:
        if workload.before_simulation is not None:
            workload.before_simulation()
        events, launched = _events(workload, run.coalescing), trace.header.blocks
        before = _left_in_llc(workload.after, run)
        fitted, _ = run.filled_by(events.blocks, launched)
        found = simulate_caches(events, instruction_kinds(trace.static), run, launched, before)
        found = _of_launch(workload, run, found)
        # Lines that a hash spreads over banks at random load them the more evenly, the more SMs ask for their own.
        chance = (fitted.config.sms / run.config.sms) ** 0.5 if run.config.llc_hashed else 1.0
        return replace(
            found,
            busiest_bank=1.0 + (found.busiest_bank - 1.0) * chance,
            busiest_channel=1.0 + (found.busiest_channel - 1.0) * chance,
        )

    if workload.after is not None:  # kept in memory only: the key would be that of all traces before
        return workload.results.once(("warm", run), simulate)
    return workload.results.get(trace, run, MissProfile, simulate)


def _of_launch(workload: Workload, run: CacheRun, found: MissProfile) -> MissProfile:
    """What a simulation of some blocks says about all of the launch."""
    trace, events = workload.require_trace("the cache simulation"), _events(workload, run.coalescing)
    touches = workload.results.once(
        ("first touches", run.coalescing), lambda: first_touches(trace, events, instruction_kinds(trace.static))
    )
    return found if touches is None else touches.applied(found, run.config)


def _left_in_llc(before: Workload | None, run: CacheRun) -> LlcContent | None:
    """What a launch leaves in the L2 after those before it; None before the first."""
    if before is None:
        return None

    def simulate() -> LlcContent:
        trace = before.require_trace("the cache simulation")
        events = _events(before, run.coalescing)
        content = _left_in_llc(before.after, run) or LlcContent(*empty_caches(run.config)[2:])
        simulate_caches(events, instruction_kinds(trace.static), run, trace.header.blocks, content)
        return content

    content = before.results.once(("left in the L2", run), simulate)
    return LlcContent(content.tags.copy(), content.states.copy())


def _simulate_families(workload: Workload, runs: Sequence[CacheRun]) -> None:
    assert workload.trace is not None
    trace, results = workload.trace, workload.results
    unknown = [run for run in runs if results.known(trace, run, MissProfile) is None]
    if not unknown:
        return
    events_of, kinds = functools.partial(_events, workload), instruction_kinds(trace.static)
    for index, made in simulate_families(events_of, kinds, unknown, trace.header.blocks).items():
        of_launch = _of_launch(workload, unknown[index], made)
        results.get(trace, unknown[index], MissProfile, functools.partial(lambda each: each, of_launch))


def _events(workload: Workload, coalescing: Coalescing) -> EventStream:
    """Accesses and barriers of the whole trace; cache simulations of all machines share them."""
    assert workload.trace is not None
    trace = workload.trace
    return workload.results.once(
        coalescing,
        lambda: EventStream(trace, coalescing.line_bytes, coalescing.latency_of, coalescing.assembled),
    )


def _warp_choice(workload: Workload, gpu: Gpu, needed_by: str, runs: Sequence[CacheRun] = ()) -> WarpChoice:
    """Overrides do not change the representative warp (GPUMech §VI-D). `runs` are those of the machine itself."""
    assert workload.trace is not None
    named, launch = gpu.original or gpu, launch_of(workload.trace)
    if runs and named is gpu and workload.launch == launch:
        (run,) = runs
    else:
        (run,), _ = runs_of(replace(workload, launch=launch), named, resident(launch, named), (), needed_by)
    levels = tuple(level_latencies(named, needed_by).tolist())
    return WarpChoice(run, levels, float(named.issue_rate), workload.selection)


def _representative(workload: Workload, choice: WarpChoice) -> Representative:
    assert workload.trace is not None
    trace = workload.trace

    def choose() -> Representative:
        misses = simulated(workload, choice.run)
        latency = latencies(trace.static, misses, choice.run.coalescing.latency_of, choice.level_latencies)
        return representative_warp(trace, latency, choice.issue_rate, choice.selection)

    return workload.results.get(trace, choice, Representative, choose)


def sampled_blocks(workload: Workload, warp: Representative) -> WarpGroup:
    """Some thread blocks that stand for all."""
    assert workload.trace is not None
    trace = workload.trace
    return workload.results.get(trace, BlockChoice(), WarpGroup, lambda: chosen_blocks(trace, warp.recorded_blocks))


def _notes(trace: LaunchTrace, warp: Representative) -> tuple[str, ...]:
    found = []
    coverage = trace.header.extra.get("opcode_coverage", 1.0)
    if coverage < 1.0:
        found.append(
            f"{100 * coverage:.1f} % of the instructions have a known opcode; the others count as computation"
        )
    recorded, blocks = warp.recorded_blocks, trace.header.blocks
    if recorded < blocks:
        found.append(
            f"{recorded} of {blocks} thread blocks are recorded; the others are assumed to be like them on average"
        )
    if trace.header.extra.get("registers_estimated"):
        found.append(
            f"{trace.header.registers_per_thread} registers per thread are an estimate from the PTX; "
            "give registers_per_thread in the workload file if you know them"
        )
    if warp.mean_distance > LARGE_DISTANCE:
        found.append(
            f"warps differ: on average {warp.mean_distance:.2f} from representative warp {warp.index} "
            f"(features over their means; its cluster has {max(warp.cluster_sizes)} of {warp.warps} warps)"
        )
    return tuple(found)


def _missing_on(trace: LaunchTrace, gpu: Gpu) -> tuple[str, ...]:
    """What a kernel uses that GPUs have from a later compute capability on."""
    major = re.match(r"\d+", gpu.compute_capability or "")
    if major is None or int(major[0]) >= _CLUSTERS_SINCE:
        return ()
    used = [
        name for name, marks in _OF_CLUSTERS.items() if any(each.startswith(marks) for each in trace.static.opcode)
    ]
    if trace.header.extra.get("cluster_blocks", 1) > 1:
        used.append("clusters")
    text = (
        f"the kernel uses {' and '.join(used)}, which GPUs of compute capability {gpu.compute_capability} lack: it "
        "does not run on this one"
    )
    return (text,) if used else ()


# -- latencies ---------------------------------------------------------------------------------------


def classes_of(trace: LaunchTrace) -> list[str]:
    """Names of the instruction classes that a trace has."""
    return [CLASS_NAMES[index] for index in np.unique(trace.static.class_id)]


def compute_latencies_of(trace: LaunchTrace, gpu: Gpu, needed_by: str) -> dict[str, Quantity]:
    """Latencies of the kernel's classes, except memory classes."""
    computing = [name for name in classes_of(trace) if INSTRUCTION_CLASSES[name].kind != "memory"]
    return {name: gpu.timing(name, needed_by).latency_cycles for name in computing}


# -- intervals -------------------------------------------------------------------------------------


@dataclass(eq=False)
class WarpIntervals:
    """Intervals of the representative warp on every machine of a batch, in parts that fit in memory."""

    facts: Facts
    needs: Needs
    needed_by: str
    _held: list[tuple[Any, ProfileBatch]] | None = field(default=None, repr=False)

    def batches(self, size: int) -> Iterator[tuple[Any, ProfileBatch]]:
        """Machines that do not differ in anything intervals depend on share a profile."""
        if self._held is not None:  # models with the same facts share the profiles
            yield from self._held
            return
        made: list[tuple[Any, ProfileBatch]] = []
        total = 0
        assert self.facts.traced is not None
        for rows, misses in self.facts.traced.caches.groups():
            for part in self._profiles(rows, misses):
                yield part
                total += part[1].matrix.nbytes
                if total <= _MOST_PROFILE_BYTES:
                    made.append(part)
        if total <= _MOST_PROFILE_BYTES:
            self._held = made

    def _profiles(self, rows: NDArray[np.int64], misses: MissProfile) -> Iterator[tuple[Any, ProfileBatch]]:
        """Profiles of machines that share a cache simulation."""
        from ..analysis import _cache_records as memory

        traced, gpu = self.facts.traced, self.facts.gpu
        assert traced is not None
        static = traced.trace.static
        computing = self._compute_latencies()
        columns = [*computing.values(), *level_latencies(gpu, self.needed_by), gpu.issue_rate]
        chosen = [column[rows] if np.ndim(column) else column for column in map(np.asarray, columns)]
        first, inverse = distinct(chosen, len(rows))
        table = np.stack([np.broadcast_to(column, len(rows))[first] for column in chosen], axis=1).astype(np.float64)
        loads = np.isin(misses.kinds, (memory.LOAD, memory.ATOMIC))
        levels = misses.levels
        at_once = max(1, _MOST_PROFILE_BYTES // (48 * (len(traced.warp.instructions) + 1)))
        for begin in range(0, len(table), at_once):
            part = table[begin : begin + at_once]
            latency = np.zeros((len(part), len(static)))
            for column, name in enumerate(computing):
                latency[:, static.class_id == CLASS_NAMES.index(name)] = part[:, column, None]
            latency[:, loads] = average_latency(levels[loads].T[:, None, :], part[:, -4:-1].T[:, :, None])
            batch = profiles_of_warp(traced.warp, static, latency, misses, part[:, -1], min_gap=self.needs.min_gap)
            inside = np.flatnonzero((inverse >= begin) & (inverse < begin + len(part)))
            yield rows[inside], replace(batch, of_machine=inverse[inside] - begin)

    def _compute_latencies(self) -> dict[str, Quantity]:
        """Latencies of computation, if it makes a warp stall at all."""
        traced = self.facts.traced
        assert traced is not None
        found = compute_latencies_of(traced.trace, self.facts.gpu, self.needed_by)
        return found if self.needs.compute_latency else dict.fromkeys(found, 0.0)

    def one_by_one(self) -> Iterator[tuple[Any, IntervalProfile]]:
        """The profile of a single machine, with the cause of every stall."""
        traced, gpu = self.facts.traced, self.facts.gpu
        assert traced is not None and self.facts.size == 1
        computing = self._compute_latencies()
        levels = level_latencies(gpu, self.needed_by).tolist()
        latency = latencies(traced.trace.static, traced.misses, lambda name: float(computing.get(name, 0.0)), levels)
        rate = float(np.max(gpu.issue_rate))
        profile = profile_of_warp(
            traced.warp, traced.trace.static, latency, traced.misses, rate, min_gap=self.needs.min_gap
        )
        yield slice(0, 1), profile


# -- views of the representative warp ------------------------------------------------------------------


def _with_graph(facts: Facts, view: str, needed_by: str) -> Facts:
    """Add the warp's dependence graph, or a view derived from it, to the facts."""
    traced = facts.traced
    assert traced is not None
    graph = facts.workload.results.once(
        ("graph", traced.choice), lambda: graph_of_warp(traced.warp, traced.trace.static)
    )
    facts = replace(facts, timings={**_memory_timings(facts, needed_by), **_shared_timings(facts, needed_by)})
    if view == "instruction_mix":
        return replace(facts, views={view: _mix(facts, graph, needed_by)})
    return replace(facts, views={view: graph if view == "dependence_graph" else graph.work_flow_graph})


def _mix(facts: Facts, graph: DependenceGraph, needed_by: str) -> InstructionMix:
    """The mix of the representative warp. An access that touches more than one line is uncoalesced."""
    traced = facts.traced
    assert traced is not None
    base = graph.instruction_mix(lambda name: facts.timing(name, needed_by).latency_cycles)
    misses = simulated(facts.workload, traced.choice.run)
    static = traced.trace.static
    executed = np.bincount(traced.warp.instructions, minlength=len(static))
    divergent = executed * misses.per_execution("divergent")
    entries = {}
    for name, entry in base.entries.items():
        chosen = static.class_id == CLASS_NAMES.index(name)
        uncoalesced = float(divergent[chosen].sum()) if INSTRUCTION_CLASSES[name].kind == "memory" else 0.0
        entries[name] = MixEntry(entry.count, entry.independent, min(uncoalesced, entry.count))
    lines = divergent @ misses.per_execution("lines")
    transactions = float(lines / divergent.sum()) if divergent.sum() > 0 else None
    return InstructionMix(entries, base.synchronizations, transactions, waits=base.waits)


def _memory_timings(facts: Facts, needed_by: str) -> Mapping[str, InstructionTiming]:
    """λ and Λ of memory classes: the average latency of an execution, and the interval of its bottleneck.

    The bottleneck is the L1 port (one line per cycle), or the SM's share of the NoC or of DRAM.
    """
    assert facts.traced is not None
    names = [name for name in classes_of(facts.traced.trace) if INSTRUCTION_CLASSES[name].kind == "memory"]
    return {name: _memory_timing(facts, name, needed_by) for name in names}


def bank_cycles(facts: Facts) -> Mapping[str, float]:
    """Cycles for which an access to shared memory holds the banks on average, by class; empty without addresses."""
    traced, workload = facts.traced, facts.workload
    if traced is None or not shared_accesses(traced.trace.static).any():
        return {}
    trace, warp = traced.trace, traced.warp
    return workload.results.once(
        "bank cycles", lambda: mean_bank_cycles(sampled_blocks(workload, warp), trace.static)
    )


def _shared_timings(facts: Facts, needed_by: str) -> Mapping[str, InstructionTiming]:
    """λ and Λ of shared memory with the bank conflicts of the kernel's addresses."""
    found = bank_cycles(facts).items()
    return {name: with_conflicts(facts.gpu.timing(name, needed_by), cycles - 1.0) for name, cycles in found}


def _memory_timing(facts: Facts, instruction_class: str, needed_by: str) -> InstructionTiming:
    traced, gpu = facts.traced, facts.gpu
    assert traced is not None
    latency, interval = np.empty(facts.size), np.empty(facts.size)
    levels = level_latencies(gpu, needed_by)
    active = facts.residency.active_sms
    static = traced.trace.static
    for rows, misses in traced.caches.groups():

        def at(value: Any, rows: Any = rows) -> Any:
            return value[rows] if np.ndim(value) else value

        weights = np.where(static.class_id == CLASS_NAMES.index(instruction_class), misses.executed, 0)
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
    if not facts.shape:
        return InstructionTiming(float(latency[0]), float(interval[0]), "memory")
    return InstructionTiming(latency, interval, "memory")
