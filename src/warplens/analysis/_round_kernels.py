"""Caches with warps that take turns."""

from __future__ import annotations

import numpy as np

from ..jit import allocating_kernel, helper
from ._cache_kernels import (
    access_line,
    count_instruction,
)
from ._cache_records import BARRIER, TURN

# Instructions that go through the caches in one call: calls count references to arrays, which takes its time.
TURNS = 512


@allocating_kernel
def warps_of_blocks(block_start):
    """(block of each warp, number of warps of each block, the largest such number)."""
    count = np.empty(len(block_start) - 1, dtype=np.int64)  # not np.diff and max: they take seconds to compile
    block_of = np.empty(block_start[-1], dtype=np.int64)
    largest = 0
    for b in range(len(count)):
        count[b] = block_start[b + 1] - block_start[b]
        largest = max(largest, count[b])
        for w in range(block_start[b], block_start[b + 1]):
            block_of[w] = b
    return block_of, count, largest


@allocating_kernel
def start_rounds(block_start, event_start, config):
    """Warps that are resident at first, and all that `fill_turns` needs to go on from there.

    (block of each warp, its warps that are left, warps of each SM with the oldest
    first, their number, whose turn it is, next event of each warp, next block)
    """
    blocks = len(block_start) - 1
    sms = config.sms
    block_of, left, largest = warps_of_blocks(block_start)
    resident = np.empty((sms, config.blocks_per_sm * largest), dtype=np.int64)
    count = np.zeros(sms, dtype=np.int64)
    turn = np.zeros(sms, dtype=np.int64)
    next_block = np.zeros(1, dtype=np.int64)
    next_block[0] = min(blocks, sms * config.blocks_per_sm)
    for b in range(next_block[0]):
        for w in range(block_start[b], block_start[b + 1]):
            resident[b % sms, count[b % sms]] = w
            count[b % sms] += 1
    return block_of, left, resident, count, turn, event_start[:-1].copy(), next_block


@allocating_kernel
def fill_turns(block_start, event_start, event_static, line_start, kind, config, state, turns):
    """The next memory instructions, some rounds of them; their number, 0 where all is done.

    Warps of an SM take turns, one memory instruction each; SMs take turns too.
    Only the `window` oldest resident warps of an SM that are not finished take
    part (0: all of them). Thread blocks go to SMs round robin, and a new one
    enters where one has left. No turn depends on what hits.
    """
    block_of, left, resident, count, turn, position, next_block = state
    blocks = len(block_start) - 1
    window = config.window
    filled = 0
    busy = True
    while busy and filled < TURNS:
        busy = False
        for sm in range(len(count)):
            while count[sm] > 0:
                here = count[sm] if window == 0 else min(count[sm], window)
                if turn[sm] >= here:
                    turn[sm] = 0
                slot = turn[sm]
                w = resident[sm, slot]
                event = position[w]
                while event < event_start[w + 1] and kind[event_static[event]] == BARRIER:
                    event += 1
                if event < event_start[w + 1]:
                    s = event_static[event]
                    turns[filled].sm = sm
                    turns[filled].first = line_start[event]
                    turns[filled].last = line_start[event + 1]
                    turns[filled].static = s
                    turns[filled].kind = kind[s]
                    filled += 1
                    position[w] = event + 1
                    turn[sm] = slot + 1
                    busy = True
                    break
                # The warp is done: close the gap, and let a block in when its block is done.
                for k in range(slot, count[sm] - 1):
                    resident[sm, k] = resident[sm, k + 1]
                count[sm] -= 1
                left[block_of[w]] -= 1
                if left[block_of[w]] == 0 and next_block[0] < blocks:
                    for other in range(block_start[next_block[0]], block_start[next_block[0] + 1]):
                        resident[sm, count[sm]] = other
                        count[sm] += 1
                    next_block[0] += 1
    return filled


@helper
def access_lines(sm, first, last, s, what, lines, caches):
    """A memory instruction through the caches."""
    own = caches.counters[s]
    missed_before = own.llc_misses
    leaving = 0
    for j in range(first, last):
        going, _, _, _, _, _, _ = access_line(sm, j, s, what, lines, caches, np.int64(0))
        leaving += going
    count_instruction(own, last - first, leaving, own.llc_misses - missed_before)


@allocating_kernel
def simulate_rounds(block_start, event_start, event_static, line_start, kind, lines, caches):
    """Warps that take turns, through the caches of one machine."""
    config = caches.config
    state = start_rounds(block_start, event_start, config)
    turns = np.empty(TURNS + config.sms, dtype=TURN)
    while True:
        filled = fill_turns(block_start, event_start, event_static, line_start, kind, config, state, turns)
        if filled == 0:
            return
        for t in range(filled):
            access_lines(
                turns[t].sm,
                turns[t].first,
                turns[t].last,
                turns[t].static,
                turns[t].kind,
                lines,
                caches,
            )
