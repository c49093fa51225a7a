"""Load-store unit and L1 of an SM: lines go in order through a pipeline to the tags, misses into the network."""

from __future__ import annotations

import numpy as np

from ...analysis._cache_kernels import count_level
from ...analysis._line_kernels import granules_of, sectors_of
from ...jit import inlined
from ...traces._bit_kernels import bit_count
from ._layout import (
    ATOMIC,
    F_L1_LATENCY,
    F_SHARED_LATENCY,
    I_L1_ALLOCATE,
    I_L1_MERGES,
    I_L1_MSHRS,
    I_L1_SETS,
    I_L1_WAYS,
    I_L1_WRITE_BACK,
    I_LLC_BANKS,
    I_LSU_QUEUE,
    I_PIPE,
    I_SECTORS,
    I_SMS,
    I_STORES,
    I_STREAMING,
    LOAD,
    NEVER,
    SHARED,
    STORE,
    T_L1_ACCESSES,
    T_L1_MISSES,
    T_MISS_COUNT,
    T_MISS_DRAM,
    T_MISS_DRAM_QUEUE,
    T_MISS_LLC,
    T_MISS_MSHR,
    T_MISS_NOC,
    T_MISS_PATH,
    T_RETURNED,
    T_SLOT_MSHR,
    T_SLOT_NOC,
)
from ._memory_kernels import inject, not_held, write_flits


@inlined
def give_result(when, warp, registers, s, program):
    """A memory instruction's registers are there at `when`; a warp that waits looks again what for and how long."""
    for d in range(program.destination_offsets[s], program.destination_offsets[s + 1]):
        if program.destinations[d] < 255:
            registers[program.destinations[d]] = when
    warp.waits_for_memory = False
    warp.in_flight -= 1


@inlined
def note_done(when, w, s, state):
    """The result of a recorded issue of the first SM is there."""
    rows = state.rows
    if len(rows) > 0 and state.row_of[w, s] >= 0:
        rows[state.row_of[w, s]].done = when


@inlined
def count_load(load, own, arrivals):
    """What served a load or an atomic: the worst of its requests, and whether others had sent for its data."""
    count_level(own, load.leaves, load.missed)
    if not load.leaves and load.coming > 0.0:
        arrivals.l1 += 1.0
        arrivals.l1_left += load.coming
    elif load.leaves and not load.missed and load.llc_coming > 0.0:
        arrivals.llc += 1.0
        arrivals.llc_left += load.llc_coming


@inlined
def load_done(ld, when, sm, state, program):
    """A load or atomic gives its result, and its record back."""
    load = state.loads[ld]
    w = load.warp
    give_result(when, state.warps[sm, w], state.registers[sm, w], load.static, program)
    if sm == 0:
        note_done(when, w, load.static, state)
    count_load(load, state.counters[load.static], state.arrivals[load.static])
    glob = state.glob[0]
    state.load_pool[glob.loads_free] = ld
    glob.loads_free += 1


@inlined
def part_of_load_back(ld, when, sm, state, program):
    """One line of a load is there, or all have gone in; with the last one the load is done."""
    load = state.loads[ld]
    load.left -= 1
    load.ready = max(load.ready, when)
    if load.left == 0:
        load_done(ld, load.ready, sm, state, program)


@inlined
def take_request(state):
    """A free request record."""
    glob = state.glob[0]
    glob.requests_free -= 1
    return state.request_pool[glob.requests_free]


@inlined
def send_write(t, sm, w, s, ld, what, line, words, dirty, state, integers, floats):
    """A store, an atomic or a dirty line of warp slot w into the network. All but atomics hold the warp's block."""
    state.glob[0].stores_flying += 1
    r = take_request(state)
    request = state.requests[r]
    request.sm = sm
    request.line = line
    request.words = words
    request.what = what
    request.owner = w
    request.load = ld
    request.static = s
    request.dirty = dirty
    state.warps[sm, w].in_flight += what == STORE
    inject(
        r,
        write_flits(words, floats, integers[I_SECTORS]),
        t,
        request,
        state.sms[sm],
        state.inject_ring[sm],
        floats,
        state.banks,
        line % integers[I_LLC_BANKS],
        state.heap,
        state.glob[0],
        state.totals,
    )


