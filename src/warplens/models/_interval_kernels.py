"""The interval models, compiled: one pass over a warp's intervals per machine.

Letters are the papers': W resident warps, M concurrent misses, S stall cycles.
"""

from __future__ import annotations

from math import ceil, floor

import numpy as np

from ..jit import allocating_kernel, inlined, kernel
from ._interval_records import (
    GPUMECH_MSHR_WITH_QUEUES,
    GPUMECH_NOC_AND_DRAM,
    GREEDY_THEN_OLDEST,
    MDM_MSHR,
    MDM_QUEUE,
    MDM_QUEUE_CAL2019,
    MSHR_CAPPED,
    NO_MSHR,
    NO_QUEUE,
    ROUND_ROBIN,
    ROUND_ROBIN_CORRECTED,
)


@inlined
def nonoverlapped(policy, instructions, stall, W, issue_rate, issue_probability, average_instructions):
    """Instructions of the other warps that do not hide a stall of the representative one."""
    others = max(W - 1.0, 0.0)
    if policy == ROUND_ROBIN:
        waiting_slots = max(instructions - 1.0, 0.0)  # Eq. (G-10)
        return issue_probability * others * waiting_slots  # Eq. (G-11)
    if policy == ROUND_ROBIN_CORRECTED:
        return others * instructions - min(stall * issue_rate, others)  # L §2.5.1
    if policy == GREEDY_THEN_OLDEST:
        probability = min(issue_probability * stall, 1.0)  # Eq. (G-15), misprint corrected
        issued = average_instructions * (probability * others)  # Eqs. (G-12, G-14)
        return max(issued - stall * issue_rate, 0.0)  # Eq. (G-16), misprint corrected
    return 0.0  # Eq. (G-1): everything overlaps


@inlined
def mshr_wait(requests, mshrs, latency):
    """Expected wait for an MSHR: mean of latency·⌈j/mshrs⌉ over the requests j, less latency. Eq. (G-19)"""
    full = floor(requests / mshrs)
    rest = requests - full * mshrs
    rounds = mshrs * full * (full + 1.0) / 2.0 + rest * (full + 1.0)
    return latency * (rounds / requests - 1.0)


@inlined
def md1_wait(requests, cycles, service):
    """M/D/1 waiting time, at most the service of half of the requests. Eqs. (G-21 … G-23)"""
    if requests <= 0.0:
        return 0.0
    cap = service * requests / 2.0
    arrival = requests / cycles  # Eq. (G-23)
    utilisation = arrival * service  # Eq. (G-22)
    if utilisation >= 1.0:
        return cap
    return min(arrival * service * service / (2.0 * (1.0 - utilisation)), cap)


@inlined
def queue_delays(interval, machine, terms, M, divergent, saturated):
    """(Delay in the NoC, delay in DRAM, utilisation of DRAM) of an interval's misses."""
    noc = dram = utilisation = 0.0
    if terms.queue == MDM_QUEUE or terms.queue == MDM_QUEUE_CAL2019:
        exposed = divergent and (saturated or terms.queue == MDM_QUEUE_CAL2019)
        share = 1.0 if exposed else 0.5
        noc = share * (machine.sms * M * machine.noc_service)  # Eq. (M-9), (C-5)
        dram = share * (machine.sms * M * (interval.miss_ratio * machine.dram_service))  # Eqs. (M-8, M-9)
    elif terms.queue != NO_QUEUE:
        all_requests = interval.reads * machine.warps + interval.writes * machine.warps
        requests = (M if terms.requests == MSHR_CAPPED else all_requests) * machine.sms  # Eq. (G-18)
        cycles = interval.instructions / machine.issue_rate + interval.stall
        dram = md1_wait(requests * interval.miss_ratio, cycles, machine.dram_service)  # Eq. (G-21)
        utilisation = requests * interval.miss_ratio * machine.dram_service / cycles  # Eq. (G-22)
        if terms.queue == GPUMECH_NOC_AND_DRAM:
            noc = md1_wait(requests, cycles, machine.noc_service)
    return noc, dram, utilisation


@inlined
def mshr_delays(interval, machine, terms, batches, memory_stall, queues):
    """(Delay of an interval, wait of one request) for MSHRs, where an interval has more reads than MSHRs."""
    if terms.mshr == MDM_MSHR:
        return (batches - 1.0) * memory_stall, memory_stall  # Eq. (M-6)
    if terms.mshr == NO_MSHR:
        return 0.0, 0.0
    latency = machine.miss_latency
    if terms.mshr == GPUMECH_MSHR_WITH_QUEUES:
        latency += queues
    wait = mshr_wait(interval.reads * machine.warps, machine.mshrs, latency)
    return wait * interval.memory_instructions, wait  # Eq. (G-20)


