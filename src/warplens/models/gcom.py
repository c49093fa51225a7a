"""GCoM (Lee et al., ISCA 2022): intervals on an SM of sub-cores, with stalls for functional units and the L1.

Data stalls are hidden by the other warps of a sub-core alone. Functional units belong to a sub-core; the load/store
unit, and with it the L1's banks, is the SM's. Behind the L1 stands MDM's contention. SMs, and sub-cores, with fewer
warps than others are idle at the end. We have the authors' published code, not the paper's text, so the equations
are numbered here (docs/models/gcom.md), and what the code does is what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import COLUMNS, STALL_CAUSES
from ..machine import INSTRUCTION_CLASSES, Gpu
from ..traces import CLASS_NAMES
from ..workload import Needs, Workload
from .base import Array, Aspect, Case, Model, Outcome, option
from .interval import given_stalls, is_greedy, without_banks
from .papers import GCOM
from .prediction import Condition

#: What an SM's time goes to, in the order in which `_interval_parts` gives it.
PARTS = ("base", "data", "units", "l1", "noc", "dram", "mshr", "idle")
#: The category of a CPI stack that a part belongs to; data stalls are split by their causes.
_CATEGORY = {
    "base": "BASE",
    "units": "BASE",
    "l1": "L1",
    "noc": "NOC",
    "dram": "QUEUE",
    "mshr": "MSHR",
    "idle": "IDLE",
}


@dataclass(frozen=True)
class Sm:
    """Numbers of one machine that the equations read."""

    sub_cores: float
    issue_width: float
    greedy: bool
    active_sms: float
    mshrs: float
    llc_latency: float
    dram_latency: float
    noc_service: float
    dram_service: float
    writes_reach_dram: bool
    operand_collectors: int
    unit_queue: int


@dataclass(frozen=True)
class Intervals:
    """Columns of a warp's profile, and the cycles for which each interval holds the units."""

    instructions: Array
    stall: Array
    reads: Array
    writes: Array
    miss_ratio: Array
    #: Per interval and unit of a sub-core, in its cycles; empty where the instructions are unknown.
    units: Array
    #: Per interval: cycles on the load/store unit of the SM.
    load_store: Array


#: What the machine of a kernel with memory requests must give.
MEMORY_NEEDS = (
    "l1.mshrs",
    "llc.latency_cycles",
    "dram.latency_cycles",
    "l1.line_bytes",
    "noc.bandwidth_bytes_per_s",
    "dram.bandwidth_bytes_per_s",
)


