"""Network, LLC and DRAM of the detailed simulator.

A request leaves an SM's port, enters a bank's port, is looked up, waits for
DRAM if it misses, leaves through the bank's reply port and enters through the
SM's. Ports and channels serve in order, so each is a time at which it is free
again; finite queues are rings of the times at which their last entries left.
"""

from __future__ import annotations

from ...analysis._cache_records import ATOMIC, LOAD, STORE
from ...analysis._line_kernels import granules_of, lacking, llc_row, sectors_of
from ...jit import inlined
from ...traces._bit_kernels import bit_count
from ._event_kernels import push
from ._line_kernels import find_line, oldest_line, put_line, use_line
from ._records import AT_BANK, AT_REPLY, AT_SM, BINS, FILLED


@inlined
def write_flits(words, config):
    """Flits of a write: one for every 32 B it touches, and one for the address unless the packet is full."""
    most = int(config.transfer_flits * config.sectors)
    per = max(32 // most, 1)
    touched = 0
    for k in range(0, 32, per):
        if words & (((1 << per) - 1) << k):
            touched += 1
    return min(touched + 1.0, max(most, 2.0))


@inlined
def traffic_bin(time, traffic, chip):
    """The bin of a time; all bins are halved in number when it lies beyond the last."""
    while time >= chip.bin_cycles * BINS:
        for k in range(BINS // 2):
            traffic[k].dram = traffic[2 * k].dram + traffic[2 * k + 1].dram
            traffic[k].noc = traffic[2 * k].noc + traffic[2 * k + 1].noc
        for k in range(BINS // 2, BINS):
            traffic[k].dram = 0.0
            traffic[k].noc = 0.0
        chip.bin_cycles *= 2.0
    return int(time / chip.bin_cycles)


@inlined
def inject(r, flits, t, state, config):
    """A request enters the network in cycle t: through its SM's port, over the wires, into its bank's port."""
    request = state.requests[r]
    sm = state.sms[request.sm]
    bank = state.banks[request.line % config.llc_banks]
    begin = max(t, sm.inject_free)
    leaves = begin + flits * config.sm_flit
    sm.inject_free = leaves
    state.injection[request.sm, sm.injected % config.injection_entries] = leaves
    sm.injected += 1
    arrives = leaves + config.hop
    enters = max(arrives, bank.in_free)
    bank.in_free = enters + flits * config.bank_flit
    request.issued = t
    request.noc_wait = (begin - t) + (enters - arrives)
    request.bank_wait = 0.0
    request.dram_wait = 0.0
    request.dram = 0.0
    state.totals[0].requests += 1
    push(state.events, state.chip[0], bank.in_free, r, AT_BANK)


@inlined
def use_channel(line, transfers, begin, state, config):
    """(time the bank hands over, time the channel starts): the bank waits while the channel's queue is full."""
    c = line % config.channels
    if config.channels < config.llc_banks:
        c = line % config.llc_banks % config.channels
    channel = state.channels[c]
    place = channel.count % config.dram_entries
    begin = max(begin, state.channel_queue[c, place])
    starts = max(begin, channel.free)
    channel.free = starts + transfers * config.channel_service
    state.channel_queue[c, place] = starts
    channel.count += 1
    state.traffic[traffic_bin(starts, state.traffic, state.chip[0])].dram += transfers
    return begin, starts


@inlined
def write_dram(sectors, begin, request, bank, state, config):
    """Sectors go to DRAM on account of a request; returns when the bank has handed them over."""
    state.totals[0].dram_writes += sectors
    state.counters[request.static].dram_writes += sectors
    bank.transfers += sectors
    begin, _ = use_channel(request.line, sectors, begin, state, config)
    return begin


@inlined
def read_llc(entry, asked, begin, now, request, b, state, config):
    """A load or atomic at a line of the LLC: (when the bank goes on, when the data are there, sectors that miss)."""
    load = state.loads[request.load]
    fresh = lacking(request.what, asked, request.words, entry.valid, entry.written, config.sectors)
    missed = bit_count(fresh)
    if missed == 0:
        ready = max(begin, entry.fill)  # the line may still be on its way
        request.dram = ready - begin
        if request.dram > 0.0:
            load.llc_coming = max(load.llc_coming, request.dram / entry.span)
        return begin, ready, missed
    bank = state.banks[b]
    place = bank.misses % config.llc_mshrs
    begin = max(begin, state.bank_mshrs[b, place])  # all MSHRs of the bank are taken until then
    begin, starts = use_channel(request.line, missed, begin, state, config)
    ready = starts + config.dram_latency
    state.bank_mshrs[b, place] = ready
    bank.misses += 1
    bank.transfers += missed
    request.dram_wait = starts - begin
    request.dram = config.dram_latency
    entry.valid |= fresh
    entry.fill = ready
    entry.span = ready - now
    load.missed = True
    state.totals[0].dram_reads += missed
    state.counters[request.static].dram_reads += missed
    return begin, ready, missed


@inlined
def store_in_llc(entry, asked, request, config):
    """A store at a line of the LLC, which fetches nothing: sectors that miss. Without allocation they stay out."""
    words = request.words
    fresh = lacking(request.what, asked, words, entry.valid, entry.written, config.sectors)
    entry.written |= words if config.llc_allocate else words & ~granules_of(fresh, config.sectors)
    return bit_count(fresh)


@inlined
def at_bank(r, now, state, config):
    """Look a request up in the LLC. Stores fetch nothing, atomics fetch and write."""
    request = state.requests[r]
    line = request.line
    b = line % config.llc_banks
    bank = state.banks[b]
    asked = sectors_of(request.words, config.sectors)
    wanted = bit_count(asked)
    stays_out = request.what == STORE and not config.llc_allocate
    begin = max(now, bank.free)
    row = llc_row(line, config.llc_banks, config.llc_sets, config.llc_ways)
    slot = find_line(state.llc, row, config.llc_ways, line)
    if slot < 0 and not stays_out:
        slot = oldest_line(state.llc, row, config.llc_ways)
        oldest = state.llc[slot]
        if config.llc_write_back and oldest.written != 0:
            dirty = bit_count(sectors_of(oldest.written, config.sectors))
            begin = write_dram(dirty, begin, request, bank, state, config)
        put_line(line, oldest)
        oldest.fill = begin
    ready = begin
    missed = wanted
    if slot >= 0:
        entry = state.llc[slot]
        use_line(entry, state.chip[0])
        if request.what == STORE:
            missed = store_in_llc(entry, asked, request, config)
        else:
            begin, ready, missed = read_llc(entry, asked, begin, now, request, b, state, config)
        if request.what == ATOMIC:
            entry.written |= request.words
    written = 0  # to DRAM, at once
    if request.what != LOAD:
        written = wanted if slot < 0 or not config.llc_write_back else missed if stays_out else 0
    if written:
        begin = write_dram(written, begin, request, bank, state, config)
    count_at_bank(request, bank, wanted, missed, state.totals[0], state.counters[request.static])
    request.bank_wait = begin - now
    bank.free = begin + 1.0
    push(state.events, state.chip[0], ready, r, AT_REPLY)


@inlined
def count_at_bank(request, bank, wanted, missed, totals, own):
    """Sectors that a request asks the LLC for, and those of them that it does not hold."""
    totals.llc_accesses += wanted
    totals.llc_misses += missed
    if request.dirty:
        own.writeback_misses += missed
        own.writeback_hits += wanted - missed
    else:
        own.llc_misses += missed
        own.llc_hits += wanted - missed
    bank.requests += wanted


@inlined
def reply_flits(request, config):
    """Data of a load; an acknowledgement of anything else."""
    if request.what == LOAD:
        return config.transfer_flits * bit_count(sectors_of(request.words, config.sectors))
    return 1.0


@inlined
def at_reply(r, now, state, config):
    """Data leave the bank through its reply port."""
    request = state.requests[r]
    bank = state.banks[request.line % config.llc_banks]
    flits = reply_flits(request, config)
    begin = max(now, bank.out_free)
    bank.out_free = begin + flits * config.bank_flit
    request.noc_wait += begin - now
    state.traffic[traffic_bin(begin, state.traffic, state.chip[0])].noc += flits
    push(state.events, state.chip[0], bank.out_free + config.hop, r, AT_SM)


@inlined
def at_sm(r, now, state, config):
    """Data enter the SM through its port."""
    request = state.requests[r]
    sm = state.sms[request.sm]
    begin = max(now, sm.eject_free)
    sm.eject_free = begin + reply_flits(request, config) * config.sm_flit
    request.noc_wait += begin - now
    push(state.events, state.chip[0], sm.eject_free, r, FILLED)