@inlined
def add_contention(interval, machine, terms, heaviest, result):
    """Add the contention of an interval that sends requests; returns the largest M so far."""
    reads = interval.reads * machine.warps
    writes = interval.writes * machine.warps
    divergent = reads > machine.mshrs  # Eq. (M-2)
    M = min(reads, machine.mshrs) + writes  # Eq. (M-3)
    saturated = machine.sms * M * machine.noc_service > machine.llc_latency + machine.dram_latency  # Eq. (M-10)
    noc, dram, utilisation = queue_delays(interval, machine, terms, M, divergent, saturated)
    # Eqs. (M-4, M-5)
    memory_stall = machine.llc_latency + interval.miss_ratio * machine.dram_latency + noc + dram
    batches = ceil(reads / machine.mshrs)
    wait = 0.0
    if divergent:
        delay, wait = mshr_delays(interval, machine, terms, batches, memory_stall, noc + dram)
        result.mshr += delay
    result.noc += noc
    result.dram += dram
    result.divergent += divergent
    result.saturated += saturated
    result.utilisation = max(result.utilisation, utilisation)
    if heaviest < M:
        result.concurrent = M
        result.memory_stall = memory_stall
        result.batches = batches
        result.queue_wait = wait
        result.requests = reads + writes
    return max(heaviest, M)


@kernel
def evaluate(intervals, machines, terms, results):
    """Fill one record of `results`, zero at first, per machine."""
    total_instructions = 0.0
    total_stall = 0.0
    for i in range(len(intervals)):
        total_instructions += intervals[i].instructions
        total_stall += intervals[i].stall
    average_instructions = total_instructions / len(intervals)  # Eq. (G-13)
    contends = terms.mshr != NO_MSHR or terms.queue != NO_QUEUE
    for m in range(len(machines)):
        machine, result = machines[m], results[m]
        # Eq. (G-9), as a probability at issue rates above 1 too: a warp has one instruction for its turn
        cycles = total_instructions / machine.issue_rate + total_stall
        issue_probability = min(total_instructions / cycles, 1.0)
        heaviest = -1.0
        sum_nonoverlapped = 0.0
        for i in range(len(intervals)):
            interval = intervals[i]
            sum_nonoverlapped += nonoverlapped(
                terms.policy,
                interval.instructions,
                interval.stall,
                machine.warps,
                machine.issue_rate,
                issue_probability,
                average_instructions,
            )  # Eq. (G-8)
            if contends and interval.reads * machine.warps + interval.writes * machine.warps > 0.0:
                heaviest = add_contention(interval, machine, terms, heaviest, result)
        result.nonoverlapped = sum_nonoverlapped


@kernel
def evaluate_batch(intervals, start, of_machine, machines, terms, results):
    """`evaluate` where machine m has the intervals of profile `of_machine[m]` (see `ProfileBatch`)."""
    first = 0
    while first < len(of_machine):
        p = of_machine[first]
        last = first + 1
        while last < len(of_machine) and of_machine[last] == p:
            last += 1
        evaluate(intervals[start[p] : start[p + 1]], machines[first:last], terms, results[first:last])
        first = last


@kernel
def add_unit_waits(intervals, start, of_machine, machines, service, waits):
    """Add the waits for a functional unit that an average instruction of machine m holds for `service[m]` cycles."""
    for m in range(len(of_machine)):
        machine, p = machines[m], of_machine[m]
        for i in range(start[p], start[p + 1]):
            interval = intervals[i]
            cycles = interval.instructions / machine.issue_rate + interval.stall
            waits[m] += md1_wait(interval.instructions * machine.warps, cycles, service[m])


@allocating_kernel
def all_suspended(warps, stall_probability, wake_probability):
    """Probability that all threads are suspended, in the stationary state of Chen & Aamodt's chain.

    State k = suspended threads. In each slot one ready thread issues and is
    suspended with `stall_probability`; each of the k suspended ones wakes with
    `wake_probability`. k grows by one at most, so the only way up past a cut is
    the step k-1 → k, and what goes up comes down: the weights follow one by one
    from the top state down, without subtractions.
    """
    # at_least[k, j]: probability that j or more of k suspended threads wake (binomial, by convolution).
    at_least = np.zeros((warps + 1, warps + 3))
    wakes = np.zeros(warps + 1)
    wakes[0] = 1.0
    for k in range(warps + 1):
        for j in range(k, 0, -1):
            wakes[j] = wakes[j] * (1.0 - wake_probability) + wakes[j - 1] * wake_probability
        if k > 0:
            wakes[0] *= 1.0 - wake_probability
        for j in range(k, -1, -1):
            at_least[k, j] = at_least[k, j + 1] + wakes[j]
    weight = np.zeros(warps + 1)
    weight[warps] = 1.0
    for k in range(warps, 0, -1):
        up = stall_probability * (1.0 - wake_probability) ** (k - 1)
        down = weight[warps] * at_least[warps, warps - k + 1]
        for i in range(k, warps):
            stalls = stall_probability * at_least[i, i - k + 2]
            down += weight[i] * (stalls + (1.0 - stall_probability) * at_least[i, i - k + 1])
        if up <= 0.0 or down / up > 1e300:
            return 0.0  # the state is not reached, or next to never
        weight[k - 1] = down / up
        if weight[k - 1] > 1e100:
            weight /= weight[k - 1]
    return weight[warps] / weight.sum()
