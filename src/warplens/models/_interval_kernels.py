"""Compiled evaluation of the interval models: one pass over the intervals per machine.

Letters as in the papers: W resident warps, M concurrent misses, S stall cycles,
ρ utilisation. `intervals` has the columns of `warplens.analysis.COLUMNS`.
"""

from __future__ import annotations

from math import ceil, floor

import numpy as np

from ..jit import allocating_kernel

# Columns of a profile.
INSTRUCTIONS, STALL, MEMORY_INSTRUCTIONS, READS, WRITES, MISS_RATIO = range(6)

# Columns of `machines`.
(
    M_WARPS,
    M_SMS,
    M_ISSUE_RATE,
    M_MSHRS,
    M_LLC_LATENCY,
    M_DRAM_LATENCY,
    M_NOC_SERVICE,
    M_DRAM_SERVICE,
    M_MISS_LATENCY,
) = range(9)
MACHINE_COLUMNS = 9

# Columns of the result: sums over the intervals, then values of the heaviest interval (largest M).
(
    R_NONOVERLAPPED,
    R_MSHR,
    R_NOC,
    R_DRAM,
    R_CONCURRENT,
    R_MEMORY_STALL,
    R_BATCHES,
    R_QUEUE_WAIT,
    R_DIVERGENT,
    R_SATURATED,
    R_UTILISATION,
    R_REQUESTS,
) = range(12)
RESULT_COLUMNS = 12

# Switches: scheduling policy, MSHR term, queue term, requests in the GPUMech queues.
OPTIMISTIC, ROUND_ROBIN, ROUND_ROBIN_CORRECTED, GREEDY_THEN_OLDEST = range(4)
NO_MSHR, GPUMECH_MSHR, GPUMECH_MSHR_WITH_QUEUES, MDM_MSHR = range(4)
NO_QUEUE, GPUMECH_DRAM, GPUMECH_NOC_AND_DRAM, MDM_QUEUE, MDM_QUEUE_CAL2019 = range(5)
ALL_REQUESTS, MSHR_CAPPED = range(2)


@allocating_kernel
def nonoverlapped(policy, instructions, stall, W, issue_rate, issue_probability, average_instructions):
    """Instructions of the other warps that do not hide a stall of the representative one."""
    others = max(W - 1.0, 0.0)
    if policy == ROUND_ROBIN:
        waiting_slots = max(instructions - 1.0, 0.0)  # Eq. (G-10)
        return issue_probability * others * waiting_slots  # Eq. (G-11)
    if policy == ROUND_ROBIN_CORRECTED:
        return others * instructions - min(stall * issue_rate, others)  # L §2.5.1
    if policy == GREEDY_THEN_OLDEST:
        probability = min(issue_probability * stall, 1.0)  # Eq. (G-15), misprint mended
        issued = average_instructions * (probability * others)  # Eqs. (G-12, G-14)
        return max(issued - stall * issue_rate, 0.0)  # Eq. (G-16), misprint mended
    return 0.0  # Eq. (G-1): everything overlaps


@allocating_kernel
def mshr_wait(requests, mshrs, latency):
    """Expected wait for an MSHR: mean of latency·⌈j/mshrs⌉ over the requests j, less latency. Eq. (G-19)"""
    full = floor(requests / mshrs)
    rest = requests - full * mshrs
    rounds = mshrs * full * (full + 1.0) / 2.0 + rest * (full + 1.0)
    return latency * (rounds / requests - 1.0)


@allocating_kernel
def md1_wait(requests, cycles, service):
    """M/D/1 waiting time, capped by half of the requests being ahead. Eqs. (G-21 … G-23)"""
    if requests <= 0.0:
        return 0.0
    cap = service * requests / 2.0
    arrival = requests / cycles  # Eq. (G-23)
    utilisation = arrival * service  # Eq. (G-22)
    if utilisation >= 1.0:
        return cap
    return min(arrival * service * service / (2.0 * (1.0 - utilisation)), cap)


