"""What an access takes: its way through the L1, the network, the LLC and DRAM, for the estimate of progress."""

from __future__ import annotations

import numpy as np

from ..jit import helper
from ._cache_kernels import access_line, bank_of, count_instruction, present
from ._cache_records import LOAD, STORE
from ._line_kernels import sectors_of
from ._sharing_kernels import shares

# Lines on their way that are remembered, of an SM and of the LLC (powers of two).
L1_PLACES, LLC_PLACES = 1 << 10, 1 << 16


@helper
def ahead(free, even_free, now, service):
    """Services for which one server is busy and the even one is not; less than none where it is the other way."""
    return (max(free, now) - max(even_free, now)) / service if service > 0.0 else 0.0


@helper
def send(sm, now, start, waits, going, reads, stored, bank, even, banks, timing, flight, crowds):
    """(time the last datum is back, time the L1 goes on) of the requests for one line, all to the same bank.

    As many of them wait for DRAM as it gives sectors. The first of a load also takes
    what a line takes at the least. Ports and DRAM channels fill from the time of the
    event, which never runs backwards; a miss that waits for an MSHR starts later than
    that. `crowds` counts what is ahead of misses at their
    bank and not at the `even` one, which has its share of all.
    """
    back = start
    service = timing.noc_service * banks
    channel_service = timing.dram_service * banks
    sm_more = max(timing.sm_request - going * timing.sm_service, 0.0)
    more = max(timing.noc_request - going * timing.noc_service, 0.0)
    for request in range(going):
        if waits:
            place = sm.flown % len(flight)
            start = max(start, flight[place])  # the miss that many before this one must be back
            sent = max(start, sm.in_free)
            sm.in_free = sent + timing.sm_service + sm_more
            arrival = max(sent, bank.out_free) + timing.llc_latency
            crowds.bank_ahead += ahead(bank.out_free, even.out_free, now, service)
            bank.out_free = max(now, bank.out_free) + service + more * banks
            even.out_free = max(now, even.out_free) + timing.noc_service + more
            sm_more = 0.0
            more = 0.0
            if request < reads:
                arrival = max(arrival, bank.channel_free + timing.llc_latency) + timing.dram_latency
                crowds.channel_ahead += ahead(bank.channel_free, even.channel_free, now, channel_service)
                bank.channel_free = max(now, bank.channel_free) + channel_service
                even.channel_free = max(now, even.channel_free) + timing.dram_service
            flight[place] = arrival
            sm.flown += 1
        else:
            sent = max(start, sm.out_free)
            sm.out_free = sent + timing.sm_store_service
            arrival = max(sent, bank.in_free) + timing.llc_latency
            bank.in_free = max(now, bank.in_free) + timing.noc_store_service * banks
        back = max(back, arrival)
    if stored > 0:
        bank.channel_free = max(now, bank.channel_free) + stored * channel_service
        even.channel_free = max(now, even.channel_free) + stored * timing.dram_service
    return back, start


@helper
def when_there(line, coming):
    """When a line of an L1 is there; some time ago, if that is not remembered."""
    mine = coming[line & (L1_PLACES - 1)]
    return mine.there if mine.line == line else 0.0


@helper
def make_room(line, row, ways, now, tags, states, coming):
    """Cycles until a line can enter a set; the one that leaves is brought to its end, from where it is evicted.

    It is the least recently used of those that are there. Lines on their way keep
    their places: where all are, the first of them to come is waited for.
    """
    end = row + ways - 1
    when = when_there(tags[end], coming)
    if when <= now or present(tags, row, ways, line) >= 0:
        return 0.0
    leaves = end
    for slot in range(end - 1, row - 1, -1):
        there = when_there(tags[slot], coming)
        if there < when:
            leaves = slot
            when = there
            if there <= now:
                break
    tag = tags[leaves]
    state = states[leaves]
    for slot in range(leaves, end):
        tags[slot] = tags[slot + 1]
        states[slot] = states[slot + 1]
    tags[end] = tag
    states[end] = state
    return max(when - now, 0.0)


@helper
def waiting_store(line, now, stored):
    """Place of a line among those of stores that wait in an SM, or -1."""
    for place in range(len(stored)):
        if stored[place].line == line and stored[place].until > now:
            return place
    return -1


@helper
def take_store_place(sm, line, stores):
    """The place of a line of stores that none waits with: the one that was taken first."""
    place = sm.stores % len(stores)
    sm.stores += 1
    stores[place].line = line
    stores[place].sectors = 0
    return place


@helper
def note_coming(line, now, back, reads, mine, common):
    """(when a line that was sent for is there, part of the LLC's wait for it that is left, or 0)."""
    left = 0.0
    if reads > 0:
        common.line = line
        common.there = back
        common.span = back - now
    elif common.line == line and common.there > now:
        left = (common.there - now) / common.span
        back = max(back, common.there)
    mine.line = line
    mine.there = back
    mine.span = back - now
    return back, left


