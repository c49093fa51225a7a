"""Per-SM L1 caches and a shared LLC: the lines of memory instructions, and warps that take turns."""

from __future__ import annotations

import numpy as np
from numba import njit

# What an instruction does to memory (global and local space), or that it is a barrier.
NOTHING, LOAD, STORE, ATOMIC, BARRIER = range(5)

IRREGULAR = np.iinfo(np.int64).min

# Columns of the per-instruction counters.
(
    C_EXECUTED,
    C_REQUESTS,
    C_LINES,
    C_DIVERGENT,
    C_L1_HITS,
    C_LLC_HITS,
    C_LLC_MISSES,
    C_WORST_L1,
    C_WORST_LLC,
    C_WORST_DRAM,
    C_DRAM_READS,
    C_DRAM_WRITES,
) = range(12)
COUNTERS = 12

# A line is written in 32 granules. State of a cached line: granules written in the upper half, sectors fetched
# in the lower.
GRANULES = 32
ALL_GRANULES = 0xFFFFFFFF
# Tag of a slot that holds no line: no address has it.
EMPTY = np.iinfo(np.int64).min

# Columns of a memory instruction whose turn it is: where it runs, its lines (from, to), which one it is, its kind.
W_SM, W_FIRST, W_LAST, W_STATIC, W_KIND = range(5)
# Instructions that go through the caches in one call: calls count references to arrays, which takes its time.
TURNS = 512

# Parameters of a cache hierarchy (int64).
(
    P_SMS,
    P_BLOCKS_PER_SM,
    P_L1_SETS,
    P_L1_WAYS,
    P_LLC_BANKS,
    P_LLC_SETS,
    P_LLC_WAYS,
    P_SECTORS,
    P_LLC_WRITE_BACK,
    P_WINDOW,
    P_GREEDY,
    P_QUEUE,
) = range(12)
PARAMETERS = 12

# Parameters of the progress estimate (float64).
(
    Q_ISSUE_INTERVAL,
    Q_L1_LATENCY,
    Q_LLC_LATENCY,
    Q_DRAM_LATENCY,
    Q_NOC_SERVICE,
    Q_SM_SERVICE,
    Q_DRAM_SERVICE,
    Q_OUTSTANDING,
) = range(8)
TIMINGS = 8


@njit(cache=True, nogil=True)
def bit_count(bits):
    """Bits that are set among the lower 32."""
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return ((bits * 0x01010101) >> 24) & 0xFF


@njit(cache=True, nogil=True)
def divide(number, divisor, inverse):
    """(quotient, remainder), by multiplication where that is exact after one correction: divisions are slow."""
    if number < 0 or number >= 1 << 52:
        return number // divisor, number % divisor
    quotient = np.int64(number * inverse)
    remainder = number - quotient * divisor
    if remainder < 0:
        return quotient - 1, remainder + divisor
    if remainder >= divisor:
        return quotient + 1, remainder - divisor
    return quotient, remainder


@njit(cache=True, nogil=True)
def find_places(line_id, parameters, place):
    """Where each line goes: its L1 set (upper half) and the first slot of its LLC set (lower half).

    Line i lies in bank i mod banks.
    """
    l1_sets = max(parameters[P_L1_SETS], 1)
    banks = parameters[P_LLC_BANKS]
    sets = max(parameters[P_LLC_SETS], 1)
    ways = parameters[P_LLC_WAYS]
    by_l1_sets, by_banks, by_sets = 1.0 / l1_sets, 1.0 / banks, 1.0 / sets
    for j in range(len(line_id)):
        _, l1_set = divide(line_id[j], l1_sets, by_l1_sets)
        within, bank = divide(line_id[j], banks, by_banks)
        _, llc_set = divide(within, sets, by_sets)
        place[j] = (l1_set << 32) | ((bank * sets + llc_set) * ways)


@njit(cache=True, nogil=True)
def sectors_of(words, sectors):
    """Which of a line's sectors some granules lie in, as bits."""
    if sectors == 1:
        return 1 if words else 0
    per = GRANULES // sectors
    group = (1 << per) - 1
    touched = 0
    for k in range(sectors):
        if words & (group << (k * per)):
            touched |= 1 << k
    return touched


