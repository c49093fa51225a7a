"""Network, last-level cache and DRAM of the reference simulator: events in the order of their time.

A request leaves an SM's port, enters a bank's port, is looked up, waits for
DRAM if it misses, leaves through the bank's reply port and enters through the
SM's. Ports and channels serve in order, so each is a time at which it is free
again; finite queues are rings of the times at which their last entries left.
"""

from __future__ import annotations

from ...analysis._line_kernels import granules_of, sectors_of
from ...jit import inlined
from ...traces._bit_kernels import bit_count
from ._layout import (
    AT_BANK,
    AT_REPLY,
    AT_SM,
    BINS,
    DRAM_TRAFFIC,
    F_BANK_FLIT,
    F_CHANNEL_SERVICE,
    F_DRAM_LATENCY,
    F_HOP,
    F_SM_FLIT,
    F_TRANSFER_FLITS,
    FILLED,
    I_CHANNELS,
    I_LLC_ALLOCATE,
    I_LLC_BANKS,
    I_LLC_SETS,
    I_LLC_WAYS,
    I_LLC_WRITE_BACK,
    I_SECTORS,
    LOAD,
    NOC_TRAFFIC,
    STORE,
    T_DRAM_READS,
    T_DRAM_WRITES,
    T_LLC_ACCESSES,
    T_LLC_MISSES,
    T_REQUESTS,
)


@inlined
def push(heap, glob, time, value):
    """Add an event; events of the same time keep the order in which they were added."""
    child = glob.events
    sequence = glob.sequence
    while child > 0:
        parent = (child - 1) // 2
        if heap[parent].time <= time:
            break
        heap[child].time = heap[parent].time
        heap[child].sequence = heap[parent].sequence
        heap[child].value = heap[parent].value
        child = parent
    heap[child].time = time
    heap[child].sequence = sequence
    heap[child].value = value
    glob.events += 1
    glob.sequence += 1


@inlined
def pop(heap, glob):
    """Remove the first event, which the caller has read."""
    glob.events -= 1
    size = glob.events
    time = heap[size].time
    sequence = heap[size].sequence
    value = heap[size].value
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            heap[other].time < heap[child].time
            or (heap[other].time == heap[child].time and heap[other].sequence < heap[child].sequence)
        ):
            child = other
        if time < heap[child].time or (time == heap[child].time and sequence < heap[child].sequence):
            break
        heap[hole].time = heap[child].time
        heap[hole].sequence = heap[child].sequence
        heap[hole].value = heap[child].value
        hole = child
    heap[hole].time = time
    heap[hole].sequence = sequence
    heap[hole].value = value