@inlined
def find_line(sm, line, l1, integers):
    """(Slot of a line in the L1 or -1, first slot of its set)."""
    sets = integers[I_L1_SETS]
    if sets == 0:
        return -1, 0
    row = (sm * sets + line % sets) * integers[I_L1_WAYS]
    for slot in range(row, row + integers[I_L1_WAYS]):
        if l1[slot].tag == line:
            return slot, row
    return -1, row


@inlined
def oldest_line(row, l1, integers):
    """Slot of the least recently used line of a set that does not wait for data, or -1."""
    place = -1
    for slot in range(row, row + integers[I_L1_WAYS]):
        if not l1[slot].reserved and (place < 0 or l1[slot].used < l1[place].used):
            place = slot
    return place


@inlined
def must_wait(glob, integers):
    """Whether the network takes no more stores; if so, the SM looks again when one is back."""
    full = glob.stores_flying >= integers[I_STORES] * integers[I_SMS]
    glob.starved = glob.starved or full
    return full


@inlined
def write_back(t, sm, w, s, slot, state, integers, floats):
    """What an L1 has written of a line into the network, on account of warp slot w and what it executes."""
    entry = state.l1[slot]
    if integers[I_L1_WRITE_BACK] and entry.written:
        send_write(t, sm, w, s, 0, STORE, entry.tag, entry.written, True, state, integers, floats)
    entry.written = 0


@inlined
def put_line(line, slot, l1):
    """A line takes a place whose line has left."""
    l1[slot].tag = line
    l1[slot].valid = 0
    l1[slot].written = 0


@inlined
def filled(r, now, state, integers, floats, program):
    """A reply is complete at its SM."""
    request = state.requests[r]
    sm = request.sm
    core = state.sms[sm]
    glob = state.glob[0]
    totals = state.totals
    totals[T_RETURNED] += 1
    if request.what == LOAD:
        m = request.owner
        line = request.line
        mshr = state.mshrs[sm, m]
        waits = request.noc_wait + request.bank_wait + request.dram_wait + request.dram
        totals[T_MISS_COUNT] += 1
        totals[T_MISS_NOC] += request.noc_wait
        totals[T_MISS_LLC] += request.bank_wait
        totals[T_MISS_DRAM_QUEUE] += request.dram_wait
        totals[T_MISS_DRAM] += request.dram
        totals[T_MISS_PATH] += now - request.issued - waits
        l1 = state.l1
        slot, row = find_line(sm, line, l1, integers)
        if slot < 0 and integers[I_L1_SETS] > 0:  # a streaming L1 gives a line its place only now
            slot = oldest_line(row, l1, integers)
            first = state.loads[request.load]
            write_back(now, sm, first.warp, first.static, slot, state, integers, floats)
            put_line(line, slot, l1)
            glob.clock += 1
            l1[slot].used = glob.clock
        if slot >= 0:
            l1[slot].valid |= mshr.sectors
            l1[slot].reserved = False
        for k in range(mshr.count):
            ld = state.mshr_loads[sm, m, k]
            if k > 0:
                part = (now - state.mshr_since[sm, m, k]) / (now - request.issued)
                state.loads[ld].coming = max(state.loads[ld].coming, part)
            part_of_load_back(ld, now, sm, state, program)
        mshr.line = -1
        core.mshrs_used -= 1
    else:
        glob.stores_flying -= 1
        if request.what == ATOMIC:
            part_of_load_back(request.load, now, sm, state, program)
        else:
            state.warps[sm, request.owner].in_flight -= 1
    state.request_pool[glob.requests_free] = r  # not before: a dirty line that the fill evicts takes one
    glob.requests_free += 1
    core.wake = min(core.wake, np.ceil(now))
    if glob.starved:  # the network has room for a store again
        glob.starved = False
        for k in range(len(state.sms)):
            state.sms[k].wake = min(state.sms[k].wake, np.ceil(now))


