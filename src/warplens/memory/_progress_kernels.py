"""Caches in the order of an estimate of when warps reach memory.

Numba's cache looks at this file alone: touch it after editing `_kernels.py`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ._kernels import (
    A_L1,
    A_L1_LEFT,
    A_LLC,
    A_LLC_LEFT,
    BARRIER,
    EMPTY,
    LOAD,
    MOST_LINES,
    P_BLOCKS_PER_SM,
    P_GREEDY,
    P_QUEUE,
    P_SMS,
    Q_DRAM_LATENCY,
    Q_DRAM_SERVICE,
    Q_ISSUE_INTERVAL,
    Q_L1_LATENCY,
    Q_LLC_LATENCY,
    Q_NOC_SERVICE,
    Q_OUTSTANDING,
    Q_SM_SERVICE,
    STORE,
    W_FIRST,
    W_KIND,
    W_LAST,
    W_SM,
    W_STATIC,
    access_lines,
)
from ._round_kernels import warps_of_blocks

# Lines on their way that are remembered, of an SM and of the LLC (powers of two).
L1_PLACES, LLC_PLACES = 1 << 10, 1 << 16


@njit(cache=True, nogil=True)
def heap_push(keys, warps, size, key, warp):
    """Insert into a binary heap ordered by (key, warp); returns the new size."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if keys[parent] < key or (keys[parent] == key and warps[parent] <= warp):
            break
        keys[child] = keys[parent]
        warps[child] = warps[parent]
        child = parent
    keys[child] = key
    warps[child] = warp
    return size + 1


@njit(cache=True, nogil=True)
def heap_fill(keys, warps, size, key, warp):
    """Put an entry in place of the least one: cheaper than to remove that first, most of all where both are near."""
    hole = 0
    child = 1
    while child < size:
        if child + 1 < size and (
            keys[child + 1] < keys[child] or (keys[child + 1] == keys[child] and warps[child + 1] < warps[child])
        ):
            child += 1
        if key < keys[child] or (key == keys[child] and warp < warps[child]):
            break
        keys[hole] = keys[child]
        warps[hole] = warps[child]
        hole = child
        child = 2 * hole + 1
    keys[hole] = key
    warps[hole] = warp


@njit(cache=True, nogil=True)
def heap_pop(keys, warps, size):
    """Remove the least entry; returns the new size. The entry itself is read before the call."""
    heap_fill(keys, warps, size - 1, keys[size - 1], warps[size - 1])
    return size - 1


@njit(cache=True, nogil=True)
def pick(queue, count, last, greedy):
    """Place in an SM's queue of the warp that goes next: the last one again, else the oldest; or in turn."""
    best = 0
    for k in range(count):
        w = queue[k]
        if greedy:
            if w == last:
                return k
            if w < queue[best]:
                best = k
        else:
            after = w > last
            best_after = queue[best] > last
            if (after and not best_after) or (after == best_after and w < queue[best]):
                best = k
    return best


@njit(cache=True, nogil=True)
def send_misses(sm, now, issued, misses, llc_misses, store, timing, shared, link_free, flight, flown):
    """(time the last datum is back, time the L1 accepts the next access) of one instruction's misses.

    `shared` holds the times at which the network and the DRAM are free. They
    fill from the time of the event, which never runs backwards; a miss that
    waits for an MSHR starts later than that.
    """
    back = issued
    start = issued
    for miss in range(misses):
        place = flown[sm] % flight.shape[1]
        if not store:
            start = max(start, flight[sm, place])  # the miss that many before this one must be back
        at_link = max(start, link_free[sm])
        link_free[sm] = at_link + timing[Q_SM_SERVICE]
        arrival = max(at_link, shared[0]) + timing[Q_LLC_LATENCY]
        shared[0] = max(now, shared[0]) + timing[Q_NOC_SERVICE]
        if miss < llc_misses:
            arrival = max(arrival, shared[1] + timing[Q_LLC_LATENCY]) + timing[Q_DRAM_LATENCY]
            shared[1] = max(now, shared[1]) + timing[Q_DRAM_SERVICE]
        if not store:
            flight[sm, place] = arrival
            flown[sm] += 1
        back = max(back, arrival)
    return back, start