@dataclass(frozen=True)
class Gcom(Model):
    """Sub-cores, functional units, a banked L1 and idle SMs around MDM's memory."""

    name = "gcom"
    title = "GCoM"
    paper = GCOM
    equations = "Q-1 … Q-14"
    needs = "interval_profile"
    categories = ("BASE", *STALL_CAUSES, "MSHR", "NOC", "QUEUE", "IDLE")
    aspects = frozenset(
        {
            Aspect.ILP,
            Aspect.COMPUTE_LATENCY,
            Aspect.MEMORY_LATENCY,
            Aspect.SUBSYSTEMS,
            Aspect.WORK_GROUPS,
            Aspect.DIVERGENT_WARPS,
            Aspect.ISSUE_LIMIT,
            Aspect.SCHEDULER,
        }
    )

    policy: str | None = option(None, "scheduling equations; auto follows the machine", (None, "rr", "gto"))
    min_gap: float = option(1.0, "intervals of a graph or a trace close at stalls of this many cycles")
    operand_collectors: int = option(8, "instructions that an SM's operand collectors hold (the authors' RTX 2060)")
    unit_queue: int = option(2, "instructions that wait before a functional unit (the authors' RTX 2060)")

    @property
    def requirements(self) -> Needs:
        return Needs(self.needs, min_gap=self.min_gap)

    def check(self, workload: Workload, gpu: Gpu) -> None:
        super().check(workload, gpu)
        for path in MEMORY_NEEDS if workload.sends_requests else ():
            gpu.require(path, f"model {self.name!r}")

    def evaluate(self, case: Case) -> Outcome:
        cycles = np.zeros(case.size)
        parts = np.zeros((len(PARTS), case.size))
        shares = np.zeros((len(STALL_CAUSES), case.size))
        alpha = 0.0
        for row, profile, causes in _profiles(case):
            found = _intervals(case, row, profile)
            alpha = float(found.instructions.sum())
            cycles[row], parts[:, row] = _launch(case, row, partial(_sm_cycles, self._sm(case, row), found))
            shares[:, row] = causes / causes.sum() if causes.sum() > 0 else np.eye(len(STALL_CAUSES))[0]
        total = alpha * case.array(case.residency.total_warps)
        if case.facts.total_instructions is not None:
            # Warps differ: the launch has so many times the instructions of as many representative warps.
            total, like_it = case.array(case.facts.total_instructions), total
            cycles, parts = cycles * (total / like_it), parts * (total / like_it)
        of_part = dict(zip(PARTS, parts, strict=True))
        stack = dict.fromkeys(self.categories, np.zeros(case.size))
        for name, category in _CATEGORY.items():
            stack[category] = stack[category] + of_part[name] * case.active_sms / total
        for cause, share in zip(STALL_CAUSES, shares, strict=True):
            stack[cause] = stack[cause] + of_part["data"] * share * case.active_sms / total
        return Outcome(
            instructions_per_warp=alpha,
            cycles=cycles,
            stack=stack,
            terms={f"S_{name}": part for name, part in of_part.items()},
            conditions=(*given_stalls(case), *without_banks(case), *_without_units(case)),
        )

    def _sm(self, case: Case, row: int) -> Sm:
        gpu = case.gpu

        def number(value: Any) -> float:
            return float(case.array(value)[row])

        memory = dict.fromkeys(("mshrs", "llc_latency", "dram_latency", "noc_service", "dram_service"), 1.0)
        if case.workload.sends_requests:
            memory = {
                "mshrs": number(gpu.l1.mshrs),
                "llc_latency": number(gpu.llc.latency_cycles),
                "dram_latency": number(gpu.dram_latency_cycles_now(case.model_name)),
                "noc_service": number(gpu.service_cycles_now("noc", case.model_name)),
                "dram_service": number(gpu.service_cycles_now("dram", case.model_name)),
            }
        return Sm(
            sub_cores=number(gpu.schedulers),
            issue_width=number(gpu.issue_width),
            greedy=is_greedy(gpu) if self.policy is None else self.policy == "gto",
            active_sms=float(case.active_sms[row]),
            **memory,
            writes_reach_dram=gpu.llc.write_policy != "back",
            operand_collectors=self.operand_collectors,
            unit_queue=self.unit_queue,
        )


# -- a launch ----------------------------------------------------------------------------------


def _launch(case: Case, row: int, of_warps: Callable[[float], Array]) -> tuple[float, Array]:
    """(Cycles of the launch, parts of an active SM's time on average). Eqs. (Q-1, Q-2)"""
    found = case.residency
    warps, resident, active, total = (
        float(case.array(each)[row])
        for each in (found.warps_per_block, found.blocks_per_sm, found.active_sms, found.total_warps)
    )
    blocks = total / warps
    least = max(np.floor(blocks / active + 1e-9), 1.0)
    busier = max(round(blocks - least * active, 9), 0.0)  # SMs that get a block more
    kinds = [(least, active - busier), (least + 1.0, busier)]
    timed = [(_waves(of_warps, given, resident, warps), sms) for given, sms in kinds if sms > 0]
    cycles = max(float(parts.sum()) for parts, _ in timed)
    average = np.zeros(len(PARTS))
    for parts, sms in timed:
        average += parts * sms / active
        average[PARTS.index("idle")] += (cycles - parts.sum()) * sms / active  # Eq.
    average[PARTS.index("base")] += 1.0
    return cycles + 1.0, average


def _waves(of_warps: Callable[[float], Array], blocks: float, resident: float, warps: float) -> Array:
    """An SM's time for its blocks: full waves, and the rest as one more. Eq. (Q-1)"""
    resident = min(resident, blocks)
    waves = np.floor(blocks / resident + 1e-9)
    rest = round(blocks - waves * resident, 9)
    found = waves * of_warps(resident * warps)
    return found + of_warps(rest * warps) if rest > 0 else found


# -- an SM -------------------------------------------------------------------------------------