@allocating_kernel
def evaluate(intervals, machines, policy, mshr_term, queue_term, request_rule, result):
    """Fill one row of `result` per row of `machines`."""
    count = intervals.shape[0]
    total_instructions = 0.0
    total_stall = 0.0
    for i in range(count):
        total_instructions += intervals[i, INSTRUCTIONS]
        total_stall += intervals[i, STALL]
    average_instructions = total_instructions / count  # Eq. (G-13)
    for m in range(machines.shape[0]):
        W = machines[m, M_WARPS]
        sms = machines[m, M_SMS]
        issue_rate = machines[m, M_ISSUE_RATE]
        mshrs = machines[m, M_MSHRS]
        llc_latency = machines[m, M_LLC_LATENCY]
        dram_latency = machines[m, M_DRAM_LATENCY]
        noc_service = machines[m, M_NOC_SERVICE]
        dram_service = machines[m, M_DRAM_SERVICE]
        issue_probability = total_instructions / (total_instructions / issue_rate + total_stall)  # Eq. (G-9)
        sum_nonoverlapped = sum_mshr = sum_noc = sum_dram = 0.0
        heaviest = -1.0
        for i in range(count):
            instructions = intervals[i, INSTRUCTIONS]
            stall = intervals[i, STALL]
            sum_nonoverlapped += nonoverlapped(
                policy, instructions, stall, W, issue_rate, issue_probability, average_instructions
            )  # Eq. (G-8)
            reads = intervals[i, READS] * W
            writes = intervals[i, WRITES] * W
            if reads + writes <= 0.0 or (mshr_term == NO_MSHR and queue_term == NO_QUEUE):
                continue
            miss_ratio = intervals[i, MISS_RATIO]
            divergent = reads > mshrs  # Eq. (M-2)
            M = min(reads, mshrs) + writes  # Eq. (M-3)
            cycles = instructions / issue_rate + stall
            noc_queue = sms * M * noc_service
            saturated = noc_queue > llc_latency + dram_latency  # Eq. (M-10)
            utilisation = 0.0
            noc = dram = 0.0
            if queue_term in (MDM_QUEUE, MDM_QUEUE_CAL2019):
                exposed = divergent and (saturated or queue_term == MDM_QUEUE_CAL2019)
                share = 1.0 if exposed else 0.5
                noc = share * noc_queue  # Eq. (M-9), (C-5)
                dram = share * (sms * M * (miss_ratio * dram_service))  # Eqs. (M-8, M-9)
            elif queue_term != NO_QUEUE:
                requests = (M if request_rule == MSHR_CAPPED else reads + writes) * sms  # Eq. (G-18)
                dram = md1_wait(requests * miss_ratio, cycles, dram_service)  # Eq. (G-21)
                utilisation = requests * miss_ratio * dram_service / cycles  # Eq. (G-22)
                if queue_term == GPUMECH_NOC_AND_DRAM:
                    noc = md1_wait(requests, cycles, noc_service)
            memory_stall = llc_latency + miss_ratio * dram_latency + noc + dram  # Eqs. (M-4, M-5)
            batches = ceil(reads / mshrs)
            wait = 0.0
            if divergent:
                if mshr_term == MDM_MSHR:
                    wait = memory_stall
                    sum_mshr += (batches - 1.0) * memory_stall  # Eq. (M-6)
                elif mshr_term != NO_MSHR:
                    latency = machines[m, M_MISS_LATENCY]
                    if mshr_term == GPUMECH_MSHR_WITH_QUEUES:
                        latency += noc + dram
                    wait = mshr_wait(reads, mshrs, latency)
                    sum_mshr += wait * intervals[i, MEMORY_INSTRUCTIONS]  # Eq. (G-20)
            sum_noc += noc
            sum_dram += dram
            result[m, R_DIVERGENT] += divergent
            result[m, R_SATURATED] += saturated
            result[m, R_UTILISATION] = max(result[m, R_UTILISATION], utilisation)
            if heaviest < M:
                heaviest = M
                result[m, R_CONCURRENT] = M
                result[m, R_MEMORY_STALL] = memory_stall
                result[m, R_BATCHES] = batches
                result[m, R_QUEUE_WAIT] = wait
                result[m, R_REQUESTS] = reads + writes
        result[m, R_NONOVERLAPPED] = sum_nonoverlapped
        result[m, R_MSHR] = sum_mshr
        result[m, R_NOC] = sum_noc
        result[m, R_DRAM] = sum_dram


@allocating_kernel
def evaluate_batch(matrix, start, of_machine, machines, policy, mshr_term, queue_term, request_rule, result):
    """`evaluate` where machine m has the intervals of profile `of_machine[m]` (see `ProfileBatch`)."""
    first = 0
    while first < len(of_machine):
        p = of_machine[first]
        last = first + 1
        while last < len(of_machine) and of_machine[last] == p:
            last += 1
        intervals = matrix[start[p] : start[p + 1]]
        evaluate(intervals, machines[first:last], policy, mshr_term, queue_term, request_rule, result[first:last])
        first = last


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
