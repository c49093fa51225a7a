"""Load-store unit and L1 of an SM: lines go in order through a pipeline to the tags, misses into the network."""

from __future__ import annotations

import numpy as np
from numba import njit

from ...memory._kernels import bit_count, sectors_of
from ._memory_kernels import inject, write_flits
from .layout import (
    ATOMIC,
    F_L1_LATENCY,
    F_SHARED_LATENCY,
    I_L1_MERGES,
    I_L1_MSHRS,
    I_L1_SETS,
    I_L1_WAYS,
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


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def give_result(when, warp, registers, s, program):
    """A memory instruction's registers are there at `when`; a warp that waits looks again what for and how long."""
    for d in range(program.destination_offsets[s], program.destination_offsets[s + 1]):
        if program.destinations[d] < 255:
            registers[program.destinations[d]] = when
    warp.waits_for_memory = False
    warp.in_flight -= 1


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def part_of_load_back(ld, when, sm, state, program):
    """One line of a load is there; with the last one the load is done."""
    warps = state.warps
    registers = state.registers
    loads = state.loads
    load_pool = state.load_pool
    globs = state.glob
    load = loads[ld]
    load.left -= 1
    load.ready = max(load.ready, when)
    if load.left == 0:
        w = load.warp
        give_result(load.ready, warps[sm, w], registers[sm, w], load.static, program)
        load_pool[globs[0].loads_free] = ld
        globs[0].loads_free += 1


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def filled(r, now, state, integers, program):
    """A reply is complete at its SM."""
    warps = state.warps
    cores = state.sms
    l1 = state.l1
    mshrs = state.mshrs
    mshr_loads = state.mshr_loads
    requests = state.requests
    request_pool = state.request_pool
    globs = state.glob
    totals = state.totals
    request = requests[r]
    sm = request.sm
    core = cores[sm]
    glob = globs[0]
    totals[T_RETURNED] += 1
    if request.what == LOAD:
        m = request.owner
        mshr = mshrs[sm, m]
        waits = request.noc_wait + request.bank_wait + request.dram_wait + request.dram
        totals[T_MISS_COUNT] += 1
        totals[T_MISS_NOC] += request.noc_wait
        totals[T_MISS_LLC] += request.bank_wait
        totals[T_MISS_DRAM_QUEUE] += request.dram_wait
        totals[T_MISS_DRAM] += request.dram
        totals[T_MISS_PATH] += now - request.issued - waits
        sets = integers[I_L1_SETS]
        if sets > 0:
            ways = integers[I_L1_WAYS]
            row = (sm * sets + request.line % sets) * ways
            slot = -1
            for k in range(row, row + ways):
                if l1[k].tag == request.line:
                    slot = k
                    break
            if slot < 0 and integers[I_STREAMING]:  # a streaming L1 gives a line its place only now
                slot = row
                for k in range(row + 1, row + ways):
                    if l1[k].used < l1[slot].used:
                        slot = k
                l1[slot].tag = request.line
                l1[slot].valid = 0
                glob.clock += 1
                l1[slot].used = glob.clock
            if slot >= 0:
                l1[slot].valid |= mshr.sectors
                l1[slot].reserved = False
        for k in range(mshr.count):
            part_of_load_back(mshr_loads[sm, m, k], now, sm, state, program)
        mshr.line = -1
        core.mshrs_used -= 1
    else:
        glob.stores_flying -= 1
        if request.what == ATOMIC:
            part_of_load_back(request.load, now, sm, state, program)
        else:
            warps[sm, request.owner].in_flight -= 1
    request_pool[glob.requests_free] = r
    glob.requests_free += 1
    core.wake = min(core.wake, np.ceil(now))
    if glob.starved:  # the network has room for a store again
        glob.starved = False
        for k in range(len(cores)):
            cores[k].wake = min(cores[k].wake, np.ceil(now))


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def take_request(state):
    """A free request record."""
    request_pool = state.request_pool
    globs = state.glob
    globs[0].requests_free -= 1
    return request_pool[globs[0].requests_free]


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def whole_sectors(touched, sectors):
    """The granules of the given sectors: what a fetch brings."""
    if sectors == 1:
        return 0xFFFFFFFF
    per = 32 // sectors
    words = 0
    for k in range(sectors):
        if touched & (1 << k):
            words |= ((1 << per) - 1) << (k * per)
    return words


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def l1_load(t, sm, entry, line, touched, slot, row, state, integers, floats):
    """A load at the tags: 0 = it goes on, or the cause that holds it."""
    cores = state.sms
    loads = state.loads
    l1 = state.l1
    mshrs = state.mshrs
    mshr_loads = state.mshr_loads
    requests = state.requests
    inject_ring = state.inject_ring
    banks = state.banks
    heap = state.heap
    globs = state.glob
    totals = state.totals
    core = cores[sm]
    glob = globs[0]
    wanted = bit_count(touched)
    missing = touched
    if slot >= 0:
        missing = touched & ~l1[slot].valid
    if not missing:
        load = loads[entry.load]
        load.ready = max(load.ready, t)
        load.left -= 1
        glob.clock += 1
        l1[slot].used = glob.clock
        totals[T_L1_ACCESSES] += wanted
        return 0
    for m in range(integers[I_L1_MSHRS]):
        mshr = mshrs[sm, m]
        if mshr.line == line:
            if (missing & ~mshr.sectors) != 0 or mshr.count == integers[I_L1_MERGES]:
                return T_SLOT_MSHR
            mshr_loads[sm, m, mshr.count] = entry.load
            mshr.count += 1
            totals[T_L1_ACCESSES] += wanted  # a hit on data that are on their way
            if slot >= 0:
                glob.clock += 1
                l1[slot].used = glob.clock
            return 0
    if core.mshrs_used == integers[I_L1_MSHRS]:
        return T_SLOT_MSHR
    ring = inject_ring[sm]
    if ring[core.injected % len(ring)] > t:
        return T_SLOT_NOC
    if integers[I_L1_SETS] > 0 and not integers[I_STREAMING]:
        place = slot
        if slot < 0:
            for k in range(row, row + integers[I_L1_WAYS]):
                if not l1[k].reserved and (place < 0 or l1[k].used < l1[place].used):
                    place = k
        if place < 0:
            return T_SLOT_MSHR  # every way of the set waits for data
        if l1[place].tag != line:
            l1[place].tag = line
            l1[place].valid = 0
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
    mshr_loads[sm, m, 0] = entry.load
    core.mshrs_used += 1
    totals[T_L1_ACCESSES] += wanted
    totals[T_L1_MISSES] += bit_count(missing)
    totals[T_MISS_MSHR] += t - entry.at
    r = take_request(state)
    request = requests[r]
    request.sm = sm
    request.line = line
    request.words = whole_sectors(missing, integers[I_SECTORS])
    request.what = LOAD
    request.owner = m
    inject(r, 1.0, t, request, core, ring, floats, banks, line % integers[I_LLC_BANKS], heap, glob, totals)
    return 0


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def l1_write(t, sm, entry, what, line, words, touched, slot, state, integers, floats):
    """A store or atomic at the tags: written through; 0 = it goes on, or the cause that holds it."""
    warps = state.warps
    cores = state.sms
    l1 = state.l1
    requests = state.requests
    inject_ring = state.inject_ring
    banks = state.banks
    heap = state.heap
    globs = state.glob
    totals = state.totals
    core = cores[sm]
    glob = globs[0]
    ring = inject_ring[sm]
    if ring[core.injected % len(ring)] > t:
        return T_SLOT_NOC
    if glob.stores_flying == integers[I_STORES] * integers[I_SMS]:
        glob.starved = True
        return T_SLOT_NOC
    wanted = bit_count(touched)
    totals[T_L1_ACCESSES] += wanted
    if slot >= 0 and what == STORE:
        totals[T_L1_MISSES] += bit_count(touched & ~l1[slot].valid)
        glob.clock += 1
        l1[slot].used = glob.clock
    else:
        totals[T_L1_MISSES] += wanted
        if slot >= 0 and not l1[slot].reserved:
            l1[slot].tag = -1  # an atomic is done at the LLC and leaves no stale copy
            l1[slot].valid = 0
            l1[slot].used = 0
    glob.stores_flying += 1
    r = take_request(state)
    request = requests[r]
    request.sm = sm
    request.line = line
    request.words = words
    request.what = what
    request.owner = entry.warp
    request.load = entry.load
    warps[sm, entry.warp].in_flight += what == STORE
    flits = write_flits(words, floats, integers[I_SECTORS])
    inject(r, flits, t, request, core, ring, floats, banks, line % integers[I_LLC_BANKS], heap, glob, totals)
    return 0


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def l1_stage(t, sm, state, integers, floats, stream, program):
    """The access that has reached the L1's tags; returns the cycle in which to look again."""
    warps = state.warps
    registers = state.registers
    cores = state.sms
    pipe = state.pipe
    loads = state.loads
    load_pool = state.load_pool
    l1 = state.l1
    inject_ring = state.inject_ring
    globs = state.glob
    core = cores[sm]
    core.blocked = 0
    if core.pipe_count == 0:
        return NEVER
    entry = pipe[sm, core.pipe_head]
    if entry.at > t:
        return np.ceil(entry.at)
    line = stream.line_id[entry.line]
    words = np.int64(stream.line_words[entry.line])
    what = program.kind[entry.static]
    touched = sectors_of(words, integers[I_SECTORS])
    slot = -1
    row = 0
    sets = integers[I_L1_SETS]
    if sets > 0:
        row = (sm * sets + line % sets) * integers[I_L1_WAYS]
        for k in range(row, row + integers[I_L1_WAYS]):
            if l1[k].tag == line:
                slot = k
                break
    if what == LOAD:
        core.blocked = l1_load(t, sm, entry, line, touched, slot, row, state, integers, floats)
    else:
        core.blocked = l1_write(t, sm, entry, what, line, words, touched, slot, state, integers, floats)
    if core.blocked:
        ring = inject_ring[sm]
        free = ring[core.injected % len(ring)]
        return np.ceil(free) if free > t else NEVER  # otherwise an event wakes the SM
    warp = warps[sm, entry.warp]
    if what == STORE:
        warp.in_flight -= entry.last
    else:
        load = loads[entry.load]
        load.left -= entry.last  # the instruction itself held one
        if load.left == 0:
            give_result(load.ready, warp, registers[sm, entry.warp], entry.static, program)
            load_pool[globs[0].loads_free] = entry.load
            globs[0].loads_free += 1
    core.pipe_head = (core.pipe_head + 1) % integers[I_PIPE]
    core.pipe_count -= 1
    return t + 1


@njit(cache=True, nogil=True, _nrt=False, inline="always")
def lsu_stage(t, sm, state, integers, floats, program):
    """One line of the instruction at the head into the L1, or one shared access; returns when to look again."""
    warps = state.warps
    registers = state.registers
    cores = state.sms
    lsu = state.lsu
    pipe = state.pipe
    loads = state.loads
    load_pool = state.load_pool
    globs = state.glob
    core = cores[sm]
    if core.lsu_count == 0:
        return NEVER
    if core.lsu_free > t:
        return np.ceil(core.lsu_free)
    head = lsu[sm, core.lsu_head]
    what = program.kind[head.static]
    warp = warps[sm, head.warp]
    gone = True
    if what == SHARED:
        core.lsu_free = t + head.first  # banks in conflict hold the port
        back = t + head.first - 1 + floats[F_SHARED_LATENCY]
        give_result(back, warp, registers[sm, head.warp], head.static, program)
    elif head.first == head.last:  # no lane is active
        if what == STORE:
            warp.in_flight -= 1
        else:
            give_result(t + floats[F_L1_LATENCY], warp, registers[sm, head.warp], head.static, program)
            load_pool[globs[0].loads_free] = head.load
            globs[0].loads_free += 1
    elif core.pipe_count < integers[I_PIPE]:
        entry = pipe[sm, (core.pipe_head + core.pipe_count) % integers[I_PIPE]]
        entry.line = head.first
        entry.warp = head.warp
        entry.static = head.static
        entry.load = head.load
        entry.at = t + floats[F_L1_LATENCY]
        if what != STORE:
            loads[head.load].left += 1
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