@njit(cache=True, nogil=True)
def touch(tags, states, row, ways, tag):
    """Bring a line to the front of its set, which is kept most recent first; the state that was evicted, or 0.

    A line that was not there has state 0.
    """
    row = np.uint64(row)  # indices that may be negative cost a quarter of the speed
    tag_before = tags[row]
    if tag_before == tag:
        return 0
    state_before = states[row]
    for slot in range(row + np.uint64(1), row + np.uint64(ways)):
        tag_here = tags[slot]
        state_here = states[slot]
        tags[slot] = tag_before
        states[slot] = state_before
        if tag_here == tag:
            tags[row] = tag
            states[row] = state_here
            return 0
        tag_before = tag_here
        state_before = state_here
    tags[row] = tag
    states[row] = 0
    return state_before


@njit(cache=True, nogil=True)
def touch_whole(tags, row, ways, tag):
    """The same where a line that is there is there as a whole: no states; whether it was there."""
    row = np.uint64(row)
    tag_before = tags[row]
    if tag_before == tag:
        return 1
    for slot in range(row + np.uint64(1), row + np.uint64(ways)):
        tag_here = tags[slot]
        tags[slot] = tag_before
        if tag_here == tag:
            tags[row] = tag
            return 1
        tag_before = tag_here
    tags[row] = tag
    return 0


@njit(cache=True, nogil=True)
def present(tags, row, ways, tag):
    """Slot of a line in its set, or -1."""
    for slot in range(row, row + ways):
        if tags[slot] == tag:
            return slot
    return -1


@njit(cache=True, nogil=True)
def remove(tags, states, slot, end):
    """Empty a slot. Those behind it close up, as the next line to enter must not evict one of them."""
    for k in range(slot, end - 1):
        tags[k] = tags[k + 1]
        states[k] = states[k + 1]
    tags[end - 1] = EMPTY
    states[end - 1] = 0


@njit(cache=True, nogil=True)
def access_lines(
    turns,
    count,
    line_id,
    line_words,
    place,
    l1_tags,
    l1_states,
    llc_tags,
    llc_states,
    parameters,
    counters,
):
    """Memory instructions, in order, through L1 and LLC; (requests that left the SM, LLC misses) of the last one.

    `place` has the L1 set of a line in its upper half and the first slot of its
    LLC set in its lower half. A request is a sector of a line (the line, where
    there are none). L1 is written through and allocates on loads alone: a store
    hits where its sector is there, and goes on. The LLC allocates on stores
    without fetching; a load finds what was fetched or written as a whole.
    Atomics fetch and write in the LLC, unless all they touch was written there,
    and leave no copy in L1.
    """
    ways = parameters[P_L1_WAYS]
    sets = parameters[P_L1_SETS]
    sectors = parameters[P_SECTORS]
    llc_ways = parameters[P_LLC_WAYS]
    no_llc = parameters[P_LLC_SETS] == 0
    write_back = parameters[P_LLC_WRITE_BACK] == 1
    leaving = 0
    llc_misses = 0
    for turn in range(count):
        sm = turns[turn, W_SM]
        first = turns[turn, W_FIRST]
        last = turns[turn, W_LAST]
        what = turns[turn, W_KIND]
        requests = 0
        l1_misses = 0
        leaving = 0
        llc_misses = 0
        dram_reads = 0
        dram_writes = 0
        for j in range(first, last):
            line = line_id[j]
            words = np.int64(line_words[j])
            touched = 1 if sectors == 1 else sectors_of(words, sectors)
            missing = touched
            if sets > 0:
                row = (sm * sets + (place[j] >> 32)) * ways
                if what == LOAD and sectors == 1:
                    missing = 1 - touch_whole(l1_tags, row, ways, line)
                elif what == LOAD:
                    touch(l1_tags, l1_states, row, ways, line)
                    missing = touched & ~l1_states[row]
                    l1_states[row] |= touched
                else:
                    slot = present(l1_tags, row, ways, line)
                    if slot >= 0 and what == STORE:
                        touch(l1_tags, l1_states, row, ways, line)
                        missing = 0 if sectors == 1 else touched & ~l1_states[row]
                    elif slot >= 0:
                        remove(l1_tags, l1_states, slot, row + ways)
            # Stores are written through, so all of a store goes on; a load asks for what is missing.
            asked = missing if what == LOAD else touched
            going = asked
            if sectors == 1:
                requests += 1
                l1_misses += missing
            else:
                requests += bit_count(touched)
                l1_misses += bit_count(missing)
                going = bit_count(asked)
            if going == 0:
                continue
            leaving += going
            if no_llc:
                llc_misses += going
                dram_reads += going if what != STORE else 0
                dram_writes += going if what != LOAD else 0
                continue
            row = place[j] & 0xFFFFFFFF
            evicted = touch(llc_tags, llc_states, row, llc_ways, line)
            if write_back and evicted >> 32:
                dram_writes += 1 if sectors == 1 else bit_count(sectors_of((evicted >> 32) & ALL_GRANULES, sectors))
            state = llc_states[row]
            lacking = asked & ~state
            if lacking:
                written = (state >> 32) & ALL_GRANULES
                if what == STORE:
                    lacking &= ~sectors_of(written, sectors)
                else:
                    needed = words if what == ATOMIC else ALL_GRANULES
                    lacking &= sectors_of(needed & ~written, sectors)
            if lacking:
                lost = 1 if sectors == 1 else bit_count(lacking)
                llc_misses += lost
                if what != STORE:
                    dram_reads += lost
                    state |= lacking
            if what != LOAD:
                state |= words << 32
                if not write_back:
                    dram_writes += going
            llc_states[row] = state
        s = turns[turn, W_STATIC]
        counters[s, C_EXECUTED] += 1
        counters[s, C_REQUESTS] += requests
        counters[s, C_LINES] += last - first
        counters[s, C_DIVERGENT] += last - first > 1
        counters[s, C_L1_HITS] += requests - l1_misses
        counters[s, C_LLC_HITS] += leaving - llc_misses
        counters[s, C_LLC_MISSES] += llc_misses
        counters[s, C_DRAM_READS] += dram_reads
        counters[s, C_DRAM_WRITES] += dram_writes
        if llc_misses > 0:
            counters[s, C_WORST_DRAM] += 1
        elif leaving > 0:
            counters[s, C_WORST_LLC] += 1
        else:
            counters[s, C_WORST_L1] += 1
    return leaving, llc_misses


