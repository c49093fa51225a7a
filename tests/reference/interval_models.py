"""GPUMech (G-n), MDM (M-n, C-n) and the variants of MDM's Table V, for one machine."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    instructions: float
    stall: float
    memory_instructions: float = 0.0
    reads: float = 0.0
    writes: float = 0.0
    miss_ratio: float = 0.0


@dataclass(frozen=True)
class Machine:
    """Service times are f·Block/B in core cycles (M-7); `miss_latency` is avg_miss_latency of G-19."""

    warps: float
    sms: float = 1.0
    issue_rate: float = 1.0
    mshrs: float = 1.0
    llc_latency: float = 0.0
    dram_latency: float = 0.0
    noc_service: float = 0.0
    dram_service: float = 0.0
    miss_latency: float = 0.0


# -- multithreading --------------------------------------------------------------------


def issue_probability(intervals: list[Interval], issue_rate: float) -> float:
    """Eq. (G-9): the share of turns in which a warp issues, which is 1 where it issues more than one per cycle."""
    cycles = 0.0
    for interval in intervals:
        cycles += interval.instructions / issue_rate + interval.stall
    per_cycle = sum(interval.instructions for interval in intervals) / cycles
    return 1.0 if per_cycle > 1.0 else per_cycle


def nonoverlapped(policy: str, interval: Interval, intervals: list[Interval], machine: Machine) -> float:
    """Instructions of the remaining warps that hide no stall of the representative one."""
    others = machine.warps - 1
    probability = issue_probability(intervals, machine.issue_rate)
    if policy == "optimistic":  # G-1: all of them hide
        return 0.0
    if policy == "rr":
        waiting_slots = interval.instructions - 1  # G-10
        return probability * others * waiting_slots  # G-11
    if policy == "rr-corrected":  # L §2.5.1, stalls counted in issue slots
        overlapped = min(interval.stall * machine.issue_rate, others)
        return others * interval.instructions - overlapped
    if policy == "gto":
        in_stall = min(probability * interval.stall, 1.0)  # G-15, max printed for min
        warps_in_stall = in_stall * others  # G-14
        average = sum(each.instructions for each in intervals) / len(intervals)  # G-13
        issued = average * warps_in_stall  # G-12
        return max(issued - interval.stall * machine.issue_rate, 0.0)  # G-16, min printed for max
    raise ValueError(policy)


def multithreaded_cycles(policy: str, intervals: list[Interval], machine: Machine) -> float:
    """Σ C_i: the denominator of G-7, and C_i of M-1."""
    total = 0.0
    for interval in intervals:
        total += interval.instructions / machine.issue_rate
        total += interval.stall
        total += nonoverlapped(policy, interval, intervals, machine) / machine.issue_rate
    return total


# -- MSHRs -----------------------------------------------------------------------------


def expected_queueing_delay(core_requests: int, mshrs: int, latency: float) -> float:
    """Eq. (G-19), the literal sum over j."""
    total = 0.0
    for j in range(1, core_requests + 1):
        total += latency * math.ceil(j / mshrs)
    return total / core_requests - latency


def gpumech_mshr_delay(interval: Interval, machine: Machine, latency: float) -> float:
    """Eq. (G-20); requests are L1 read misses."""
    core_requests = interval.reads * machine.warps  # G-18
    if core_requests <= machine.mshrs:
        return 0.0
    delay = expected_queueing_delay(int(core_requests), int(machine.mshrs), latency)
    return delay * interval.memory_instructions


def mdm_mshr_stall(interval: Interval, machine: Machine, memory_stall: float) -> float:
    """Eq. (M-6), (C-8)"""
    if interval.reads * machine.warps > machine.mshrs:
        return (math.ceil(interval.reads * machine.warps / machine.mshrs) - 1) * memory_stall
    return 0.0


# -- queues ----------------------------------------------------------------------------


def md1_delay(all_requests: float, cycles: float, service: float) -> float:
    """Eqs. (G-21 … G-23): M/D/1, capped by half of all requests being ahead, and where ρ reaches 1."""
    arrival_rate = all_requests / cycles  # G-23
    utilisation = arrival_rate * service  # G-22
    cap = service * all_requests / 2
    if utilisation >= 1:
        return cap
    return min(arrival_rate * service**2 / (2 * (1 - utilisation)), cap)


def concurrent_misses(interval: Interval, machine: Machine) -> float:
    """Eq. (M-3), (C-4)"""
    return min(interval.reads * machine.warps, machine.mshrs) + interval.writes * machine.warps


def gpumech_queues(
    interval: Interval, machine: Machine, *, with_noc: bool, dram_requests: str
) -> tuple[float, float]:
    """(NoC, DRAM) delay in the form of GPUMech's DRAM queue."""
    if dram_requests == "l2-misses":
        core_requests = (interval.reads + interval.writes) * machine.warps  # G-18
    elif dram_requests == "mshr-capped":
        core_requests = concurrent_misses(interval, machine)
    else:
        raise ValueError(dram_requests)
    cycles = interval.instructions / machine.issue_rate + interval.stall
    requests = core_requests * machine.sms
    dram = md1_delay(requests * interval.miss_ratio, cycles, machine.dram_service)
    noc = md1_delay(requests, cycles, machine.noc_service) if with_noc else 0.0
    return noc, dram


