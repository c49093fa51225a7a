"""The warps of one SM as customers of a closed network, solved event by event.

The other SMs are taken to do the same at the same time: what all share takes
the requests of each of them, so its service times are multiplied by their
number. A server is the time at which it is free again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# What an event is (as in the cache simulation, and the end of a warp).
LOAD, STORE, ATOMIC, BARRIER, END = 1, 2, 3, 4, 5

# Columns of an event: what one warp asks for, in cycles or transfers; its weight has been multiplied in but for
# MISSES, which fill MSHRs.
(
    E_ISSUE,
    E_GAP,
    E_TAIL,
    E_PORT,
    E_SHARED,
    E_MISSES,
    E_FLITS_OUT,
    E_FLITS_IN,
    E_DRAM_READS,
    E_DRAM_WRITES,
    E_WEIGHT,
    E_LEFT,
    E_SET_LINES,
) = range(13)
EVENT_COLUMNS = 13

# Columns of a machine.
(
    M_SCHEDULERS,
    M_ISSUE_INTERVAL,
    M_L1_LATENCY,
    M_LLC_LATENCY,
    M_DRAM_LATENCY,
    M_SM_FLIT,
    M_NET_FLIT,
    M_DRAM_SERVICE,
    M_OUTSTANDING,
    M_INJECTION,
    M_STORES,
    M_DRAM_QUEUE,
    M_BARRIER,
    M_BARRIER_WARP,
    M_BLOCKS_PER_SM,
    M_WARPS_PER_BLOCK,
    M_BLOCKS,
    M_SMS,
    M_QUEUE,
    M_SETS,
    M_WAYS,
    M_GREEDY,
) = range(22)
MACHINE_COLUMNS = 22
# Levels that serve an access; COMING: by another one's miss.
L1, LLC, DRAM, COMING = range(4)

# Causes of waiting, in the order of the CPI stack.
C_BASE, C_DEP, C_L1, C_L2, C_DRAM, C_MSHR, C_NOC, C_QUEUE, C_SYNC, C_IDLE = range(10)
CAUSES = 10

# Resources, by the cycles that they are busy.
R_ISSUE, R_UNIT, R_PORT, R_SM_OUT, R_SM_IN, R_NET_IN, R_NET_OUT, R_DRAM = range(8)
RESOURCES = 8

NEVER = 1e300
# What a warp does until its time comes: waits for data, issues, waits for a scheduler, for the memory queue, at a
# barrier.
DATA, ISSUING, QUEUED, AT_PORT, AT_BARRIER = range(5)
#: Warps of an SM that are followed from first to last; of longer launches some waves are, and the middle repeated.
MOST_WARPS = 160


@njit(cache=True, nogil=True)
def serve(first, last, free, count, total):
    """(first begins, last begins, free again) where `count` items that arrive from `first` to `last` take `total`."""
    begin = max(first, free)
    each = total / count
    end = max(last, begin + total - each)
    return begin, end, end + each


@njit(cache=True, nogil=True)
def can_issue(w, q, e, now, events, load, rate, left_gap, issue_interval):
    """Whether the scheduler has room for a warp's instructions: at least half of the rate they could issue at."""
    work = events[e, E_ISSUE] * issue_interval
    wanted = work / max(left_gap[w], work, 1e-9)
    return 1.0 - load[q] >= 0.5 * wanted - 1e-9


@njit(cache=True, nogil=True)
def begin_issue(
    w,
    q,
    e,
    now,
    events,
    units,
    load,
    rate,
    left_gap,
    issue_interval,
    unit_free,
    port_free,
    warps,
    asked_at,
    state,
    ready,
    waits,
    busy,
    schedulers,
):
    """A warp issues the instructions up to its next event; returns when the port is free again."""
    work = events[e, E_ISSUE] * issue_interval
    alone = max(left_gap[w], work)
    room = max(1.0 - load[q], 1e-3)
    lasts = max(alone, work / room)
    reach = now + lasts
    waits[C_BASE] += work + (lasts - alone) + (now - asked_at[w])
    waits[C_DEP] += alone - work
    busy[R_ISSUE] += work / schedulers
    by_units = reach
    for u in range(len(unit_free)):
        held = units[e, u]
        if held > 0.0:
            backlog = max(unit_free[u] - now, 0.0)
            by_units = max(by_units, now + held + min(backlog, (warps - 1.0) * held))
            unit_free[u] = max(unit_free[u], now) + held
    waits[C_DEP] += by_units - reach
    reach = by_units
    held = events[e, E_SHARED]
    if held > 0.0:
        backlog = max(port_free - now, 0.0)
        by_port = max(reach, now + held + min(backlog, (warps - 1.0) * held))
        port_free = max(port_free, now) + held
        busy[R_PORT] += held
        waits[C_L1] += by_port - reach
        reach = by_port
    rate[w] = work / max(reach - now, 1e-9)
    load[q] += rate[w]
    state[w] = ISSUING
    ready[w] = reach
    return port_free