@njit(cache=True, nogil=True)
def note_arrivals(sm, now, back, s, first, end, line_id, outcome, coming, arrivals):
    """When the data of a load are there that were on their way already; it is counted, and its own are remembered.

    `coming` has, per SM and for the LLC, lines that were sent for, when they are
    there and how long that takes; a line may push another out of its place.
    """
    l1_lines, l1_times, llc_lines, llc_times = coming
    in_l1 = 0.0
    in_llc = 0.0
    worst = 0
    there = now
    for j in range(first, end):
        line = line_id[j]
        served = outcome[j - first]
        worst = max(worst, served)
        place = line & (L1_PLACES - 1)
        llc_place = line & (LLC_PLACES - 1)
        if served == 0:
            if l1_lines[sm, place] == line and l1_times[sm, place, 0] > now:
                in_l1 = max(in_l1, (l1_times[sm, place, 0] - now) / l1_times[sm, place, 1])
                there = max(there, l1_times[sm, place, 0])
            continue
        l1_lines[sm, place] = line
        l1_times[sm, place, 0] = back
        l1_times[sm, place, 1] = back - now
        if served == 1:
            if llc_lines[0, llc_place] == line and llc_times[0, llc_place, 0] > now:
                in_llc = max(in_llc, (llc_times[0, llc_place, 0] - now) / llc_times[0, llc_place, 1])
                there = max(there, llc_times[0, llc_place, 0])
                l1_times[sm, place, 0] = max(back, there)
                l1_times[sm, place, 1] = max(back, there) - now
        else:
            llc_lines[0, llc_place] = line
            llc_times[0, llc_place, 0] = back
            llc_times[0, llc_place, 1] = back - now
    if worst == 0 and in_l1 > 0.0:
        arrivals[s, A_L1] += 1.0
        arrivals[s, A_L1_LEFT] += in_l1
    elif worst == 1 and in_llc > 0.0:
        arrivals[s, A_LLC] += 1.0
        arrivals[s, A_LLC_LEFT] += in_llc
    return there


@njit(cache=True, nogil=True)
def reach_time(w, event, now, event_start, event_gap, event_dependence, event_tail, done):
    """When a warp that is free at `now` reaches its next event: after the instructions and data in between."""
    if event == event_start[w + 1]:
        return max(now, done[event - 1]) if event > event_start[w] else now
    reach = now + event_gap[event]
    needed = event_dependence[event]
    if needed >= 0:
        reach = max(reach, done[event_start[w] + needed] + event_tail[event])
    return reach