@njit(cache=True, nogil=True)
def simulate_rounds(
    block_start,
    event_start,
    event_static,
    line_start,
    line_id,
    line_words,
    place,
    kind,
    l1_tags,
    l1_states,
    llc_tags,
    llc_states,
    parameters,
    counters,
):
    """Warps of an SM take turns, one memory instruction each; SMs take turns too.

    Only the `P_WINDOW` oldest resident warps of an SM that are not finished take
    part (0: all of them). Thread blocks go to SMs round robin, and a new one
    enters where one has left.
    """
    blocks = len(block_start) - 1
    sms = parameters[P_SMS]
    most = 0
    for b in range(blocks):
        most = max(most, block_start[b + 1] - block_start[b])
    capacity = parameters[P_BLOCKS_PER_SM] * most
    resident = np.empty((sms, capacity), dtype=np.int64)  # warps, oldest first
    count = np.zeros(sms, dtype=np.int64)
    turn = np.zeros(sms, dtype=np.int64)
    block_of = np.empty(block_start[blocks], dtype=np.int64)
    left = np.zeros(blocks, dtype=np.int64)
    position = event_start[:-1].copy()
    for b in range(blocks):
        left[b] = block_start[b + 1] - block_start[b]
        for w in range(block_start[b], block_start[b + 1]):
            block_of[w] = b
    next_block = 0
    for _ in range(parameters[P_BLOCKS_PER_SM]):
        for sm in range(sms):
            if next_block < blocks:
                for w in range(block_start[next_block], block_start[next_block + 1]):
                    resident[sm, count[sm]] = w
                    count[sm] += 1
                next_block += 1
    window = parameters[P_WINDOW]
    turns = np.empty((TURNS + sms, 5), dtype=np.int64)
    filled = 0
    busy = True
    while busy:
        busy = False
        for sm in range(sms):
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
                    turns[filled, W_SM] = sm
                    turns[filled, W_FIRST] = line_start[event]
                    turns[filled, W_LAST] = line_start[event + 1]
                    turns[filled, W_STATIC] = s
                    turns[filled, W_KIND] = kind[s]
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
                if left[block_of[w]] == 0 and next_block < blocks:
                    for other in range(block_start[next_block], block_start[next_block + 1]):
                        resident[sm, count[sm]] = other
                        count[sm] += 1
                    next_block += 1
        if filled >= TURNS or not busy:
            access_lines(
                turns,
                filled,
                line_id,
                line_words,
                place,
                l1_tags,
                l1_states,
                llc_tags,
                llc_states,
                parameters,
                counters,
            )
            filled = 0
