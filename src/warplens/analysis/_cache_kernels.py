"""Per-SM L1 caches and a shared LLC: the lines of memory instructions."""

from __future__ import annotations

import numpy as np

from ..jit import helper, inlined, kernel
from ..traces._bit_kernels import bit_count
from ._cache_records import ALL_GRANULES, ATOMIC, EMPTY, LOAD, PAIR, STORE
from ._line_kernels import digit_weight, divide, granules_of, l1_set, lacking, llc_row, sectors_of

# An odd number with no pattern (the golden ratio's bits): its multiples spread lines over banks.
HASH = 0x1E3779B97F4A7C15


@kernel
def find_places(line_id, config, place):
    """Where each line goes: its L1 set (upper half) and the first slot of its LLC set (lower half).

    Line i lies in bank i mod banks.
    """
    l1_sets = max(config.l1_sets, 1)
    banks = config.llc_banks
    sets = max(config.llc_sets, 1)
    ways = config.llc_ways
    by_banks, by_sets = 1.0 / banks, 1.0 / sets
    weight = digit_weight(l1_sets, config.l1_hashed)
    for j in range(len(line_id)):
        own = l1_set(line_id[j], l1_sets, weight)
        within, bank = divide(line_id[j], banks, by_banks)
        _, llc_set = divide(within, sets, by_sets)
        place[j] = (own << 32) | ((bank * sets + llc_set) * ways)


@kernel
def find_l1_sets(line_id, sets, hashed, found):
    """The L1 set of each line."""
    weight = digit_weight(sets, hashed)
    for j in range(len(line_id)):
        found[j] = l1_set(line_id[j], sets, weight)


@helper
def fetched_with(missing, together, sectors):
    """Sectors that come with those that are fetched: the LLC asks DRAM for `together` neighbours at once."""
    if together == 1:
        return missing
    group = (1 << together) - 1
    found = 0
    for first in range(0, sectors, together):
        if missing & (group << first):
            found |= group << first
    return found


