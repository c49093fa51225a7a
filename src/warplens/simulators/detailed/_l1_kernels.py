"""The L1 of an SM: an access at the tags hits, joins a miss that is under way, or goes into the network."""

from __future__ import annotations

import numpy as np

from ...analysis._cache_kernels import count_level
from ...analysis._cache_records import ATOMIC, LOAD, STORE
from ...analysis._line_kernels import granules_of, l1_set, lacking, sectors_of
from ...jit import inlined
from ...traces._bit_kernels import bit_count
from ._line_kernels import find_line, oldest_line, put_line, use_line
from ._load_kernels import part_of_load_back
from ._memory_kernels import inject, write_flits
from ._records import BUSY_NETWORK, NEVER, NO_CAUSE, NO_MSHR


@inlined
def new_request(sm, what, owner, line, words, s, load, state):
    """A free request record, filled in for instruction `s`; `owner` is an MSHR or a warp slot."""
    chip = state.chip[0]
    chip.requests_free -= 1
    r = state.request_pool[chip.requests_free]
    request = state.requests[r]
    request.sm = sm
    request.what = what
    request.owner = owner
    request.line = line
    request.words = words
    request.load = load
    request.static = s
    request.dirty = False
    return r


@inlined
def send_write(t, sm, w, s, load, what, line, words, state, config):
    """A store, an atomic or a dirty line of warp slot `w` into the network. All but atomics hold the warp's block."""
    state.chip[0].stores_flying += 1
    state.warps[sm, w].in_flight += what == STORE
    r = new_request(sm, what, w, line, words, s, load, state)
    inject(r, write_flits(words, config), t, state, config)
    return r


@inlined
def write_back(t, sm, w, s, slot, state, config):
    """What an L1 has written of a line into the network, on account of warp slot `w` and what it executes."""
    line = state.l1[slot]
    if config.l1_write_back and line.written:
        no_load = np.int64(0)
        r = send_write(t, sm, w, s, no_load, np.int64(STORE), line.tag, line.written, state, config)
        state.requests[r].dirty = True
    line.written = 0


@inlined
def l1_row(sm, line, config):
    """First slot of a line's set in the L1 of an SM."""
    return (sm * config.l1_sets + l1_set(line, config.l1_sets, config.l1_weight)) * config.l1_ways


@inlined
def find_in_l1(sm, line, l1, config):
    """Slot of a line in the L1 of an SM, or -1."""
    if config.l1_sets == 0:
        return -1
    return find_line(l1, l1_row(sm, line, config), config.l1_ways, line)


@inlined
def oldest_in_l1(sm, line, l1, config):
    """Slot that a line may take in the L1 of an SM; -1 if every way of its set waits for data."""
    return oldest_line(l1, l1_row(sm, line, config), config.l1_ways)


@inlined
def must_wait(chip, config):
    """Whether the network takes no more stores; if so, the SM looks again when one is back."""
    full = chip.stores_flying >= config.stores_per_sm * config.sms
    chip.starved = chip.starved or full
    return full


@inlined
def port_free_at(core, ring):
    """When the queue at the SM's port has room."""
    return ring[core.injected % len(ring)]


@inlined
def count_at_l1(wanted, missed, totals, own):
    """Sectors that an access touches, and those of them that it does not find."""
    totals.l1_accesses += wanted
    totals.l1_misses += missed
    own.requests += wanted
    own.l1_hits += wanted - missed


@inlined
def join_miss(t, sm, m, entry, slot, touched, missing, state, config):
    """A load of a line that an MSHR has sent for: it waits for the same data, or for the MSHR to be free."""
    mshr = state.mshrs[sm, m]
    if (missing & ~mshr.sectors) != 0 or mshr.count == config.l1_merges:
        return NO_MSHR
    state.mshr_loads[sm, m, mshr.count] = entry.load
    state.mshr_since[sm, m, mshr.count] = t
    mshr.count += 1
    # A hit on data that are on their way.
    count_at_l1(bit_count(touched), np.int64(0), state.totals[0], state.counters[entry.static])
    if slot >= 0:
        use_line(state.l1[slot], state.chip[0])
    return NO_CAUSE