@njit(cache=True, nogil=True)
def simulate_progress(
    block_start,
    event_start,
    event_static,
    event_instructions,
    event_gap,
    event_dependence,
    event_tail,
    line_start,
    line_id,
    line_words,
    place,
    kind,
    l1_tags,
    l1_states,
    llc_tags,
    llc_states,
    parameters,
    timing,
    counters,
    bank_load,
    arrivals,
):
    """Memory instructions in the order of an estimate of when warps reach them; returns the estimated cycles.

    Warps that reach an access enter their SM's memory queue while it has room;
    when it is full the scheduling policy decides who enters next. The queue is
    served in order: a service takes the issue slots of the instructions since
    the warp's last access, a cycle of the L1 port per line, and the wait for
    MSHRs. The heap holds two kinds of entries: warp w reaches its next event,
    and (number of warps + sm) the SM can serve again.
    """
    blocks = len(block_start) - 1
    warps = block_start[blocks]
    sms = parameters[P_SMS]
    keys = np.empty(warps + sms + 1, dtype=np.float64)
    heap = np.empty(warps + sms + 1, dtype=np.int64)
    size = 0
    block_of, alive, largest = warps_of_blocks(block_start)
    sm_of = np.zeros(blocks, dtype=np.int64)
    at_barrier = np.zeros(blocks, dtype=np.int64)
    blocked = np.zeros(warps, dtype=np.bool_)
    queue = np.empty((sms, parameters[P_BLOCKS_PER_SM] * largest), dtype=np.int64)
    queued = np.zeros(sms, dtype=np.int64)
    depth = parameters[P_QUEUE]
    line_up = np.empty((sms, depth), dtype=np.int64)  # the memory queue, a ring
    head = np.zeros(sms, dtype=np.int64)
    lined_up = np.zeros(sms, dtype=np.int64)
    last = np.empty(sms, dtype=np.int64)
    for sm in range(sms):
        last[sm] = -1
    free = np.zeros(sms, dtype=np.float64)
    link_free = np.zeros(sms, dtype=np.float64)
    flight = np.zeros((sms, max(int(timing[Q_OUTSTANDING]), 1)), dtype=np.float64)
    flown = np.zeros(sms, dtype=np.int64)
    shared = np.zeros(2, dtype=np.float64)
    turns = np.empty((1, 5), dtype=np.int64)
    outcome = np.zeros(MOST_LINES, dtype=np.int8)
    coming = (
        np.full((sms, L1_PLACES), EMPTY),
        np.zeros((sms, L1_PLACES, 2)),
        np.full((1, LLC_PLACES), EMPTY),
        np.zeros((1, LLC_PLACES, 2)),
    )
    position = event_start[:-1].copy()
    done = np.zeros(len(event_static) + 1, dtype=np.float64)
    latest = np.zeros(warps, dtype=np.float64)
    next_block = min(blocks, sms * parameters[P_BLOCKS_PER_SM])
    for w in range(block_start[next_block]):
        sm_of[block_of[w]] = block_of[w] % sms
        when = reach_time(w, position[w], 0.0, event_start, event_gap, event_dependence, event_tail, done)
        size = heap_push(keys, heap, size, when, w)
    now = 0.0
    while size > 0:
        now = keys[0]
        entry = heap[0]
        if entry < warps:
            w = entry
            b = block_of[w]
            sm = sm_of[b]
            if position[w] < event_start[w + 1]:
                if lined_up[sm] < depth:
                    line_up[sm, (head[sm] + lined_up[sm]) % depth] = w
                    lined_up[sm] += 1
                    last[sm] = w
                    if lined_up[sm] == 1:
                        heap_fill(keys, heap, size, max(now, free[sm]), warps + sm)
                        continue
                else:
                    queue[sm, queued[sm]] = w
                    queued[sm] += 1
                size = heap_pop(keys, heap, size)
                continue
            size = heap_pop(keys, heap, size)
            alive[b] -= 1
            if alive[b] == 0 and next_block < blocks:
                sm_of[next_block] = sm
                for other in range(block_start[next_block], block_start[next_block + 1]):
                    when = reach_time(
                        other, position[other], now, event_start, event_gap, event_dependence, event_tail, done
                    )
                    size = heap_push(keys, heap, size, when, other)
                next_block += 1
        else:
            sm = entry - warps
            w = line_up[sm, head[sm]]
            head[sm] = (head[sm] + 1) % depth
            lined_up[sm] -= 1
            if queued[sm] > 0:
                k = pick(queue[sm], queued[sm], last[sm], parameters[P_GREEDY] == 1)
                last[sm] = queue[sm, k]
                line_up[sm, (head[sm] + lined_up[sm]) % depth] = queue[sm, k]
                lined_up[sm] += 1
                queued[sm] -= 1
                queue[sm, k] = queue[sm, queued[sm]]
            b = block_of[w]
            event = position[w]
            s = event_static[event]
            position[w] = event + 1
            busy = event_instructions[event] * timing[Q_ISSUE_INTERVAL]
            done[event] = now
            when = now
            if kind[s] == BARRIER:
                blocked[w] = True
                at_barrier[b] += 1
            else:
                first = line_start[event]
                end = line_start[event + 1]
                turns[0, W_SM] = sm
                turns[0, W_FIRST] = first
                turns[0, W_LAST] = end
                turns[0, W_STATIC] = s
                turns[0, W_KIND] = kind[s]
                misses, llc_misses, written_back, writeback_misses = access_lines(
                    turns,
                    1,
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
                )
                if written_back:  # nobody waits for them, but what follows waits for the network
                    send_misses(
                        sm, now, now, written_back, writeback_misses, True, timing, shared, link_free, flight, flown
                    )
                back, start = send_misses(
                    sm, now, now, misses, llc_misses, kind[s] == STORE, timing, shared, link_free, flight, flown
                )
                done[event] = max(back, now + timing[Q_L1_LATENCY])
                if kind[s] == LOAD:
                    there = note_arrivals(sm, now, back, s, first, end, line_id, outcome, coming, arrivals)
                    done[event] = max(done[event], there, latest[w])
                    latest[w] = done[event]  # results are taken in order
                busy = max(busy, float(end - first), start - now)
                when = reach_time(w, event + 1, now, event_start, event_gap, event_dependence, event_tail, done)
            free[sm] = now + busy
            # The SM's next service takes the place of this one, else the warp's next event.
            if lined_up[sm] > 0:
                heap_fill(keys, heap, size, free[sm], warps + sm)
                if kind[s] != BARRIER:
                    size = heap_push(keys, heap, size, when, w)
            elif kind[s] != BARRIER:
                heap_fill(keys, heap, size, when, w)
            else:
                size = heap_pop(keys, heap, size)
        if at_barrier[b] > 0 and at_barrier[b] == alive[b]:
            for other in range(block_start[b], block_start[b + 1]):
                if blocked[other]:
                    blocked[other] = False
                    when = reach_time(
                        other, position[other], now, event_start, event_gap, event_dependence, event_tail, done
                    )
                    size = heap_push(keys, heap, size, when, other)
            at_barrier[b] = 0
    return now