@inlined
def write_flits(words, floats, sectors):
    """Flits of a write: one for every 32 B it touches, and one for the address unless the packet is full."""
    most = int(floats[F_TRANSFER_FLITS] * sectors)
    per = max(32 // most, 1)
    touched = 0
    for k in range(0, 32, per):
        if words & (((1 << per) - 1) << k):
            touched += 1
    return min(touched + 1.0, max(most, 2.0))


@inlined
def record_traffic(traffic, which, glob, time, amount):
    """Add to the bin of a time; all bins are halved in number when it lies beyond the last."""
    while time >= glob.bin_cycles * BINS:
        for row in range(traffic.shape[0]):
            for k in range(BINS // 2):
                traffic[row, k] = traffic[row, 2 * k] + traffic[row, 2 * k + 1]
            for k in range(BINS // 2, BINS):
                traffic[row, k] = 0.0
        glob.bin_cycles *= 2.0
    traffic[which, int(time / glob.bin_cycles)] += amount


@inlined
def inject(r, flits, t, request, sm, ring, floats, banks, bank, heap, glob, totals):
    """A request enters the network in cycle t: through its SM's port, over the wires, into its bank's port."""
    begin = max(t, sm.inject_free)
    leaves = begin + flits * floats[F_SM_FLIT]
    sm.inject_free = leaves
    ring[sm.injected % len(ring)] = leaves
    sm.injected += 1
    arrives = leaves + floats[F_HOP]
    enters = max(arrives, banks[bank].in_free)
    banks[bank].in_free = enters + flits * floats[F_BANK_FLIT]
    request.issued = t
    request.noc_wait = (begin - t) + (enters - arrives)
    request.bank_wait = 0.0
    request.dram_wait = 0.0
    request.dram = 0.0
    totals[T_REQUESTS] += 1
    push(heap, glob, enters + flits * floats[F_BANK_FLIT], r * 4 + AT_BANK)


@inlined
def to_channel(begin, transfers, channels, ring, channel, floats, glob, traffic):
    """(time the bank hands over, time the channel starts): the bank waits while the channel's queue is full."""
    place = channels[channel].count % ring.shape[1]
    begin = max(begin, ring[channel, place])
    starts = max(begin, channels[channel].free)
    channels[channel].free = starts + transfers * floats[F_CHANNEL_SERVICE]
    ring[channel, place] = starts
    channels[channel].count += 1
    record_traffic(traffic, DRAM_TRAFFIC, glob, starts, transfers)
    return begin, starts


@inlined
def not_held(words, asked, valid, written, sectors):
    """Those of the asked sectors that are neither fetched nor written in all granules that are wanted of them."""
    per = 32 // sectors
    missing = 0
    for k in range(sectors):
        part = words & (((1 << per) - 1) << (k * per))
        if asked & ~valid & (1 << k) and (written & part) != part:
            missing |= 1 << k
    return missing


@inlined
def at_bank(
    r,
    now,
    request,
    load,
    own,
    integers,
    floats,
    llc,
    banks,
    bank_ring,
    channels,
    channel_ring,
    heap,
    glob,
    totals,
    traffic,
):
    """Look a request up in the last-level cache.

    Stores fetch nothing; without allocation, sectors that are not held go on to
    DRAM. Atomics fetch and write. `load` is the record of a load or an atomic,
    `own` the counters of the instruction.
    """
    line = request.line
    words = request.words
    bank = line % integers[I_LLC_BANKS]
    sectors = integers[I_SECTORS]
    ways = integers[I_LLC_WAYS]
    row = (bank * integers[I_LLC_SETS] + (line // integers[I_LLC_BANKS]) % integers[I_LLC_SETS]) * ways
    count = integers[I_CHANNELS]
    channel = line % count if count >= integers[I_LLC_BANKS] else bank % count
    begin = max(now, banks[bank].free)
    slot = -1
    for k in range(row, row + ways):
        if llc[k].tag == line:
            slot = k
            break
    asked = sectors_of(words, sectors)
    wanted = bit_count(asked)
    totals[T_LLC_ACCESSES] += wanted
    write_back = integers[I_LLC_WRITE_BACK] == 1
    stays_out = request.what == STORE and integers[I_LLC_ALLOCATE] == 0
    if slot < 0 and not stays_out:
        slot = row
        for k in range(row + 1, row + ways):
            if llc[k].used < llc[slot].used:
                slot = k
        if write_back and llc[slot].written != 0:
            dirty = bit_count(sectors_of(llc[slot].written, sectors))
            totals[T_DRAM_WRITES] += dirty
            own.dram_writes += dirty
            banks[bank].transfers += dirty
            begin, _ = to_channel(begin, dirty, channels, channel_ring, channel, floats, glob, traffic)
        llc[slot].tag = line
        llc[slot].valid = 0
        llc[slot].written = 0
        llc[slot].fill = begin
    ready = begin
    missed = wanted
    written = wanted if request.what != LOAD else 0  # to DRAM, at once
    if slot >= 0:
        entry = llc[slot]
        glob.clock += 1
        entry.used = glob.clock
        kept = words
        if request.what == STORE:
            fresh = asked & ~(entry.valid | sectors_of(entry.written, sectors))
            missed = bit_count(fresh)
            if stays_out:
                kept &= ~granules_of(fresh, sectors)
        else:
            fresh = not_held(words, asked, entry.valid, entry.written, sectors)
            missed = bit_count(fresh)
            if missed:
                place = banks[bank].misses % bank_ring.shape[1]
                begin = max(begin, bank_ring[bank, place])  # all MSHRs of the bank are taken until then
                begin, starts = to_channel(begin, missed, channels, channel_ring, channel, floats, glob, traffic)
                ready = starts + floats[F_DRAM_LATENCY]
                bank_ring[bank, place] = ready
                banks[bank].misses += 1
                request.dram_wait = starts - begin
                request.dram = floats[F_DRAM_LATENCY]
                entry.valid |= fresh
                entry.fill = ready
                entry.span = ready - now
                load.missed = True
                totals[T_DRAM_READS] += missed
                own.dram_reads += missed
                banks[bank].transfers += missed
            else:
                ready = max(begin, entry.fill)  # the line may still be on its way
                request.dram = ready - begin
                if request.dram > 0.0:
                    load.llc_coming = max(load.llc_coming, request.dram / entry.span)
        if request.what != LOAD:
            entry.written |= kept
            if write_back:
                written = missed if stays_out else 0
    if written:
        totals[T_DRAM_WRITES] += written
        own.dram_writes += written
        banks[bank].transfers += written
        begin, _ = to_channel(begin, written, channels, channel_ring, channel, floats, glob, traffic)
    totals[T_LLC_MISSES] += missed
    if request.dirty:
        own.writeback_misses += missed
        own.writeback_hits += wanted - missed
    else:
        own.llc_misses += missed
        own.llc_hits += wanted - missed
    banks[bank].requests += wanted
    request.bank_wait = begin - now
    banks[bank].free = begin + 1.0
    push(heap, glob, ready, r * 4 + AT_REPLY)


@inlined
def reply_flits(request, integers, floats):
    """Data of a load; an acknowledgement of anything else."""
    if request.what == LOAD:
        return floats[F_TRANSFER_FLITS] * bit_count(sectors_of(request.words, integers[I_SECTORS]))
    return 1.0


@inlined
def at_reply(r, now, request, integers, floats, banks, heap, glob, traffic):
    """Data leave the bank through its reply port."""
    bank = request.line % integers[I_LLC_BANKS]
    flits = reply_flits(request, integers, floats)
    begin = max(now, banks[bank].out_free)
    banks[bank].out_free = begin + flits * floats[F_BANK_FLIT]
    request.noc_wait += begin - now
    record_traffic(traffic, NOC_TRAFFIC, glob, begin, flits)
    push(heap, glob, begin + flits * floats[F_BANK_FLIT] + floats[F_HOP], r * 4 + AT_SM)


@inlined
def at_sm(r, now, request, sm, integers, floats, heap, glob):
    """Data enter the SM through its port."""
    flits = reply_flits(request, integers, floats)
    begin = max(now, sm.eject_free)
    sm.eject_free = begin + flits * floats[F_SM_FLIT]
    request.noc_wait += begin - now
    push(heap, glob, begin + flits * floats[F_SM_FLIT], r * 4 + FILLED)