@inlined
def reserve_line(t, sm, entry, line, slot, state, config):
    """A place in the L1 for the data of a miss: what holds it, if anything. A streaming L1 finds it later."""
    if config.l1_sets == 0:
        return NO_CAUSE
    chip = state.chip[0]
    if config.l1_streaming:  # a dirty line may have to leave when the data come
        return BUSY_NETWORK if config.l1_write_back and must_wait(chip, config) else NO_CAUSE
    place = slot if slot >= 0 else oldest_in_l1(sm, line, state.l1, config)
    if place < 0:
        return NO_MSHR
    if place != slot:
        if config.l1_write_back and state.l1[place].written and must_wait(chip, config):
            return BUSY_NETWORK
        write_back(t, sm, entry.warp, entry.static, place, state, config)
        put_line(line, state.l1[place])
    state.l1[place].reserved = True
    use_line(state.l1[place], chip)
    return NO_CAUSE


@inlined
def send_miss(t, sm, entry, line, missing, state, config):
    """A load's miss takes an MSHR and goes into the network."""
    m = 0
    while state.mshrs[sm, m].line >= 0:
        m += 1
    mshr = state.mshrs[sm, m]
    mshr.line = line
    mshr.sectors = missing
    mshr.count = 1
    state.mshr_loads[sm, m, 0] = entry.load
    state.sms[sm].mshrs_used += 1
    state.totals[0].miss_mshr += t - entry.at
    state.loads[entry.load].leaves = True
    words = granules_of(missing, config.sectors)
    r = new_request(sm, np.int64(LOAD), m, line, words, entry.static, entry.load, state)
    inject(r, 1.0, t, state, config)


@inlined
def l1_load(t, sm, entry, line, touched, slot, state, config):
    """A load at the tags: what holds it, if anything."""
    missing = touched
    if slot >= 0:
        held = state.l1[slot]
        missing = lacking(np.int64(LOAD), touched, touched, held.valid, held.written, config.sectors)
    if missing == 0:
        load = state.loads[entry.load]
        load.ready = max(load.ready, t)
        load.left -= 1
        use_line(state.l1[slot], state.chip[0])
        count_at_l1(bit_count(touched), np.int64(0), state.totals[0], state.counters[entry.static])
        return NO_CAUSE
    for m in range(config.l1_mshrs):
        if state.mshrs[sm, m].line == line:
            return join_miss(t, sm, m, entry, slot, touched, missing, state, config)
    if state.sms[sm].mshrs_used == config.l1_mshrs:
        return NO_MSHR
    if port_free_at(state.sms[sm], state.injection[sm]) > t:
        return BUSY_NETWORK
    cause = reserve_line(t, sm, entry, line, slot, state, config)
    if cause == NO_CAUSE:
        count_at_l1(bit_count(touched), bit_count(missing), state.totals[0], state.counters[entry.static])
        send_miss(t, sm, entry, line, missing, state, config)
    return cause


@inlined
def l1_write(t, sm, entry, what, line, words, touched, slot, state, config):
    """A store or atomic at the tags: what holds it, if anything.

    What it sends, its own or a dirty line that leaves before it, needs one place
    in the queue.
    """
    l1 = state.l1
    core = state.sms[sm]
    chip = state.chip[0]
    sectors = config.sectors
    missing = touched
    kept = 0
    place = slot
    if what == STORE and config.l1_sets > 0:
        if slot >= 0:
            missing = lacking(what, touched, words, l1[slot].valid, l1[slot].written, sectors)
            kept = touched & ~missing
        if config.l1_allocate:
            kept = touched
            if slot < 0:
                place = oldest_in_l1(sm, line, l1, config)
            if place < 0:
                return NO_MSHR
    going = touched & ~kept if config.l1_write_back else touched
    evicts = place != slot and config.l1_write_back and l1[place].written
    if (going or evicts) and (port_free_at(core, state.injection[sm]) > t or must_wait(chip, config)):
        return BUSY_NETWORK
    count_at_l1(bit_count(touched), bit_count(missing), state.totals[0], state.counters[entry.static])
    if place >= 0:
        if place != slot or what == ATOMIC:
            write_back(t, sm, entry.warp, entry.static, place, state, config)
        if place != slot:
            put_line(line, l1[place])
        if what == STORE:
            if config.l1_write_back or config.l1_allocate:
                l1[place].written |= words & granules_of(kept, sectors)
            use_line(l1[place], chip)
        elif not l1[slot].reserved:
            put_line(np.int64(-1), l1[slot])  # an atomic is done at the LLC and leaves no stale copy
            l1[slot].used = 0
    if going:
        sent = words if going == touched else words & granules_of(going, sectors)
        if what == ATOMIC:
            state.loads[entry.load].leaves = True
            core.atomics += 1
        else:
            core.leaves = True
        send_write(t, sm, entry.warp, entry.static, entry.load, what, line, sent, state, config)
    return NO_CAUSE


