"""Per-SM L1 caches and a shared LLC: the lines of memory instructions."""

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
    C_WRITEBACK_HITS,
    C_WRITEBACK_MISSES,
) = range(14)
COUNTERS = 14

# A line is written in 32 granules. State of a cached line: granules written in the upper half, sectors fetched
# in the lower.
GRANULES = 32
ALL_GRANULES = 0xFFFFFFFF
# Tag of a slot that holds no line: no address has it.
EMPTY = np.iinfo(np.int64).min

# Lines that an instruction of 32 lanes touches at most: each lane up to 64 KiB in lines of 32 bytes.
MOST_LINES = 32 * (1 << 11)

# An odd number with no pattern (the golden ratio's bits): its multiples spread lines over banks.
HASH = 0x1E3779B97F4A7C15

# Columns of a memory instruction whose turn it is: where it runs, its lines (from, to), which one it is, its kind.
W_SM, W_FIRST, W_LAST, W_STATIC, W_KIND = range(5)

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
    P_L1_WRITE_BACK,
    P_L1_ALLOCATE,
    P_LLC_WRITE_BACK,
    P_LLC_ALLOCATE,
    P_WINDOW,
    P_GREEDY,
    P_QUEUE,
    P_HASHED,
    P_FETCH,
) = range(17)
PARAMETERS = 17

# Loads whose data another load has asked for and that are not there yet, per static instruction: executions that
# found all in the L1 but for that, and in the LLC; and the sum of the part of the wait that was left of each.
A_L1, A_L1_LEFT, A_LLC, A_LLC_LEFT = range(4)
ARRIVALS = 4

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
def granules_of(touched, sectors):
    """The granules of some sectors, both as bits."""
    if sectors == 1:
        return ALL_GRANULES if touched else 0
    per = GRANULES // sectors
    group = (1 << per) - 1
    words = 0
    for k in range(sectors):
        if touched & (1 << k):
            words |= group << (k * per)
    return words


@njit(cache=True, nogil=True)
def fetched_with(lacking, together, sectors):
    """Sectors that come with those that are fetched: the LLC asks DRAM for `together` neighbours at once."""
    group = (1 << together) - 1
    found = 0
    for first in range(0, sectors, together):
        if lacking & (group << first):
            found |= group << first
    return found


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
def access_read_l1(what, line, touched, row, ways, sectors, tags, states):
    """A line's access where the L1 is written through and stores take no room: (missing, asked), both as sectors.

    `asked` are the sectors that go on to the LLC. A store hits where its sector
    is there, and goes on; an atomic leaves no copy.
    """
    if what == LOAD:
        if sectors == 1:
            missing = 1 - touch_whole(tags, row, ways, line)
        else:
            touch(tags, states, row, ways, line)
            missing = touched & ~states[row]
            states[row] |= touched
        return missing, missing
    slot = present(tags, row, ways, line)
    if slot >= 0 and what == STORE:
        touch(tags, states, row, ways, line)
        return 0 if sectors == 1 else touched & ~states[row], touched
    if slot >= 0:
        remove(tags, states, slot, row + ways)
    return touched, touched


@njit(cache=True, nogil=True)
def access_written_l1(what, line, words, touched, row, tags, states, parameters):
    """A line's access where the L1 holds what was written; (missing, asked, line that leaves, its dirty granules).

    `asked` are the sectors that go on to the LLC. As in the LLC nothing is
    fetched for a store: it hits a sector that was fetched or written in part, a
    load one that was fetched or written as a whole.
    """
    ways = parameters[P_L1_WAYS]
    sectors = parameters[P_SECTORS]
    write_back = parameters[P_L1_WRITE_BACK] == 1
    allocate = parameters[P_L1_ALLOCATE] == 1
    slot = present(tags, row, ways, line)
    leaves = line
    left = 0
    if what == ATOMIC:
        if slot >= 0:
            left = states[slot]
            remove(tags, states, slot, row + ways)
    elif slot < 0 and (what == LOAD or allocate):
        leaves = tags[row + ways - 1]
        left = states[row + ways - 1]
    dirty = (left >> 32) & ALL_GRANULES if write_back else 0
    if what == ATOMIC or (what == STORE and slot < 0 and not allocate):
        return touched, touched, leaves, dirty
    touch(tags, states, row, ways, line)
    state = states[row]
    written = (state >> 32) & ALL_GRANULES
    if what == LOAD:
        missing = touched & ~state & sectors_of(ALL_GRANULES & ~written, sectors)
        states[row] = state | missing
        return missing, missing, leaves, dirty
    missing = touched & ~(state | sectors_of(written, sectors))
    kept = touched if allocate else touched & ~missing
    states[row] = state | ((words & granules_of(kept, sectors)) << 32)
    return missing, touched & ~kept if write_back else touched, leaves, dirty


@njit(cache=True, nogil=True)
def store_in_llc(line, words, row, tags, states, parameters):
    """A store, or what an L1 writes back, at the LLC; (sectors, those that miss, sectors written to DRAM).

    Nothing is fetched. Without allocation, sectors that are not held go on to DRAM.
    """
    sectors = parameters[P_SECTORS]
    ways = parameters[P_LLC_WAYS]
    write_back = parameters[P_LLC_WRITE_BACK] == 1
    allocate = parameters[P_LLC_ALLOCATE] == 1
    asked = sectors_of(words, sectors)
    going = bit_count(asked)
    if parameters[P_LLC_SETS] == 0 or (not allocate and present(tags, row, ways, line) < 0):
        return going, going, going
    evicted = touch(tags, states, row, ways, line)
    writes = bit_count(sectors_of((evicted >> 32) & ALL_GRANULES, sectors)) if write_back else going
    state = states[row]
    missing = asked & ~(state | sectors_of((state >> 32) & ALL_GRANULES, sectors))
    misses = bit_count(missing)
    kept = words
    if not allocate:
        kept &= ~granules_of(missing, sectors)
        writes += misses if write_back else 0
    states[row] = state | (kept << 32)
    return going, misses, writes


