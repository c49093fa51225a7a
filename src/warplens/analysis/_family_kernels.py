"""Last-level caches that differ in their ways alone, all in one pass: LRU stacks (Mattson et al. 1970)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import allocating_kernel, helper, inlined
from ..traces._bit_kernels import bit_count
from ._cache_kernels import access_l1, bank_of, count_instruction
from ._cache_records import ALL_GRANULES, LOAD, STORE, TURN, CacheConfig
from ._line_kernels import lacking, llc_row, sectors_of
from ._round_kernels import TURNS, fill_turns, start_rounds

# What one instruction does in each cache: sectors that miss, those written to DRAM, those written back that miss.
MISSED, WRITTEN, WRITEBACK_MISSED = range(3)


class Family(NamedTuple):
    """L1 caches, and last-level caches of several `ways`, smallest first.

    A slot of the largest cache has a record, with a state in each cache; `dirty`
    says of a record whether it was written to in any. `bank_load` has the requests
    of each LLC bank, `channels` its DRAM transfers in each cache.
    """

    l1_tags: NDArray[np.int64]
    l1_states: NDArray[np.int64]
    ways: NDArray[np.int64]
    tags: NDArray[np.int64]
    records: NDArray[np.int64]
    states: NDArray[np.int64]
    dirty: NDArray[np.bool_]
    config: CacheConfig
    counters: NDArray[Any]
    bank_load: NDArray[np.int64]
    channels: NDArray[np.int64]


@helper
def to_front(line, row, family, totals, channel):
    """Bring a line to the front of its stack, which is as deep as the largest cache.

    (its record, number of caches that did not hold it, the smallest ones). A
    cache of w ways holds the first w lines of the stack: one that did not hold
    the line loses its last, and writes back what was written to that there.
    `channel` counts what goes to the DRAM channel of the line's bank.
    """
    ways = family.ways
    tags = family.tags
    records = family.records
    states = family.states
    dirty = family.dirty
    config = family.config
    depth = config.llc_ways
    write_back = config.llc_write_back
    position = 0
    while position < depth and tags[row + position] != line:
        position += 1
    without = 0
    while without < len(ways) and ways[without] <= position:
        last = records[row + ways[without] - 1]
        if write_back and dirty[last]:
            written = (states[last, without] >> 32) & ALL_GRANULES
            if written:
                stored = bit_count(sectors_of(written, config.sectors))
                totals[WRITTEN, without] += stored
                channel[without] += stored
                states[last, without] = 0
        without += 1
    position = min(position, depth - 1)
    record = records[row + position]
    for k in range(row + position, row, -1):
        tags[k] = tags[k - 1]
        records[k] = records[k - 1]
    tags[row] = line
    records[row] = record
    if without == len(ways):
        dirty[record] = False
    return record, without


@helper
def request(what, line, words, asked, row, family, totals, entered, missed, channel):
    """A line's access in all caches of the family.

    Sectors that miss are counted in row `missed` of `totals`, of caches that held
    the line, and of `entered`, by the number of caches that did not. What a
    smaller cache can answer, a larger one can, as the line came there no later;
    but an atomic fetches a line that a larger cache, which still holds what was
    written to it, has only in part.
    """
    ways = family.ways
    states = family.states
    dirty = family.dirty
    sectors = family.config.sectors
    record, without = to_front(line, row, family, totals, channel)
    fresh = 0 if what == STORE else asked
    if what != LOAD:
        fresh |= words << 32
        dirty[record] = True
    for cache in range(without):
        states[record, cache] = fresh
    entered[missed, without] += bit_count(asked)
    if what != STORE:
        for cache in range(without):
            channel[cache] += bit_count(asked)
    for cache in range(without, len(ways)):
        state = states[record, cache]
        missing = lacking(what, asked, words, state, (state >> 32) & ALL_GRANULES, sectors)
        if what == LOAD and missing == 0 and not dirty[record]:
            return  # nor does a larger cache miss anything
        totals[missed, cache] += bit_count(missing)
        if what != STORE:
            channel[cache] += bit_count(missing)
        states[record, cache] = state | fresh if what == STORE else state | missing | (fresh >> 32 << 32)


@inlined
def access_family_line(sm, j, what, lines, family, totals, entered, not_counted):
    """A line through an L1 and all last-level caches: `access_line` for a family.

    (its requests, those that miss the L1, those that leave the SM, sectors that the L1 writes back)
    """
    config = family.config
    line = lines.number[j]
    row = (sm * config.l1_sets + (lines.place[j] >> 32)) * config.l1_ways
    touched, missing, asked, words, leaves, left = access_l1(
        what, line, np.int64(lines.words[j]), row, family.l1_tags, family.l1_states, config
    )
    written_back = 0
    if left:
        sent = sectors_of(left, config.sectors)
        written_back = bit_count(sent)
        row = llc_row(leaves, config.llc_banks, config.llc_sets, config.llc_ways)
        request(STORE, leaves, left, sent, row, family, totals, entered, WRITEBACK_MISSED, not_counted)
    going = bit_count(asked)
    if going:
        bank = bank_of(line, config.llc_banks, config.llc_hashed)
        family.bank_load[bank] += going
        if what != LOAD and not config.llc_write_back:
            for cache in range(len(family.ways)):
                family.channels[bank, cache] += going
        row = lines.place[j] & 0xFFFFFFFF
        request(what, line, words, asked, row, family, totals, entered, MISSED, family.channels[bank])
    return bit_count(touched), bit_count(missing), going, written_back


@inlined
def count_family(turn, requests, l1_misses, leaving, written_back, family, totals, entered):
    """An execution of an instruction, in the counters of every cache."""
    lines = turn.last - turn.first
    through = 0  # written to DRAM at once
    if not family.config.llc_write_back:
        through = written_back + (leaving if turn.kind != LOAD else 0)
    misses = 0
    writeback_misses = 0
    for cache in range(len(family.ways) - 1, -1, -1):
        misses += entered[MISSED, cache + 1]
        writeback_misses += entered[WRITEBACK_MISSED, cache + 1]
        missed = misses + totals[MISSED, cache]
        writebacks_missed = writeback_misses + totals[WRITEBACK_MISSED, cache]
        own = family.counters[cache, turn.static]
        count_instruction(own, lines, leaving, missed)
        own.requests += requests
        own.l1_hits += requests - l1_misses
        own.llc_hits += leaving - missed
        own.llc_misses += missed
        own.dram_reads += missed if turn.kind != STORE else 0
        own.dram_writes += totals[WRITTEN, cache] + through
        own.writeback_hits += written_back - writebacks_missed
        own.writeback_misses += writebacks_missed


@allocating_kernel
def access_family(turns, count, lines, family):
    """Memory instructions, in order, through L1 and all last-level caches: `access_lines` for a family."""
    ways = family.ways
    totals = np.zeros((3, len(ways)), dtype=np.int64)
    entered = np.zeros((3, len(ways) + 1), dtype=np.int64)
    not_counted = np.zeros(len(ways), dtype=np.int64)  # as for a single cache, of what an L1 writes back
    for t in range(count):
        turn = turns[t]
        requests = 0
        l1_misses = 0
        leaving = 0
        written_back = 0
        totals[:] = 0
        entered[:] = 0
        for j in range(turn.first, turn.last):
            touched, missing, going, back = access_family_line(
                turn.sm, j, turn.kind, lines, family, totals, entered, not_counted
            )
            requests += touched
            l1_misses += missing
            leaving += going
            written_back += back
        count_family(turn, requests, l1_misses, leaving, written_back, family, totals, entered)


@allocating_kernel
def simulate_family(block_start, event_start, event_static, line_start, kind, lines, family):
    """Warps that take turns, through all caches."""
    config = family.config
    state = start_rounds(block_start, event_start, config)
    turns = np.empty(TURNS + config.sms, dtype=TURN)
    while True:
        filled = fill_turns(block_start, event_start, event_static, line_start, kind, config, state, turns)
        if filled == 0:
            return
        access_family(turns, filled, lines, family)