@inlined
def l1_load(t, sm, entry, line, touched, slot, row, state, integers, floats):
    """A load at the tags: 0 = it goes on, or the cause that holds it."""
    l1 = state.l1
    core = state.sms[sm]
    glob = state.glob[0]
    totals = state.totals
    own = state.counters[entry.static]
    wanted = bit_count(touched)
    missing = touched
    if slot >= 0:
        missing = touched & ~l1[slot].valid
        if missing and l1[slot].written:
            missing = not_held(
                granules_of(touched, integers[I_SECTORS]), missing, 0, l1[slot].written, integers[I_SECTORS]
            )
    if not missing:
        load = state.loads[entry.load]
        load.ready = max(load.ready, t)
        load.left -= 1
        glob.clock += 1
        l1[slot].used = glob.clock
        totals[T_L1_ACCESSES] += wanted
        own.requests += wanted
        own.l1_hits += wanted
        return 0
    mshrs = state.mshrs
    for m in range(integers[I_L1_MSHRS]):
        mshr = mshrs[sm, m]
        if mshr.line == line:
            if (missing & ~mshr.sectors) != 0 or mshr.count == integers[I_L1_MERGES]:
                return T_SLOT_MSHR
            state.mshr_loads[sm, m, mshr.count] = entry.load
            state.mshr_since[sm, m, mshr.count] = t
            mshr.count += 1
            totals[T_L1_ACCESSES] += wanted  # a hit on data that are on their way
            own.requests += wanted
            own.l1_hits += wanted
            if slot >= 0:
                glob.clock += 1
                l1[slot].used = glob.clock
            return 0
    if core.mshrs_used == integers[I_L1_MSHRS]:
        return T_SLOT_MSHR
    ring = state.inject_ring[sm]
    if ring[core.injected % len(ring)] > t:
        return T_SLOT_NOC
    if integers[I_L1_SETS] > 0:
        if integers[I_STREAMING]:  # a dirty line may have to leave when the data come
            if integers[I_L1_WRITE_BACK] and must_wait(glob, integers):
                return T_SLOT_NOC
        else:
            place = slot
            if slot < 0:
                place = oldest_line(row, l1, integers)
            if place < 0:
                return T_SLOT_MSHR  # every way of the set waits for data
            if l1[place].tag != line:
                if integers[I_L1_WRITE_BACK] and l1[place].written and must_wait(glob, integers):
                    return T_SLOT_NOC
                write_back(t, sm, entry.warp, entry.static, place, state, integers, floats)
                put_line(line, place, l1)
            l1[place].reserved = True
            glob.clock += 1
            l1[place].used = glob.clock
    m = 0
    while mshrs[sm, m].line >= 0:
        m += 1
    mshr = mshrs[sm, m]
    mshr.line = line
    mshr.sectors = missing
    mshr.count = 1
    state.mshr_loads[sm, m, 0] = entry.load
    core.mshrs_used += 1
    totals[T_L1_ACCESSES] += wanted
    totals[T_L1_MISSES] += bit_count(missing)
    totals[T_MISS_MSHR] += t - entry.at
    own.requests += wanted
    own.l1_hits += wanted - bit_count(missing)
    state.loads[entry.load].leaves = True
    r = take_request(state)
    request = state.requests[r]
    request.sm = sm
    request.line = line
    request.words = granules_of(missing, integers[I_SECTORS])
    request.what = LOAD
    request.owner = m
    request.load = entry.load
    request.static = entry.static
    request.dirty = False
    bank = line % integers[I_LLC_BANKS]
    inject(r, 1.0, t, request, core, ring, floats, state.banks, bank, state.heap, glob, totals)
    return 0


@inlined
def l1_write(t, sm, entry, what, line, words, touched, slot, row, state, integers, floats):
    """A store or atomic at the tags: 0 = it goes on, or the cause that holds it.

    What it sends, its own or a dirty line that leaves before it, needs one place
    in the queue.
    """
    l1 = state.l1
    core = state.sms[sm]
    glob = state.glob[0]
    totals = state.totals
    sectors = integers[I_SECTORS]
    missing = touched
    kept = 0
    place = slot
    if what == STORE and integers[I_L1_SETS] > 0:
        if slot >= 0:
            missing = touched & ~(l1[slot].valid | sectors_of(l1[slot].written, sectors))
            kept = touched & ~missing
        if integers[I_L1_ALLOCATE]:
            kept = touched
            if slot < 0:
                place = oldest_line(row, l1, integers)
            if place < 0:
                return T_SLOT_MSHR  # every way of the set waits for data
    going = touched & ~kept if integers[I_L1_WRITE_BACK] else touched
    evicts = place != slot and integers[I_L1_WRITE_BACK] and l1[place].written
    if going or evicts:
        ring = state.inject_ring[sm]
        if ring[core.injected % len(ring)] > t or must_wait(glob, integers):
            return T_SLOT_NOC
    totals[T_L1_ACCESSES] += bit_count(touched)
    totals[T_L1_MISSES] += bit_count(missing)
    own = state.counters[entry.static]
    own.requests += bit_count(touched)
    own.l1_hits += bit_count(touched) - bit_count(missing)
    if place >= 0:
        if place != slot or what == ATOMIC:
            write_back(t, sm, entry.warp, entry.static, place, state, integers, floats)
        if place != slot:
            put_line(line, place, l1)
        if what == STORE:
            if integers[I_L1_WRITE_BACK] or integers[I_L1_ALLOCATE]:
                l1[place].written |= words & granules_of(kept, sectors)
            glob.clock += 1
            l1[place].used = glob.clock
        elif not l1[slot].reserved:
            put_line(-1, slot, l1)  # an atomic is done at the LLC and leaves no stale copy
            l1[slot].used = 0
    if going:
        sent = words if going == touched else words & granules_of(going, sectors)
        if what == ATOMIC:
            state.loads[entry.load].leaves = True
        else:
            core.leaves = True
        send_write(t, sm, entry.warp, entry.static, entry.load, what, line, sent, False, state, integers, floats)
    return 0