@inlined
def l1_stage(t, sm, state, config, window, table):
    """The access that has reached the L1's tags; returns the cycle in which to look again."""
    core = state.sms[sm]
    core.blocked = NO_CAUSE
    if core.pipe_count == 0:
        return NEVER
    entry = state.pipe[sm, core.pipe_head]
    if entry.at > t:
        return np.ceil(entry.at)
    what = table.kind[entry.static]
    line = window.line_id[entry.line]
    words = np.int64(window.line_words[entry.line])
    touched = sectors_of(words, config.sectors)
    slot = find_in_l1(sm, line, state.l1, config)
    if what == LOAD:
        core.blocked = l1_load(t, sm, entry, line, touched, slot, state, config)
    else:
        core.blocked = l1_write(t, sm, entry, what, line, words, touched, slot, state, config)
    if core.blocked != NO_CAUSE:
        free = port_free_at(core, state.injection[sm])
        return np.ceil(free) if free > t else NEVER  # otherwise an event wakes the SM
    if what == STORE:
        state.warps[sm, entry.warp].in_flight -= entry.last
        if entry.last:  # nobody asks whether a store missed the LLC
            count_level(state.counters[entry.static], core.leaves, np.bool_(False))
            core.leaves = False
    elif entry.last:
        part_of_load_back(entry.load, 0.0, sm, state, table)  # the instruction itself held one
    core.pipe_head = (core.pipe_head + 1) % config.l1_stages
    core.pipe_count -= 1
    return t + 1


@inlined
def count_miss(now, request, totals):
    """An L1 miss of a load that is back, and the parts of its latency."""
    waits = request.noc_wait + request.bank_wait + request.dram_wait + request.dram
    totals.miss_count += 1
    totals.miss_noc += request.noc_wait
    totals.miss_llc += request.bank_wait
    totals.miss_dram_queue += request.dram_wait
    totals.miss_dram += request.dram
    totals.miss_path += now - request.issued - waits


@inlined
def fill_l1(now, request, state, config, table):
    """The data of a miss are there: they go to the L1 and to all loads that wait for them."""
    sm = request.sm
    m = request.owner
    line = request.line
    mshr = state.mshrs[sm, m]
    count_miss(now, request, state.totals[0])
    slot = find_in_l1(sm, line, state.l1, config)
    if slot < 0 and config.l1_sets > 0:  # a streaming L1 gives a line its place only now
        slot = oldest_in_l1(sm, line, state.l1, config)
        first = state.loads[request.load]
        write_back(now, sm, first.warp, first.static, slot, state, config)
        put_line(line, state.l1[slot])
        use_line(state.l1[slot], state.chip[0])
    if slot >= 0:
        state.l1[slot].valid |= mshr.sectors
        state.l1[slot].reserved = False
    for k in range(mshr.count):
        number = state.mshr_loads[sm, m, k]
        if k > 0:
            part = (now - state.mshr_since[sm, m, k]) / (now - request.issued)
            state.loads[number].coming = max(state.loads[number].coming, part)
        part_of_load_back(number, now, sm, state, table)
    mshr.line = -1
    state.sms[sm].mshrs_used -= 1


@inlined
def acknowledge_write(now, request, state, table):
    """The LLC has taken a store or done an atomic."""
    state.chip[0].stores_flying -= 1
    if request.what == ATOMIC:
        state.sms[request.sm].atomics -= 1
        part_of_load_back(request.load, now, request.sm, state, table)
    else:
        state.warps[request.sm, request.owner].in_flight -= 1


@inlined
def end_request(r, now, state):
    """A reply is complete: its SM looks at it, all do if they wait for the network to take stores again."""
    chip = state.chip[0]
    core = state.sms[state.requests[r].sm]
    state.totals[0].returned += 1
    state.request_pool[chip.requests_free] = r
    chip.requests_free += 1
    core.wake = min(core.wake, np.ceil(now))
    if chip.starved:
        chip.starved = False
        for k in range(len(state.sms)):
            state.sms[k].wake = min(state.sms[k].wake, np.ceil(now))