@njit(cache=True, nogil=True)
def llc_row(line, parameters):
    """First slot of a line's LLC set."""
    banks = parameters[P_LLC_BANKS]
    sets = max(parameters[P_LLC_SETS], 1)
    return (line % banks * sets + line // banks % sets) * parameters[P_LLC_WAYS]


@njit(cache=True, nogil=True)
def bank_of(line, banks, hashed):
    """The LLC bank that counts for a line."""
    if hashed:
        return (((line * HASH) & 0x7FFFFFFFFFFFFFFF) >> 31) % banks
    return line % banks


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
    outcome,
    bank_load,
):
    """Memory instructions, in order, through L1 and LLC.

    Of the last one: (requests that left the SM, those that missed the LLC,
    sectors written back to the LLC, those that missed it).

    `place` has the L1 set of a line in its upper half and the first slot of its
    LLC set in its lower half. A request is a sector of a line (the line, where
    there are none). `outcome` has, for each line of the last instruction, the
    level that served it (0 = L1, 1 = LLC, 2 = DRAM), `bank_load` the requests and
    the DRAM transfers of each LLC bank. An L1 that is written through and allocates on loads alone
    needs no written granules: a store hits where its sector is there, and goes
    on. A dirty line leaves the L1 before what takes its place, or the atomic that
    drops it, goes to the LLC, and counts for that instruction. The LLC fetches
    nothing for a store; a load finds what was fetched or written as a whole.
    Atomics fetch and write in the LLC, unless all they touch was written there,
    and leave no copy in L1.
    """
    ways = parameters[P_L1_WAYS]
    sets = parameters[P_L1_SETS]
    sectors = parameters[P_SECTORS]
    holds_writes = parameters[P_L1_WRITE_BACK] == 1 or parameters[P_L1_ALLOCATE] == 1
    llc_ways = parameters[P_LLC_WAYS]
    no_llc = parameters[P_LLC_SETS] == 0
    write_back = parameters[P_LLC_WRITE_BACK] == 1
    llc_allocate = parameters[P_LLC_ALLOCATE] == 1
    banks = parameters[P_LLC_BANKS]
    hashed = parameters[P_HASHED] == 1
    together = parameters[P_FETCH]
    leaving = 0
    llc_misses = 0
    written_back = 0
    writeback_misses = 0
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
        written_back = 0
        writeback_misses = 0
        for j in range(first, last):
            line = line_id[j]
            words = np.int64(line_words[j])
            touched = 1 if sectors == 1 else sectors_of(words, sectors)
            missing = touched
            asked = touched
            if sets > 0:
                row = (sm * sets + (place[j] >> 32)) * ways
                if not holds_writes:
                    missing, asked = access_read_l1(what, line, touched, row, ways, sectors, l1_tags, l1_states)
                else:
                    missing, asked, leaves, dirty = access_written_l1(
                        what, line, words, touched, row, l1_tags, l1_states, parameters
                    )
                    if dirty:
                        sent, missed, stored = store_in_llc(
                            leaves, dirty, llc_row(leaves, parameters), llc_tags, llc_states, parameters
                        )
                        written_back += sent
                        writeback_misses += missed
                        dram_writes += stored
                    if asked != touched:
                        words &= granules_of(asked, sectors)
            going = asked
            if sectors == 1:
                requests += 1
                l1_misses += missing
            else:
                requests += bit_count(touched)
                l1_misses += bit_count(missing)
                going = bit_count(asked)
            outcome[j - first] = 0
            if going == 0:
                continue
            bank = bank_of(line, banks, hashed)
            bank_load[0, bank] += going
            leaving += going
            outcome[j - first] = 1
            if no_llc:
                outcome[j - first] = 2
                bank_load[1, bank] += going
                llc_misses += going
                dram_reads += going if what != STORE else 0
                dram_writes += going if what != LOAD else 0
                continue
            row = place[j] & 0xFFFFFFFF
            if what == STORE and not llc_allocate:
                _, missed, stored = store_in_llc(line, words, row, llc_tags, llc_states, parameters)
                llc_misses += missed
                dram_writes += stored
                bank_load[1, bank] += stored
                continue
            evicted = touch(llc_tags, llc_states, row, llc_ways, line)
            if write_back and evicted >> 32:
                stored = 1 if sectors == 1 else bit_count(sectors_of((evicted >> 32) & ALL_GRANULES, sectors))
                dram_writes += stored
                bank_load[1, bank] += stored
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
                    if together > 1:
                        lacking = fetched_with(lacking, together, sectors) & ~state
                        lacking &= sectors_of(ALL_GRANULES & ~((state >> 32) & ALL_GRANULES), sectors)
                        lost = bit_count(lacking)
                    dram_reads += lost
                    bank_load[1, bank] += lost
                    outcome[j - first] = 2
                    state |= lacking
            if what != LOAD:
                state |= words << 32
                if not write_back:
                    dram_writes += going
                    bank_load[1, bank] += going
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
        if holds_writes:
            counters[s, C_WRITEBACK_HITS] += written_back - writeback_misses
            counters[s, C_WRITEBACK_MISSES] += writeback_misses
        if llc_misses > 0:
            counters[s, C_WORST_DRAM] += 1
        elif leaving > 0:
            counters[s, C_WORST_LLC] += 1
        else:
            counters[s, C_WORST_L1] += 1
    return leaving, llc_misses, written_back, writeback_misses