def _sm_cycles(sm: Sm, intervals: Intervals, warps: float) -> Array:
    """The parts of an SM's time while its warps run once through their intervals."""
    base, data, idle = _sub_cores(sm, intervals, warps)
    units, l1 = _structures(sm, intervals, warps)
    noc, dram, mshr = _memory(sm, intervals, warps)
    return np.array([float(part.sum()) for part in (base, data, units, l1, noc, dram, mshr, idle)])


def _sub_cores(sm: Sm, intervals: Intervals, warps: float) -> tuple[Array, Array, Array]:
    """Issue, exposed data stalls and idle time, each on average of the sub-cores. Eqs. (Q-3 … Q-7)"""
    most = np.ceil(warps / sm.sub_cores)
    full = (np.fmod(warps, sm.sub_cores) or sm.sub_cores) / sm.sub_cores  # share of sub-cores with the most warps
    own = intervals.instructions / sm.issue_width
    issue, stall, hiding = _data_stalls(sm, intervals, max(most - 1.0, 0.0))
    if most <= 1.0:  # the other sub-cores have no warp
        base, data = (own + issue) * full, stall * full
        idle = (own + issue + stall) * (1.0 - full)  # Eq.
        waiting = own + issue
    else:
        less_issue, less_stall, less_hiding = _data_stalls(sm, intervals, max(most - 2.0, 0.0))
        base = own + issue * full + less_issue * (1.0 - full)
        data = stall * full + less_stall * (1.0 - full)
        # A sub-core with a warp less waits while the others issue what hides nothing.
        idle = ((issue - hiding) - (less_issue - less_hiding)) * (1.0 - full)  # Eq.
        waiting = less_stall - stall
    # Nobody hides the last interval: its issue counts as a stall too, as in the authors' code.
    data[-1] += base[-1]
    idle[-1] += waiting[-1] * (1.0 - full)
    return base, data, idle


def _data_stalls(sm: Sm, intervals: Intervals, others: float) -> tuple[Array, Array, Array]:
    """Issue cycles of a sub-core's other warps, exposed stall, issue cycles that hide it. Eqs. (Q-3 … Q-5)"""
    instructions, stall = intervals.instructions, intervals.stall
    mean = instructions.mean()
    probability = instructions.sum() / (instructions.sum() + stall.sum())  # Eq. (G-9)
    if sm.greedy:
        issued = others * np.full_like(stall, mean)  # Eq.
        hiding = np.minimum(stall * probability, 1.0) * issued  # Eq.
    else:
        issued = others * instructions
        hiding = np.full_like(stall, others * probability)
    hiding = hiding / sm.issue_width
    return issued / sm.issue_width, np.maximum(stall - hiding, 0.0), hiding  # Eq.


def _structures(sm: Sm, intervals: Intervals, warps: float) -> tuple[Array, Array]:
    """Stalls for functional units and for the L1, beyond what issue takes anyway. Eqs. (Q-8 … Q-11)"""
    active = min(sm.sub_cores, max(warps, 1.0))
    issue = intervals.instructions * warps / (active * sm.issue_width)
    units = intervals.units * (warps / active)  # Eq.
    load_store = intervals.load_store * warps
    busiest = reduce(np.maximum, (*units.T, load_store), issue)
    stall = busiest - issue  # Eq.
    used = (units > 0).sum(axis=1) + (load_store > 0)
    held = sm.unit_queue * used + np.floor(sm.operand_collectors / sm.sub_cores)
    waiting = np.maximum(1.0 - held / (intervals.instructions * warps), 0.0)
    stall = stall * waiting + np.maximum(stall * (1.0 - waiting) - intervals.stall, 0.0)  # Eq.
    beyond = [np.maximum(each - issue, 0.0) for each in (units.sum(axis=1), load_store)]
    both = np.maximum(beyond[0] + beyond[1], 1e-300)
    return stall * beyond[0] / both, stall * beyond[1] / both  # Eq.


