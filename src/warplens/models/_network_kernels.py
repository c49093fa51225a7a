"""The warps of one SM as customers of a closed network, solved event by event.

The other SMs are taken to do the same at the same time: what all share takes
the requests of each of them, so its service times are multiplied by their
number. A warp's events are memory accesses and barriers: before each it issues
the instructions since the last one, when the data that they need are there.

Numba's cache looks at this file alone: touch it after editing those that it imports.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined, kernel
from ._access_kernels import (
    ATOMIC,
    C_BASE,
    C_DEP,
    C_L1,
    E_ISSUE,
    E_SHARED,
    M_BLOCKS,
    M_BLOCKS_PER_SM,
    M_GREEDY,
    M_ISSUE_INTERVAL,
    M_QUEUE,
    M_SCHEDULERS,
    M_WARPS_PER_BLOCK,
    R_ISSUE,
    R_PORT,
    R_UNIT,
    RESOURCES,
    access,
    reset_memory,
)
from ._warp_kernels import (
    AGE,
    ALIVE,
    AT_PORT,
    AT_SCHEDULER,
    BEHIND,
    BUSY,
    DATA,
    EVENT,
    FIRST,
    FREE,
    GAP,
    ISSUED,
    ISSUING,
    LEAST_WAVES,
    LEFT_AT,
    MOST_WARPS,
    NEVER,
    RATE,
    SHARE,
    SINCE,
    STATE,
    TAKEN,
    book,
    enter_blocks,
    line_up,
    pass_event,
    reset,
    set_ready,
)


@inlined
def in_turn(w, q, now, work, interval, warps, schedulers, stream, sm):
    """Cycles in which a scheduler that serves all by turns issues a warp's instructions, those of others among them.

    None waits for more than each of the others has to issue, nor than as if all had as much as itself.
    """
    others = 0
    ahead = max(sm.schedulers[q, ISSUED] - now, 0.0)
    for other in range(q, warps, schedulers):
        if other == w or sm.ready[other] >= NEVER:
            continue
        state = sm.places[other, STATE]
        if state == ISSUING:
            others += 1
        elif state == DATA and sm.ready[other] <= now:
            others += 1
            ahead += stream.events[sm.places[other, EVENT], E_ISSUE] * interval
    sm.schedulers[q, ISSUED] = max(sm.schedulers[q, ISSUED], now) + work
    return work + min(ahead, others * work)


@inlined
def issue(w, q, now, work, warps, schedulers, stream, machine, sm, port, waits, busy):
    """A warp issues the instructions before its next event, on the slots that others leave."""
    times, units = sm.times, sm.units
    e = sm.places[w, EVENT]
    many = warps - 1.0
    alone = max(times[w, GAP], work)
    if machine[M_GREEDY] == 1.0:
        reach = now + max(alone, work / max(1.0 - sm.schedulers[q, TAKEN], 1e-3))
    else:
        turn = in_turn(w, q, now, work, machine[M_ISSUE_INTERVAL], warps, schedulers, stream, sm)
        reach = now + max(alone, turn)
    waits[C_BASE] += work + (reach - now - alone) + (now - times[w, SINCE])
    waits[C_DEP] += alone - work
    busy[R_ISSUE] += work / schedulers
    # A unit serves its warps by turns: none waits longer than as if all asked for as much as it does.
    before = reach
    for u in range(len(units)):
        held = stream.units[e, u]
        if held > 0.0:
            free = max(units[u, FREE], now)
            reach = max(reach, now + held + min(free - now, many * held))
            units[u, FREE] = free + held
            units[u, BUSY] += held
    waits[C_DEP] += reach - before
    held = stream.events[e, E_SHARED]
    if held > 0.0:
        before = reach
        free = max(port[R_PORT], now)
        reach = max(reach, now + held + min(free - now, many * held))
        port[R_PORT] = free + held
        busy[R_PORT] += held
        waits[C_L1] += reach - before
    times[w, RATE] = work / max(reach - now, 1e-9)
    sm.schedulers[q, TAKEN] += times[w, RATE]
    sm.places[w, STATE] = ISSUING
    set_ready(w, reach, sm.ready, sm.order, sm.soonest, sm.first)


@inlined
def cycles_of(ends, to_run, skipped, slots):
    """Cycles of the launch from the ends of the blocks that were followed, and of waves that were not."""
    for k in range(1, to_run):  # nearly in order already
        end = ends[k]
        while k > 0 and ends[k - 1] > end:
            ends[k] = ends[k - 1]
            k -= 1
        ends[k] = end
    cycles = ends[to_run - 1]
    if skipped > 0:
        waves = (to_run - slots) // slots
        cycles += skipped * (ends[slots - 1 + waves * slots] - ends[slots - 1]) / waves
    return cycles


@kernel
def solve(stream, machines, sm, memory, all_cycles, all_waits, all_busy):
    """Cycles of a launch on each machine; adds up waits of warps by cause and busy cycles of resources."""
    ready, order, soonest, first = sm.ready, sm.order, sm.soonest, sm.first
    places, times = sm.places, sm.times
    queue, lines, crowd = sm.queue, sm.first_in_line, sm.crowd
    for row in range(len(machines)):
        machine, waits, busy = machines[row], all_waits[row], all_busy[row]
        schedulers = max(int(machine[M_SCHEDULERS]), 1)
        per_block = int(machine[M_WARPS_PER_BLOCK])
        greedy = machine[M_GREEDY] == 1.0
        blocks = int(np.ceil(machine[M_BLOCKS] - 1e-9))  # of the SM that has most
        slots = min(int(machine[M_BLOCKS_PER_SM]), blocks)
        followed = max(LEAST_WAVES * slots, MOST_WARPS // per_block)
        skipped = max((blocks - followed) // slots, 0)  # waves in the middle, which are all alike
        to_run = blocks - skipped * slots
        warps = slots * per_block
        reset(sm)
        reset_memory(machine, memory)
        entered = finished = np.int64(0)
        place = 0  # in the memory queue, of the next access
        at_port, last_port = 0, -1
        clock = 0.0
        queue_size = max(int(machine[M_QUEUE]), 1)
        while True:
            if entered < to_run and entered - finished < slots:
                entered, finished = enter_blocks(
                    entered, finished, to_run, blocks - to_run, slots, stream, machine, sm
                )
            w = first[1]
            now = ready[w]
            enters = at_port > 0 and queue[place] <= now
            if enters:  # a place in the memory queue goes to one of those that wait: the oldest, or the next in turn
                now = max(queue[place], clock)
                w = -1
                for other in range(warps):
                    if places[other, STATE] == AT_PORT and (
                        w < 0 or (places[other, AGE] < places[w, AGE] if greedy else other > last_port >= w)
                    ):
                        w = other
                at_port -= 1
                book(now - times[w, SINCE], memory.split, waits)
            if now >= NEVER:
                break
            clock = now
            q = w % schedulers
            asks = w  # for issue slots
            begins = places[w, STATE] == DATA
            if not begins:
                e = places[w, EVENT]
                is_access = stream.kind[e] <= ATOMIC
                if not enters:
                    sm.schedulers[q, TAKEN] = max(sm.schedulers[q, TAKEN] - times[w, RATE], 0.0)
                if is_access and not enters and queue[place] > now:
                    places[w, STATE] = AT_PORT
                    times[w, SINCE] = now
                    set_ready(w, NEVER, ready, order, soonest, first)
                    at_port += 1
                else:
                    slot = w // per_block
                    back = now
                    if is_access:
                        part = sm.parts[w, e - places[w, FIRST]]
                        queue[place], back = access(
                            now, e, sm.slots[slot, SHARE], stream, machine, memory, busy, part
                        )
                        place = place + 1 if place + 1 < queue_size else 0
                        last_port = w
                    pass_event(w, slot, now, back, stream, machine, sm, memory.split, waits)
                    if crowd[slot, ALIVE] == 0:
                        sm.ends[finished] = sm.slots[slot, LEFT_AT]
                        finished += 1
                if enters:
                    continue
                if not greedy or places[w, STATE] != DATA or ready[w] > now:
                    asks = lines[q]
            # The slots that it leaves go to itself if the scheduler is greedy, then to those that wait.
            if asks == w:
                times[w, SINCE] = now
            while asks >= 0:
                work = stream.events[places[asks, EVENT], E_ISSUE] * machine[M_ISSUE_INTERVAL]
                wanted = work / max(times[asks, GAP], work, 1e-9)
                waits_in_line = places[asks, STATE] == AT_SCHEDULER
                if not greedy or 1.0 - sm.schedulers[q, TAKEN] >= 0.5 * wanted - 1e-9:
                    issue(asks, q, now, work, warps, schedulers, stream, machine, sm, memory.free, waits, busy)
                    if waits_in_line:
                        lines[q] = places[asks, BEHIND]
                elif waits_in_line:
                    break
                elif begins:
                    places[w, STATE] = AT_SCHEDULER
                    set_ready(w, NEVER, ready, order, soonest, first)
                    line_up(w, q, lines, places)
                asks = -1 if begins else lines[q]
        all_cycles[row] = cycles_of(sm.ends, to_run, skipped, slots)
        for u in range(len(sm.units)):
            busy[R_UNIT] = max(busy[R_UNIT], sm.units[u, BUSY])
        if skipped > 0:
            for r in range(RESOURCES):
                busy[r] *= 1.0 + skipped * slots / to_run
