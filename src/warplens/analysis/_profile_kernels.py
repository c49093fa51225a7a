"""Compiled interval algorithm over the warps of a trace (Eq. G-4)."""

from __future__ import annotations

import numpy as np

from ..jit import allocating_kernel


@allocating_kernel
def warp_totals(
    start, static, latency, destinations, destination_offsets, sources, source_offsets, step, instructions, stalls
):
    """Instructions and stall cycles of every warp that runs alone, in order."""
    ready = np.zeros(256)
    for w in range(len(start) - 1):
        ready[:] = 0.0
        issue = -step
        stall = 0.0
        for i in range(start[w], start[w + 1]):
            s = static[i]
            earliest = issue + step
            when = earliest
            for r in range(source_offsets[s], source_offsets[s + 1]):
                register = sources[r]
                if register < 255 and ready[register] > when:
                    when = ready[register]
            stall += when - earliest
            issue = when  # Eq. (G-4)
            for r in range(destination_offsets[s], destination_offsets[s + 1]):
                register = destinations[r]
                if register < 255:
                    ready[register] = when + latency[s] + step
        instructions[w] = start[w + 1] - start[w]
        stalls[w] = stall


@allocating_kernel
def warp_intervals(
    static, latency, destinations, destination_offsets, sources, source_offsets, step, min_gap, end, stall, cause
):
    """Intervals of one warp: index after their last instruction, stall, static instruction that caused it (or -1).

    A stall of at least `min_gap` closes an interval; shorter ones are added to
    the interval they lie in, with the longest as its cause. Returns the number
    of intervals.
    """
    ready = np.zeros(256)
    producer = np.full(256, -1, dtype=np.int64)
    issue = -step
    count = 0
    waited = 0.0
    longest = 0.0
    longest_cause = np.int64(-1)
    n = len(static)
    for i in range(n):
        s = static[i]
        earliest = issue + step
        when = earliest
        by = np.int64(-1)
        for r in range(source_offsets[s], source_offsets[s + 1]):
            register = sources[r]
            if register < 255 and ready[register] > when:
                when = ready[register]
                by = producer[register]
        gap = when - earliest
        if gap > 0.0:
            waited += gap
            if gap > longest:
                longest = gap
                longest_cause = by
            if gap >= min_gap:
                end[count] = i
                stall[count] = waited
                cause[count] = longest_cause
                count += 1
                waited = 0.0
                longest = 0.0
                longest_cause = -1
        issue = when
        for r in range(destination_offsets[s], destination_offsets[s + 1]):
            register = destinations[r]
            if register < 255:
                ready[register] = when + latency[s] + step
                producer[register] = s
    end[count] = n
    stall[count] = waited
    cause[count] = longest_cause
    return count + 1


@allocating_kernel
def _interval_sum(running, start, end):
    """Sum of an interval from running sums; what cancellation leaves of nothing is nothing."""
    value = running[end] - running[start]
    return 0.0 if abs(value) < 1e-12 else value


@allocating_kernel
def profiles(
    static,
    latencies,
    steps,
    destinations,
    destination_offsets,
    sources,
    source_offsets,
    min_gap,
    per_execution,
    levels,
    is_read,
    matrix,
    start,
    stall_cycles,
    stalls,
    stall_by_cause,
):
    """Profiles of one warp, one per row of `latencies` (of the static instructions) and `steps`.

    `per_execution` has, per static instruction: memory instructions that miss
    L1, reads and writes that leave the SM, and requests that go to DRAM.
    `matrix` is filled from row `start[p]` on, with room for len(static) + 1
    intervals each. Returns the rows used.
    """
    n = len(static)
    running = np.zeros((4, n + 1))
    for i in range(n):
        for column in range(4):
            running[column, i + 1] = running[column, i] + per_execution[static[i], column]
    end = np.empty(n + 1, dtype=np.int64)
    stall = np.empty(n + 1)
    cause = np.empty(n + 1, dtype=np.int64)
    used = 0
    for p in range(len(steps)):
        count = warp_intervals(
            static,
            latencies[p],
            destinations,
            destination_offsets,
            sources,
            source_offsets,
            steps[p],
            min_gap,
            end,
            stall,
            cause,
        )
        first = 0
        start[p] = used
        for i in range(count):
            missing = _interval_sum(running[0], first, end[i])
            reads = _interval_sum(running[1], first, end[i])
            writes = _interval_sum(running[2], first, end[i])
            requests = (running[1, end[i]] - running[1, first]) + (running[2, end[i]] - running[2, first])
            ratio = 0.0
            if requests > 0.0:
                ratio = min(max((running[3, end[i]] - running[3, first]) / requests, 0.0), 1.0)
            matrix[used, 0] = end[i] - first
            matrix[used, 1] = 0.0 if abs(stall[i]) < 1e-12 else stall[i]
            matrix[used, 2] = missing
            matrix[used, 3] = reads
            matrix[used, 4] = writes
            matrix[used, 5] = 0.0 if ratio < 1e-12 else ratio
            waited = matrix[used, 1]
            if waited != 0.0:
                stalls[p] += 1.0
                stall_cycles[p] += waited
                if cause[i] >= 0 and is_read[cause[i]]:
                    for level in range(3):
                        stall_by_cause[p, level + 1] += waited * levels[cause[i], level]
                else:
                    stall_by_cause[p, 0] += waited
            first = end[i]
            used += 1
    start[len(steps)] = used
    return used


@allocating_kernel
def longest_chain(classes, offsets, depends, latency, chain):
    """Mark the dependence chain with the largest sum of latencies: rows are instructions, columns machines.

    Of equal sums the instruction that comes first in `depends`, or in the program, is taken.
    """
    n = len(classes)
    finish = np.zeros(n)
    previous = np.empty(n, dtype=np.int64)
    for machine in range(latency.shape[1]):
        last = np.int64(-1)
        for i in range(n):
            before = np.int64(-1)
            for d in range(offsets[i], offsets[i + 1]):
                if before < 0 or finish[depends[d]] > finish[before]:
                    before = depends[d]
            previous[i] = before
            finish[i] = latency[classes[i], machine]
            if before >= 0:
                finish[i] += finish[before]
            if last < 0 or finish[i] > finish[last]:
                last = i
        while last >= 0:
            chain[last, machine] = True
            last = previous[last]