def _memory(sm: Sm, intervals: Intervals, warps: float) -> tuple[Array, Array, Array]:
    """Queues of the NoC and of DRAM, and waits for MSHRs: MDM's, with writes that wait once. Eqs. (Q-12 … Q-14)"""
    reads, writes = intervals.reads * warps, intervals.writes * warps
    at_once = np.minimum(reads, sm.mshrs)
    divergent = reads > sm.mshrs  # Eq. (M-2)
    noc = sm.active_sms * (at_once + writes) * sm.noc_service
    saturated = noc > sm.llc_latency + sm.dram_latency  # Eq. (M-10)
    share = np.where(divergent & saturated, 1.0, 0.5)
    to_dram = (at_once + writes * sm.writes_reach_dram) * intervals.miss_ratio
    of_reads = sm.active_sms * at_once * (sm.noc_service + intervals.miss_ratio * sm.dram_service)
    batch = sm.llc_latency + intervals.miss_ratio * sm.dram_latency + share * of_reads  # Eq.
    mshr = np.where(divergent, batch * (np.ceil(reads / sm.mshrs) - 1.0), 0.0)  # Eq.
    return share * noc, share * sm.active_sms * to_dram * sm.dram_service, mshr  # Eq.


# -- intervals ---------------------------------------------------------------------------------


def _profiles(case: Case) -> Iterator[tuple[int, Array, Array]]:
    """(Machine of the batch, rows of its profile, stall cycles by cause)."""
    for rows, batch in case.facts.profiles:
        for row, profile in zip(np.arange(case.size)[rows], batch.of_machine, strict=True):
            found = batch.matrix[batch.start[profile] : batch.start[profile + 1]]
            yield int(row), found, batch.stall_by_cause[profile]


def _intervals(case: Case, row: int, profile: Array) -> Intervals:
    columns = dict(zip(COLUMNS, profile.T, strict=True))
    units, load_store = _held(case, row, columns["instructions"])
    return Intervals(
        columns["instructions"],
        columns["stall_cycles"],
        columns["read_misses"],
        columns["write_requests"],
        columns["llc_miss_ratio"],
        units,
        load_store,
    )


def _held(case: Case, row: int, instructions: Array) -> tuple[Array, Array]:
    """Cycles for which each interval holds every unit of a sub-core, and the SM's load/store unit."""
    executed = _executed(case, row)
    if executed is None:
        return np.zeros((len(instructions), 0)), np.zeros(len(instructions))
    classes, turns = executed
    ends = np.cumsum(instructions).astype(np.int64)

    def per_interval(cycles: Array) -> Array:
        running = np.concatenate(([0.0], np.cumsum(cycles)))
        return np.diff(running[ends], prepend=0.0)

    load_store = np.zeros(len(instructions))
    units: dict[str, Array] = {}
    for name in sorted({CLASS_NAMES[each] for each in np.unique(classes)}):
        of_class = classes == CLASS_NAMES.index(name)
        if INSTRUCTION_CLASSES[name].kind == "memory":
            load_store = load_store + per_interval(of_class * turns)
            continue
        timing = case.timing(name)
        cycles = per_interval(of_class * float(case.array(timing.interval_cycles)[row]))
        if INSTRUCTION_CLASSES[name].kind == "shared":
            load_store = load_store + cycles
        else:
            sub_cores = float(case.array(case.gpu.schedulers)[row])
            units[timing.subsystem] = units.get(timing.subsystem, 0.0) + cycles * sub_cores
    return np.stack(list(units.values()), axis=1) if units else np.zeros((len(instructions), 0)), load_store


def _executed(case: Case, row: int) -> tuple[NDArray[np.int64], Array] | None:
    """Class of every instruction that the warp executes, and its cycles in the L1; None if unknown."""
    traced = case.facts.traced
    if traced is not None:
        misses = traced.caches.misses[traced.caches.which[row]]
        executed = traced.warp.instructions
        at_once = float(case.array(case.gpu.with_defaults.l1.lines_per_cycle)[row])
        turns = np.maximum(misses.per_execution("lines") / at_once, 1.0)
        return traced.trace.static.class_id[executed].astype(np.int64), turns[executed]
    graph = case.workload.graph
    if graph is None or case.workload.profile is not None:
        return None
    classes = [CLASS_NAMES.index(item.instruction_class) for item in graph.instructions]
    return np.array(classes, dtype=np.int64), np.ones(len(classes))


def _without_units(case: Case) -> tuple[Condition, ...]:
    """A warning if it is unknown which instructions an interval has."""
    if case.workload.profile is None:
        return ()
    return (Condition("the profile does not say which units its instructions use; their stalls are left out"),)
