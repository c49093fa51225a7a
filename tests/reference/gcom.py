"""GCoM by hand, one interval and one sub-core after the other, for machines whose instructions have one unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Machine:
    sub_cores: int
    active_sms: int
    mshrs: int
    llc_latency: float
    dram_latency: float
    noc_service: float
    dram_service: float
    greedy: bool


@dataclass(frozen=True)
class Interval:
    instructions: float
    stall: float
    reads: float = 0.0
    writes: float = 0.0
    miss_ratio: float = 0.0


def sub_core_cycles(interval: Interval, all_of_them: Sequence[Interval], warps: int, greedy: bool) -> tuple:
    """(Issue, exposed stall, hiding issue) of a sub-core with `warps` warps."""
    if not warps:
        return 0.0, 0.0, 0.0
    instructions = sum(each.instructions for each in all_of_them)
    probability = instructions / (instructions + sum(each.stall for each in all_of_them))
    others = warps - 1
    mean = instructions / len(all_of_them)
    if greedy:
        issued, hiding = others * mean, min(interval.stall * probability, 1.0) * others * mean
    else:
        issued, hiding = others * interval.instructions, others * probability
    return interval.instructions + issued, max(interval.stall - hiding, 0.0), hiding


def interval_cycles(interval: Interval, all_of_them: Sequence[Interval], machine: Machine, warps: int) -> float:
    """Cycles of one interval of an SM's warps, without functional units."""
    given = [warps // machine.sub_cores + (number < warps % machine.sub_cores) for number in range(machine.sub_cores)]
    found = [sub_core_cycles(interval, all_of_them, each, machine.greedy) for each in given]
    mean_issue = sum(issue for issue, _, _ in found) / len(found)
    mean_stall = sum(stall for _, stall, _ in found) / len(found)
    idle, last = 0.0, interval is all_of_them[-1]
    most = found[0]
    for (issue, stall, hiding), own in zip(found, given, strict=True):
        if own == 0:
            idle += most[0] + most[1] + (most[0] if last else 0.0)
        elif own < given[0]:
            idle += (most[0] - most[2]) - (issue - hiding) + ((stall - most[1]) if last else 0.0)
    cycles = mean_issue + mean_stall + idle / len(found) + (mean_issue if last else 0.0)
    return cycles + memory_cycles(interval, machine, warps)


def memory_cycles(interval: Interval, machine: Machine, warps: int) -> float:
    reads, writes = interval.reads * warps, interval.writes * warps
    at_once = min(reads, machine.mshrs)
    noc = machine.active_sms * (at_once + writes) * machine.noc_service
    dram = machine.active_sms * (at_once + writes) * interval.miss_ratio * machine.dram_service
    full = reads > machine.mshrs and noc > machine.llc_latency + machine.dram_latency
    share = 1.0 if full else 0.5
    queues = share * (noc + dram)
    if reads <= machine.mshrs:
        return queues
    of_reads = machine.active_sms * at_once * (machine.noc_service + interval.miss_ratio * machine.dram_service)
    batch = machine.llc_latency + interval.miss_ratio * machine.dram_latency + share * of_reads
    return queues + batch * (ceil(reads / machine.mshrs) - 1)


def launch_cycles(
    intervals: Sequence[Interval], machine: Machine, blocks: int, resident: int, warps_per_block: int
) -> float:
    """Cycles of a launch: those of the SM with the most blocks, and one more."""
    own = ceil(blocks / machine.active_sms)
    resident = min(resident, own)
    cycles = 1.0
    for wave in range(ceil(own / resident)):
        here = min(resident, own - wave * resident)
        cycles += sum(interval_cycles(each, intervals, machine, here * warps_per_block) for each in intervals)
    return cycles


def structural_stall(units: Sequence[float], issue: float, stall: float, held: float, instructions: float) -> float:
    """Stall for the busiest unit; what queues hold of it hides behind the interval's own stall."""
    beyond = max(*units, issue) - issue
    waiting = max(instructions - held, 0.0) / instructions
    return beyond * waiting + max(beyond * (1 - waiting) - stall, 0.0)