@inlined
def l1_stage(t, sm, state, integers, floats, stream, program):
    """The access that has reached the L1's tags; returns the cycle in which to look again."""
    core = state.sms[sm]
    core.blocked = 0
    if core.pipe_count == 0:
        return NEVER
    entry = state.pipe[sm, core.pipe_head]
    if entry.at > t:
        return np.ceil(entry.at)
    line = stream.line_id[entry.line]
    words = np.int64(stream.line_words[entry.line])
    what = program.kind[entry.static]
    touched = sectors_of(words, integers[I_SECTORS])
    slot, row = find_line(sm, line, state.l1, integers)
    if what == LOAD:
        core.blocked = l1_load(t, sm, entry, line, touched, slot, row, state, integers, floats)
    else:
        core.blocked = l1_write(t, sm, entry, what, line, words, touched, slot, row, state, integers, floats)
    if core.blocked:
        ring = state.inject_ring[sm]
        free = ring[core.injected % len(ring)]
        return np.ceil(free) if free > t else NEVER  # otherwise an event wakes the SM
    if what == STORE:
        state.warps[sm, entry.warp].in_flight -= entry.last
        if entry.last:  # nobody asks whether a store missed the LLC
            count_level(state.counters[entry.static], core.leaves, False)
            core.leaves = False
    elif entry.last:
        part_of_load_back(entry.load, 0.0, sm, state, program)  # the instruction itself held one
    core.pipe_head = (core.pipe_head + 1) % integers[I_PIPE]
    core.pipe_count -= 1
    return t + 1


@inlined
def lsu_stage(t, sm, state, integers, floats, program):
    """One line of the instruction at the head into the L1, or one shared access; returns when to look again."""
    core = state.sms[sm]
    if core.lsu_count == 0:
        return NEVER
    if core.lsu_free > t:
        return np.ceil(core.lsu_free)
    head = state.lsu[sm, core.lsu_head]
    what = program.kind[head.static]
    warp = state.warps[sm, head.warp]
    gone = True
    if what == SHARED:
        core.lsu_free = t + head.first  # banks in conflict hold the port
        back = t + head.first - 1 + floats[F_SHARED_LATENCY]
        give_result(back, warp, state.registers[sm, head.warp], head.static, program)
        if sm == 0:
            note_done(back, head.warp, head.static, state)
    elif head.first == head.last:  # no lane is active
        if what == STORE:
            warp.in_flight -= 1
            count_level(state.counters[head.static], False, False)
        else:
            load_done(head.load, t + floats[F_L1_LATENCY], sm, state, program)
    elif core.pipe_count < integers[I_PIPE]:
        entry = state.pipe[sm, (core.pipe_head + core.pipe_count) % integers[I_PIPE]]
        entry.line = head.first
        entry.warp = head.warp
        entry.static = head.static
        entry.load = head.load
        entry.at = t + floats[F_L1_LATENCY]
        if what != STORE:
            state.loads[head.load].left += 1
        head.first += 1
        gone = head.first == head.last
        entry.last = gone
        core.pipe_count += 1
    else:
        return NEVER  # the L1 goes on first
    if gone:
        core.lsu_head = (core.lsu_head + 1) % integers[I_LSU_QUEUE]
        core.lsu_count -= 1
    return t + 1