@helper
def touch(tags, states, row, ways, tag):
    """Bring a line to the front of its set, which is kept most recent first; the state that was evicted, or 0.

    A line that was not there has state 0. The detailed simulator, whose lines wait
    in their places for data, replaces by the time of last use: the same choice.
    Here that would take 1.3 (4 ways, all hits) to 2.9 times as long (16 ways, half misses).
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


@helper
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


@helper
def present(tags, row, ways, tag):
    """Slot of a line in its set, or -1."""
    for slot in range(row, row + ways):
        if tags[slot] == tag:
            return slot
    return -1


@helper
def remove(tags, states, slot, end):
    """Empty a slot. Those behind it close up, as the next line to enter must not evict one of them."""
    for k in range(slot, end - 1):
        tags[k] = tags[k + 1]
        states[k] = states[k + 1]
    tags[end - 1] = EMPTY
    states[end - 1] = 0


@helper
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


@helper
def access_written_l1(what, line, words, touched, row, tags, states, config):
    """A line's access where the L1 holds what was written; (missing, asked, line that leaves, its dirty granules).

    `asked` are the sectors that go on to the LLC. As in the LLC nothing is fetched for a store.
    """
    ways = config.l1_ways
    sectors = config.sectors
    write_back = config.l1_write_back
    allocate = config.l1_allocate
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
    missing = lacking(what, touched, words, state, (state >> 32) & ALL_GRANULES, sectors)
    if what == LOAD:
        states[row] = state | missing
        return missing, missing, leaves, dirty
    kept = touched if allocate else touched & ~missing
    states[row] = state | ((words & granules_of(kept, sectors)) << 32)
    return missing, touched & ~kept if write_back else touched, leaves, dirty


@helper
def access_llc(what, line, words, asked, row, tags, states, config):
    """A line's access at the LLC, or what an L1 writes back (a store); (sectors that miss, that DRAM gives and gets).

    Nothing is fetched for a store. Without allocation, sectors that are not held
    go on to DRAM. Atomics fetch and write, unless all they touch was written.
    """
    sectors = config.sectors
    ways = config.llc_ways
    write_back = config.llc_write_back
    stays_out = what == STORE and not config.llc_allocate
    going = bit_count(asked)
    if config.llc_sets == 0 or (stays_out and present(tags, row, ways, line) < 0):
        return going, going if what != STORE else 0, going if what != LOAD else 0
    evicted = touch(tags, states, row, ways, line)
    stored = 0
    if write_back and evicted >> 32:
        stored = bit_count(sectors_of((evicted >> 32) & ALL_GRANULES, sectors))
    state = states[row]
    missing = lacking(what, asked, words, state, (state >> 32) & ALL_GRANULES, sectors)
    missed = bit_count(missing)
    read = 0
    if missed and what != STORE:
        coming = fetched_with(missing, config.fetch_sectors, sectors) & ~state
        coming &= sectors_of(ALL_GRANULES & ~((state >> 32) & ALL_GRANULES), sectors)
        read = bit_count(coming)
        state |= coming
    if what != LOAD:
        kept = words
        if stays_out:
            kept &= ~granules_of(missing, sectors)
        stored += going if not write_back else missed if stays_out else 0
        state |= kept << 32
    states[row] = state
    return missed, read, stored


@helper
def drop_copies(line, row, kept, home, tags, states, config):
    """Empty the slots of a line in all parts of the LLC but its home and the one that is `kept`."""
    ways = config.llc_ways
    for part in range(config.llc_partitions):
        first = row + part * config.llc_banks * config.llc_sets * ways
        slot = present(tags, first, ways, line) if part != home and part != kept else -1
        if slot >= 0:
            remove(tags, states, slot, first + ways)


@helper
def access_partitions(what, line, words, asked, row, sm, tags, states, config):
    """A line's access at an LLC in parts: as `access_llc`, and the sectors that another part than the SM's was asked.

    Each part keeps copies of what its own SMs load, or write as a whole. The part
    where a line is at home has all of it, and alone knows what is dirty.
    """
    if config.llc_partitions == 1 or config.llc_sets == 0:
        missed, read, stored = access_llc(what, line, words, asked, row, tags, states, config)
        return missed, read, stored, 0
    sectors = config.sectors
    size = config.llc_banks * config.llc_sets * config.llc_ways
    part = sm // PAIR % config.llc_partitions
    home = bank_of(line, config.llc_partitions, True)
    if what != LOAD:
        drop_copies(line, row, part if what == STORE else home, home, tags, states, config)
    needed = asked
    written = 0  # of what a copy pushes out
    if part != home and (what == LOAD or (what == STORE and config.llc_allocate)):
        own = row + part * size
        evicted = touch(tags, states, own, config.llc_ways, line)
        if config.llc_write_back:
            written = bit_count(sectors_of((evicted >> 32) & ALL_GRANULES, sectors))
        copied = asked
        if what == STORE:
            copied &= ~sectors_of(granules_of(asked, sectors) & ~words, sectors)
        else:
            needed &= ~states[own]
        states[own] |= copied
    if needed == 0:
        return 0, 0, written, 0
    missed, read, stored = access_llc(what, line, words, needed, row + home * size, tags, states, config)
    return missed, read, stored + written, needed if part != home else 0


@helper
def bank_of(line, banks, hashed):
    """The LLC bank that counts for a line."""
    if hashed:
        return (((line * HASH) & 0x7FFFFFFFFFFFFFFF) >> 31) % banks
    return line % banks


@inlined
def access_l1(what, line, words, row, tags, states, config):
    """A line's access at an L1, if there is one.

    (sectors touched, those missing, those asked of the LLC, granules that go there,
    line that leaves, its dirty granules). An L1 that is written through and
    allocates on loads alone needs no written granules: a store hits where its
    sector is there, and goes on.
    """
    sectors = config.sectors
    touched = 1 if sectors == 1 else sectors_of(words, sectors)
    missing = touched
    asked = touched
    leaves = line
    dirty = 0
    if config.l1_sets > 0:
        if not config.l1_write_back and not config.l1_allocate:
            missing, asked = access_read_l1(what, line, touched, row, config.l1_ways, sectors, tags, states)
        else:
            missing, asked, leaves, dirty = access_written_l1(what, line, words, touched, row, tags, states, config)
            if asked != touched:
                words &= granules_of(asked, sectors)
    return touched, missing, asked, words, leaves, dirty


@inlined
def access_line(sm, j, s, what, lines, caches, merged):
    """Line `j` of an instruction through the L1 of an SM and the LLC; requests and what becomes of them are counted.

    (requests that leave the SM, those that DRAM answers, sectors that this writes
    to DRAM, those that another part of the LLC has; the line that leaves the L1
    for it, its sectors that are written back, those that this writes to DRAM). A
    request is a sector of a line (the line, where there are none). A dirty line
    leaves the L1 before what takes its place, or the atomic that drops it, goes to
    the LLC, and counts for that instruction. Sectors of a store that are `merged`
    leave with an earlier one: the LLC gets their data, and they are no requests to
    it.
    """
    what = np.int64(what)  # one type for all calls: each would be compiled apart
    config = caches.config
    llc_tags = caches.llc_tags
    llc_states = caches.llc_states
    store = np.int64(STORE)
    own = caches.counters[s]
    line = lines.number[j]
    row = (sm * config.l1_sets + (lines.place[j] >> 32)) * config.l1_ways
    touched, missing, asked, words, leaves, dirty = access_l1(
        what, line, np.int64(lines.words[j]), row, caches.l1_tags, caches.l1_states, config
    )
    written_back = 0
    stored_back = 0
    if dirty:
        sent = sectors_of(dirty, config.sectors)
        row = llc_row(leaves, config.llc_banks, config.llc_sets, config.llc_ways)
        missed, _, stored_back, _ = access_partitions(
            store, leaves, dirty, sent, row, sm, llc_tags, llc_states, config
        )
        written_back = bit_count(sent)
        own.writeback_hits += written_back - missed
        own.writeback_misses += missed
        own.dram_writes += stored_back
    requests = bit_count(touched)
    own.requests += requests
    own.l1_hits += requests - bit_count(missing & ~merged)
    going = bit_count(asked & ~merged)
    reads = 0
    stored = 0
    crossing = 0
    if asked:
        bank = bank_of(line, config.llc_banks, config.llc_hashed)
        row = lines.place[j] & 0xFFFFFFFF
        missed, reads, stored, crossing = access_partitions(
            what, line, words, asked, row, sm, llc_tags, llc_states, config
        )
        missed = min(missed, going)
        own.llc_hits += going - missed
        own.llc_misses += missed
        own.dram_reads += reads
        own.dram_writes += stored
        caches.bank_load[0, bank] += going
        caches.bank_load[1, bank] += reads + stored
    return going, reads, stored, crossing, leaves, written_back, stored_back


@helper
def count_level(own, leaves, missed):
    """The level that served the last request of an execution, by whether any left the SM or missed the LLC."""
    if missed:
        own.worst_dram += 1
    elif leaves:
        own.worst_llc += 1
    else:
        own.worst_l1 += 1


@helper
def count_instruction(own, lines, leaving, missed):
    """An execution of an instruction, by the worst of its requests: did any leave the SM, did any miss the LLC."""
    own.executed += 1
    own.lines += lines
    own.divergent += lines > 1
    count_level(own, leaving > 0, missed > 0)