@helper
def words_of_busiest_bank(words, first, end):
    """Most lines of which an instruction touches the same granule: the bank of a word is its place in its line.

    Six digits count the lines of each granule, one bit of each in a mask.
    """
    ones = twos = fours = eights = sixteens = both = np.uint32(0)
    for j in range(first, end):
        carry = words[j]
        ones, carry = ones ^ carry, ones & carry
        twos, carry = twos ^ carry, twos & carry
        fours, carry = fours ^ carry, fours & carry
        eights, carry = eights ^ carry, eights & carry
        sixteens, carry = sixteens ^ carry, sixteens & carry
        both |= carry
    most = 0
    busiest = np.uint32(0xFFFFFFFF)
    for digit, value in ((both, 32), (sixteens, 16), (eights, 8), (fours, 4), (twos, 2), (ones, 1)):
        if busiest & digit:
            busiest &= digit
            most += value
    return most


@helper
def port_time(what, first, end, missed, lines, config, timing):
    """Cycles of the L1 for an instruction: a store's lines one by one, a load's lookups or banks, and its replies."""
    takes = float(end - first)
    if what == LOAD:
        takes *= timing.lookup
        if config.l1_banked:
            takes = max(takes, float(words_of_busiest_bank(lines.words, first, end)))
        takes += missed * timing.reply
    return takes


@helper
def serve(number, now, s, what, first, end, lines, caches, timing, state, arrivals):
    """(time all data of an instruction are there, time the L1 accepts the next one).

    A load may find lines on their way. `coming` has those that were sent for, of
    an SM and of the LLC, when they are there and how long that takes; a line may
    push another out of its place. What enters the L1 finds the tags at the end of
    its pipeline.
    """
    sm = state.sms[number]
    coming = state.coming[number]
    flight = state.flight[number]
    config = caches.config
    banks = config.llc_banks
    hashed = config.llc_hashed
    even = state.servers[banks]
    noted = arrivals[s]
    sets = config.l1_sets
    ways = config.l1_ways
    enters = what == LOAD or (what == STORE and config.l1_allocate)
    keeps = enters and sets > 0 and not config.streaming
    merges = what == STORE and config.merge_lines > 0
    stores = state.stored[number]
    own = caches.counters[s]
    missed_before = own.llc_misses
    in_l1 = 0.0
    in_llc = 0.0
    leaving = fetched = crossed = missed = 0
    there = now
    start = now
    for j in range(first, end):
        line = lines.number[j]
        if keeps:
            row = (number * sets + (lines.place[j] >> 32)) * ways
            at_tags = start + timing.l1_latency
            start += make_room(line, row, ways, at_tags, caches.l1_tags, caches.l1_states, coming)
        place = waiting_store(line, start, stores) if merges else -1
        merged = stores[place].sectors if place >= 0 else np.int64(0)
        going, reads, stored, crossing, leaves, written_back, stored_back = access_line(
            number, j, s, what, lines, caches, merged
        )
        mine = coming[line & (L1_PLACES - 1)]
        if written_back:  # nobody waits for them, but what follows waits for the network
            bank = state.servers[bank_of(leaves, banks, hashed)]
            no, none = np.bool_(False), np.int64(0)
            send(sm, now, start, no, written_back, none, stored_back, bank, even, banks, timing, flight, noted)
        if going == 0:
            if what == LOAD and mine.line == line and mine.there > now:
                in_l1 = max(in_l1, (mine.there - now) / mine.span)
                there = max(there, mine.there)
            continue
        leaving += going
        missed += 1
        fetched += reads
        bank = state.servers[bank_of(line, banks, hashed)]
        waits = what != STORE
        if merges and place < 0:
            place = take_store_place(sm, line, stores)
            start = max(start, stores[place].until)  # until when another has it
        back, start = send(sm, now, start, waits, going, reads, stored, bank, even, banks, timing, flight, noted)
        if merges:
            stores[place].sectors |= sectors_of(np.int64(lines.words[j]), config.sectors)
            stores[place].until = back - timing.llc_latency
        if what == LOAD:
            crossed |= crossing
            touched = sectors_of(np.int64(lines.words[j]), config.sectors)
            if shares(line, touched, number, now, back, state.asked):
                noted.shared += going
            back, left = note_coming(line, now, back, reads, mine, state.llc_coming[line & (LLC_PLACES - 1)])
            in_llc = max(in_llc, left)
        there = max(there, back)
    count_instruction(own, end - first, leaving, own.llc_misses - missed_before)
    if leaving == 0 and in_l1 > 0.0:
        noted.l1 += 1.0
        noted.l1_left += in_l1
    elif leaving > 0 and fetched == 0 and in_llc > 0.0:
        noted.llc += 1.0
        noted.llc_left += in_llc
    elif fetched == 0 and crossed:
        noted.crossed += 1.0
    return there, max(start, now + port_time(what, first, end, missed, lines, config, timing))