@njit(cache=True, nogil=True)
def solve(block_start, event_start, kind, level, dependence, sets, events, units, machine, waits, busy):
    """Cycles of a launch on one machine; fills the waits of warps by cause and the busy cycles of resources.

    `units` are the cycles that an event's instructions hold each functional unit.
    """
    schedulers = max(int(machine[M_SCHEDULERS]), 1)
    issue_interval = machine[M_ISSUE_INTERVAL]
    l1_latency = machine[M_L1_LATENCY]
    llc_latency = machine[M_LLC_LATENCY]
    dram_latency = machine[M_DRAM_LATENCY]
    outstanding = max(int(machine[M_OUTSTANDING]), 1)
    stores = max(int(machine[M_STORES]), 1)
    slots = int(machine[M_BLOCKS_PER_SM])
    per_block = int(machine[M_WARPS_PER_BLOCK])
    share_of_blocks = machine[M_BLOCKS]
    sample_blocks = len(block_start) - 1
    n_units = units.shape[1]

    blocks = int(np.ceil(share_of_blocks - 1e-9))
    # Waves in the middle of a long launch are alike: they are left out, and their time is added.
    followed = max(3 * slots, MOST_WARPS // per_block)
    skipped_waves = max((blocks - followed) // slots, 0)
    first_block = skipped_waves * slots
    slots = min(slots, blocks)

    most_events = 1
    for w in range(len(event_start) - 1):
        most_events = max(most_events, event_start[w + 1] - event_start[w])
    warps = slots * per_block
    ready = np.full(warps, NEVER)
    position = np.zeros(warps, dtype=np.int64)
    first_event = np.zeros(warps, dtype=np.int64)
    last_event = np.zeros(warps, dtype=np.int64)
    state = np.zeros(warps, dtype=np.int64)
    age = np.zeros(warps, dtype=np.int64)
    asked_at = np.zeros(warps)
    rate = np.zeros(warps)
    load = np.zeros(schedulers)
    queued = np.zeros(schedulers, dtype=np.int64)
    last_issued = np.full(schedulers, -1, dtype=np.int64)
    greedy = machine[M_GREEDY] == 1.0
    left_gap = np.zeros(warps)
    last_back = np.zeros(warps)
    done = np.zeros((warps, most_events))
    why = np.zeros((warps, most_events, 6))
    alive = np.zeros(slots, dtype=np.int64)
    waiting = np.zeros(slots, dtype=np.int64)
    barrier_at = np.zeros(slots)
    block_end = np.zeros(slots)
    share = np.ones(slots)
    unit_free = np.zeros(n_units)
    port_free = 0.0
    out_free = 0.0
    in_free = 0.0
    net_in_free = 0.0
    net_out_free = 0.0
    dram_free = 0.0
    load_ring = np.zeros(outstanding)
    loads_sent = 0
    store_ring = np.zeros(stores)
    ways = max(int(machine[M_WAYS]), 1)
    n_sets = int(machine[M_SETS])
    set_ring = np.zeros((max(n_sets, 1), ways))
    set_sent = np.zeros(max(n_sets, 1), dtype=np.int64)
    recent = llc_latency  # what misses took of late, and those that went to DRAM
    recent_llc = llc_latency
    recent_dram = llc_latency + dram_latency
    stores_sent = 0
    next_block = first_block
    finished = 0
    to_run = blocks - first_block
    ends = np.zeros(to_run)
    end_time = 0.0
    depth = max(int(machine[M_QUEUE]), 1)
    port_ring = np.zeros(depth)  # when the last accesses left the memory queue
    accesses = 0
    at_port = 0
    last_port = -1
    clock = 0.0

    for slot in range(slots):
        alive[slot] = -1  # to be filled at time 0
    filled = 0
    while True:
        # -- blocks enter free slots
        if filled < slots or finished > 0:
            for slot in range(slots):
                if alive[slot] != -1 or next_block >= blocks:
                    continue
                begin = block_end[slot]
                source = next_block % sample_blocks
                share[slot] = min(max(share_of_blocks - next_block, 0.0), 1.0)
                first = block_start[source]
                here = block_start[source + 1] - first
                count = 0
                for k in range(per_block):
                    w = slot * per_block + k
                    ready[w] = NEVER
                    if here == 0:
                        continue
                    origin = first + (k if here >= per_block or k < here else k % here)
                    if k >= here and sample_blocks > 0 and here > 1:
                        continue
                    first_event[w] = event_start[origin]
                    last_event[w] = event_start[origin + 1]
                    if first_event[w] == last_event[w]:
                        continue
                    position[w] = first_event[w]
                    last_back[w] = begin
                    state[w] = DATA
                    age[w] = next_block * per_block + k
                    left_gap[w] = events[first_event[w], E_GAP]
                    ready[w] = begin
                    count += 1
                alive[slot] = count
                waiting[slot] = 0
                barrier_at[slot] = 0.0
                block_end[slot] = begin
                next_block += 1
                filled += 1
                if count == 0:
                    alive[slot] = -1
                    ends[finished] = begin
                    finished += 1
        # -- the warp that is next
        w = 0
        now = ready[0]
        for other in range(1, warps):
            if ready[other] < now:
                now = ready[other]
                w = other
        room_at = max(port_ring[accesses % depth], 0.0) if at_port > 0 else NEVER
        entering = room_at <= now and at_port > 0
        if entering:  # a place in the memory queue goes to one of those that wait for it
            now = max(room_at, clock)
            w = -1
            for other in range(warps):
                if state[other] == AT_PORT:
                    if w < 0:
                        w = other
                    elif greedy:
                        if age[other] < age[w]:
                            w = other
                    elif (other > last_port) != (w > last_port):
                        w = other if other > last_port else w
            at_port -= 1
            waits[C_L1] += now - asked_at[w]
        if now >= NEVER:
            break
        clock = now
        slot = w // per_block
        e = position[w]
        event = events[e]
        q = w % schedulers
        if state[w] == DATA:
            asked_at[w] = now
            if can_issue(w, q, e, now, events, load, rate, left_gap, issue_interval):
                port_free = begin_issue(
                    w, q, e, now, events, units, load, rate, left_gap, issue_interval, unit_free, port_free, warps,
                    asked_at, state, ready, waits, busy, schedulers,
                )
            else:
                state[w] = QUEUED
                ready[w] = NEVER
                queued[q] += 1
            continue
        if not entering:
            load[q] = max(load[q] - rate[w], 0.0)
            if LOAD <= kind[e] <= ATOMIC and port_ring[accesses % depth] > now:
                state[w] = AT_PORT
                asked_at[w] = now
                ready[w] = NEVER
                at_port += 1
                entering = True  # it waits: only the scheduler's slots are handed on
        else:
            entering = False
            state[w] = ISSUING
        what = 0 if entering else kind[e]
        weight = event[E_WEIGHT]
        local = e - first_event[w]
        go_on = now
        if what == BARRIER:
            waiting[slot] += 1
            barrier_at[slot] = max(barrier_at[slot], now)
            done[w, local] = now
            ready[w] = NEVER
            state[w] = AT_BARRIER
        elif what == END:
            done[w, local] = now
        elif what != 0:
            # -- through the port of the L1, in order
            port = event[E_PORT]
            begin = max(now, port_free)
            last_port = w
            port_ring[accesses % depth] = begin
            accesses += 1
            port_free = begin + port
            busy[R_PORT] += port
            back = begin + port - min(port, weight) + l1_latency * weight
            part = why[w, local]
            part[0] = back - now
            for c in range(1, 6):
                part[c] = 0.0
            misses = event[E_MISSES]
            if level[e] == COMING:
                back = max(back, begin + event[E_LEFT] * recent * weight)
                part[1] = max(back - now - part[0], 0.0)
            if misses > 0.0:
                is_load = what == LOAD
                count = max(int(misses + 0.5), 1)
                limit = outstanding if is_load else stores
                last_in = begin + port - min(port, weight)
                first_in = begin
                sent = loads_sent if is_load else stores_sent
                step = min(count, limit)
                if is_load:
                    first_in = max(first_in, load_ring[sent % limit])
                    last_in = max(last_in, load_ring[(sent + step - 1) % limit], first_in)
                else:
                    first_in = max(first_in, store_ring[sent % limit])
                    last_in = max(last_in, store_ring[(sent + step - 1) % limit], first_in)
                own = 0
                if is_load and n_sets > 0:
                    own = max(int(event[E_SET_LINES] + 0.5), 1)
                    ring = set_ring[sets[e]]
                    before = set_sent[sets[e]]
                    first_in = max(first_in, ring[before % ways])
                    last_in = max(last_in, ring[(before + min(own, ways) - 1) % ways], first_in)
                    if own > ways:
                        last_in += (own - 1) // ways * recent * weight
                if count > limit:  # more than all of them: the rest goes when these are back
                    rounds = (count - 1) // limit
                    last_in += rounds * (llc_latency + (dram_latency if level[e] == DRAM else 0.0)) * weight
                port_free = max(port_free, last_in)
                mshr_wait = last_in - (begin + port - min(port, weight))
                shared = share[slot]
                # its own port out of the SM, whose queue holds back the L1
                total = event[E_FLITS_OUT] * machine[M_SM_FLIT]
                f, l, out_free = serve(first_in, last_in, out_free, misses, total)
                busy[R_SM_OUT] += total
                port_free = max(port_free, out_free - machine[M_INJECTION] * total / misses)
                total = event[E_FLITS_OUT] * machine[M_NET_FLIT] * shared
                f, l, net_in_free = serve(f, l, net_in_free, misses, total)
                busy[R_NET_IN] += total
                noc_wait = l - last_in
                queue_wait = 0.0
                writes = event[E_DRAM_WRITES] * machine[M_DRAM_SERVICE] * shared
                if writes > 0.0:
                    dram_free = max(dram_free, f) + writes
                    busy[R_DRAM] += writes
                latency = llc_latency * weight
                if level[e] == DRAM and what != STORE:
                    total = event[E_DRAM_READS] * machine[M_DRAM_SERVICE] * shared
                    before = l
                    f, l, dram_free = serve(f, l, dram_free, max(event[E_DRAM_READS] / weight, 1.0), total)
                    busy[R_DRAM] += total
                    queue_wait = l - before
                    latency += dram_latency * weight
                full = dram_free - machine[M_DRAM_QUEUE]
                if full > net_in_free:  # the banks wait for room in the queues of the channels
                    if what == STORE:
                        queue_wait += max(full - l, 0.0)
                        l = max(l, full)
                        f = max(f, full)
                    net_in_free = max(net_in_free, full)
                before = l
                total = event[E_FLITS_IN] * machine[M_NET_FLIT] * shared
                f, l, net_out_free = serve(f, l, net_out_free, misses, total)
                busy[R_NET_OUT] += total
                total = event[E_FLITS_IN] * machine[M_SM_FLIT]
                f, l, in_free = serve(f, l, in_free, misses, total)
                busy[R_SM_IN] += total
                noc_wait += l - before
                if level[e] == LLC and event[E_LEFT] > 0.0:  # the LLC has sent for it already
                    latency += event[E_LEFT] * max(recent_dram - recent_llc, dram_latency) * weight
                first_back = f + latency
                last_back_here = l + latency
                slope = (last_back_here - first_back) / max(step - 1, 1)
                if is_load:
                    each = (last_back_here - first_in) / weight
                    recent += 0.1 * (each - recent)
                    if level[e] == DRAM:
                        recent_dram += 0.1 * (each - recent_dram)
                    elif event[E_LEFT] == 0.0:
                        recent_llc += 0.1 * (each - recent_llc)
                    if own > 0:
                        ring = set_ring[sets[e]]
                        before = set_sent[sets[e]]
                        for k in range(min(own, ways)):
                            ring[(before + k) % ways] = last_back_here - l1_latency * weight
                        set_sent[sets[e]] += min(own, ways)
                    for k in range(step):
                        load_ring[(sent + k) % limit] = first_back + k * slope - l1_latency * weight
                    loads_sent += step
                else:
                    for k in range(step):
                        store_ring[(sent + k) % limit] = first_back + k * slope - l1_latency * weight
                    stores_sent += step
                back = max(back, last_back_here)
                part[0] = min(begin + port - now, back - now)
                part[1] = llc_latency * weight
                part[2] = latency - llc_latency * weight
                part[3] = mshr_wait
                part[4] = noc_wait
                part[5] = queue_wait
            done[w, local] = back
            last_back[w] = max(last_back[w], back)
        # -- on to the next event, or out
        if what != BARRIER and what != 0:
            nxt = e + 1
            if nxt == last_event[w]:
                ready[w] = NEVER
                waits[C_L2] += max(last_back[w] - go_on, 0.0)
                block_end[slot] = max(block_end[slot], go_on, last_back[w])
                alive[slot] -= 1
                if alive[slot] == 0:
                    alive[slot] = -1
                    ends[finished] = block_end[slot]
                    finished += 1
                    end_time = max(end_time, block_end[slot])
            else:
                position[w] = nxt
                schedule_next(w, nxt, go_on, first_event, dependence, events, done, why, ready, left_gap, state, waits)
        if waiting[slot] > 0 and waiting[slot] == alive[slot]:
            release = barrier_at[slot] + machine[M_BARRIER] + machine[M_BARRIER_WARP] * alive[slot]
            for other in range(slot * per_block, (slot + 1) * per_block):
                if state[other] == AT_BARRIER:
                    at = position[other]
                    arrived = done[other, at - first_event[other]]
                    state[other] = DATA
                    release_here = barrier_at[slot] + (release - barrier_at[slot]) * events[at, E_WEIGHT]
                    waits[C_SYNC] += release_here - arrived
                    nxt = at + 1
                    if nxt == last_event[other]:
                        alive[slot] -= 1
                        block_end[slot] = max(block_end[slot], release_here, last_back[other])
                        position[other] = nxt
                    else:
                        position[other] = nxt
                        schedule_next(
                            other, nxt, release_here, first_event, dependence, events, done, why, ready, left_gap,
                            state, waits,
                        )
            waiting[slot] = 0
            barrier_at[slot] = 0.0
            if alive[slot] == 0:
                alive[slot] = -1
                ends[finished] = block_end[slot]
                finished += 1
                end_time = max(end_time, block_end[slot])
        # -- the slots that it leaves go to itself if it is greedy, and to those that wait
        if greedy and state[w] == DATA and ready[w] <= now:
            asked_at[w] = now
            if can_issue(w, q, position[w], now, events, load, rate, left_gap, issue_interval):
                port_free = begin_issue(
                    w, q, position[w], now, events, units, load, rate, left_gap, issue_interval, unit_free, port_free,
                    warps, asked_at, state, ready, waits, busy, schedulers,
                )
        last_issued[q] = w
        while queued[q] > 0:
            best = -1
            for other in range(q, warps, schedulers):
                if state[other] != QUEUED:
                    continue
                if best < 0:
                    best = other
                elif greedy:
                    if age[other] < age[best]:
                        best = other
                elif (other > last_issued[q]) != (best > last_issued[q]):
                    best = other if other > last_issued[q] else best
            if best < 0 or not can_issue(
                best, q, position[best], now, events, load, rate, left_gap, issue_interval
            ):
                break
            queued[q] -= 1
            last_issued[q] = best
            port_free = begin_issue(
                best, q, position[best], now, events, units, load, rate, left_gap, issue_interval, unit_free, port_free,
                warps, asked_at, state, ready, waits, busy, schedulers,
            )
    if skipped_waves > 0 and to_run > 2 * slots:
        # a wave of the middle: from when half of a wave has ended to the same a wave before the last begins
        ends.sort()
        low = ends[slots - 1]
        waves = (to_run - slots) // slots
        high = ends[slots - 1 + waves * slots]
        period = (high - low) / waves
        scale = 1.0 + skipped_waves * slots / to_run
        for r in range(RESOURCES):
            busy[r] *= scale
        for c in range(CAUSES):
            waits[c] *= scale
        end_time += skipped_waves * period
    return end_time


@njit(cache=True, nogil=True)
def schedule_next(w, nxt, now, first_event, dependence, events, done, why, ready, left_gap, state, waits):
    """When a warp that is free at `now` can issue what leads to its next event: after the data that it needs."""
    gap = events[nxt, E_GAP]
    reach = now + gap
    needed = dependence[nxt]
    if needed >= 0:
        reach = max(reach, done[w, needed] + events[nxt, E_TAIL])
    start = max(now, reach - gap)
    if start > now and needed >= 0:
        part = why[w, needed]
        total = 0.0
        for c in range(6):
            total += part[c]
        if total > 0.0:
            for c in range(6):
                waits[C_L1 + c] += (start - now) * part[c] / total
        else:
            waits[C_DEP] += start - now
    left_gap[w] = reach - start
    state[w] = DATA
    ready[w] = start


@njit(cache=True, nogil=True)
def solve_batch(block_start, event_start, kind, level, dependence, sets, events, units, machines, cycles, waits, busy):
    """`solve` for every row of `machines`."""
    for row in range(len(machines)):
        cycles[row] = solve(
            block_start, event_start, kind, level, dependence, sets, events, units, machines[row], waits[row], busy[row]
        )
