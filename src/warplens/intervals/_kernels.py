"""Compiled interval algorithm over the warps of a trace (Eq. G-4)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