def noc_saturated(interval: Interval, machine: Machine) -> bool:
    """Eq. (M-10)"""
    queue = machine.noc_service * concurrent_misses(interval, machine) * machine.sms
    return queue > machine.llc_latency + machine.dram_latency


def mdm_queues(interval: Interval, machine: Machine, *, saturation_test: bool) -> tuple[float, float]:
    """(S_NoC, S_DRAM) of M-9; of C-5 without the saturation test."""
    divergent = interval.reads * machine.warps > machine.mshrs  # M-2
    exposed = divergent and (noc_saturated(interval, machine) or not saturation_test)
    share = 1.0 if exposed else 0.5
    M = concurrent_misses(interval, machine)
    dram_service = interval.miss_ratio * machine.dram_service  # M-8
    return share * (machine.sms * M * machine.noc_service), share * (machine.sms * M * dram_service)


# -- whole models ----------------------------------------------------------------------

#: model -> (MSHR term, queue term), as in GPUMech's Table II and MDM's Table V.
TERMS = {
    "naive-interval": (None, None),
    "gpumech-mt": (None, None),
    "gpumech-mt-mshr": ("gpumech", None),
    "gpumech": ("gpumech", "gpumech"),
    "gpumech-rr-corrected": ("gpumech", "gpumech"),
    "gpumech-plus": ("gpumech with queues", "gpumech with noc"),
    "mdm-queue": ("gpumech with queues", "mdm"),
    "mdm-mshr": ("mdm", "gpumech with noc"),
    "mdm-cal2019": ("mdm", "mdm without test"),
    "mdm": ("mdm", "mdm"),
}
FIXED_POLICY = {"naive-interval": "optimistic", "gpumech-rr-corrected": "rr-corrected"}


@dataclass(frozen=True)
class Result:
    nonoverlapped: float
    S_MSHR: float
    S_NoC: float
    S_DRAM: float
    ipc_sm: float
    """Warp instructions per cycle of one SM, not clamped."""


def predict(
    model: str,
    intervals: list[Interval],
    machine: Machine,
    policy: str,
    *,
    dram_requests: str = "l2-misses",
    literal: bool = False,
) -> Result:
    """Eq. (M-1), which is G-3 with the contention of G-17 shared by the warps; `literal` is G-17 as printed."""
    policy = FIXED_POLICY.get(model, policy)
    mshr_term, queue_term = TERMS[model]
    hidden = mshr = noc = dram = 0.0
    for interval in intervals:
        hidden += nonoverlapped(policy, interval, intervals, machine)
        if interval.reads + interval.writes == 0:
            continue
        noc_i, dram_i = _queues(queue_term, interval, machine, dram_requests)
        no_contention = machine.llc_latency + interval.miss_ratio * machine.dram_latency  # M-4
        memory_stall = no_contention + noc_i + dram_i  # M-5
        if mshr_term == "mdm":
            mshr += mdm_mshr_stall(interval, machine, memory_stall)
        elif mshr_term == "gpumech":
            mshr += gpumech_mshr_delay(interval, machine, machine.miss_latency)
        elif mshr_term == "gpumech with queues":
            mshr += gpumech_mshr_delay(interval, machine, machine.miss_latency + noc_i + dram_i)
        noc += noc_i
        dram += dram_i
    instructions = sum(interval.instructions for interval in intervals)
    cycles = multithreaded_cycles(policy, intervals, machine)
    if literal:
        cpi = cycles / (machine.warps * instructions) + (mshr + noc + dram) / instructions
    else:
        cpi = (cycles + mshr + noc + dram) / (machine.warps * instructions)
    return Result(hidden, mshr, noc, dram, 1 / cpi)


def _queues(term: str | None, interval: Interval, machine: Machine, dram_requests: str) -> tuple[float, float]:
    if term is None:
        return 0.0, 0.0
    if term.startswith("gpumech"):
        with_noc = term == "gpumech with noc"
        return gpumech_queues(interval, machine, with_noc=with_noc, dram_requests=dram_requests)
    return mdm_queues(interval, machine, saturation_test=term == "mdm")


def average_memory_access_time(events: list[tuple[float, float]]) -> float:
    """AMAT (GPUMech §V-B) of (share of the executions, latency) pairs."""
    return sum(share * latency for share, latency in events)
