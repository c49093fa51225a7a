"""The warps of one SM as customers of a closed network, solved event by event.

The other SMs do the same at the same time: what all share takes the requests of
each of them, so its service times are multiplied by their number. A warp's
events are memory accesses and barriers. Before each it issues the instructions
since the last one, when the data that they need are there.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined, kernel
from ._access_kernels import access, reset_memory
from ._network_records import (
    AT_PORT,
    AT_SCHEDULER,
    ATOMIC,
    B_SHARED,
    B_UNIT,
    C_BASE,
    C_DEP,
    C_L1,
    DATA,
    ISSUING,
    LEAST_WAVES,
    MOST_WARPS,
    NEVER,
    R_ISSUE,
    R_PORT,
    R_UNIT,
    RESOURCES,
)
from ._warp_kernels import book, enter_blocks, line_up, pass_event, reset, set_ready


@inlined
def in_turn(w, q, now, work, stream, machine, sm):
    """Cycles until a scheduler that serves all warps in turn has issued a warp's instructions.

    A warp waits at most for what the others have to issue, and at most for as much of each as it has itself.
    """
    others = 0
    scheduler = sm.schedulers[q]
    ahead = max(scheduler.issued - now, 0.0)
    for other in range(q, sm.run[0].slots * machine.warps_per_block, machine.schedulers):
        if other == w or sm.ready[other] >= NEVER:
            continue
        state = sm.warps[other].state
        if state == ISSUING:
            others += 1
        elif state == DATA and sm.ready[other] <= now:
            others += 1
            ahead += stream.events[sm.warps[other].event].issue * machine.issue_interval
    scheduler.issued = max(scheduler.issued, now) + work
    return work + min(ahead, others * work)


@inlined
def hold_units(e, now, reach, many, stream, units):
    """When the functional units have taken the instructions before event `e`.

    A unit serves its warps in turn: each waits at most as if all asked for as much as it does.
    """
    for u in range(len(units)):
        held = stream.units[e, u]
        if held > 0.0:
            unit = units[u]
            free = max(unit.free, now)
            reach = max(reach, now + held + min(free - now, many * held))
            unit.free = free + held
            unit.busy += held
    return reach


@inlined
def issue(w, q, now, work, stream, machine, sm, port, waits, busy):
    """A warp issues the instructions before its next event, on the slots that others leave."""
    warp, scheduler = sm.warps[w], sm.schedulers[q]
    event = stream.events[warp.event]
    many = sm.run[0].slots * machine.warps_per_block - 1.0
    alone = max(warp.gap, work)
    if machine.greedy:
        reach = now + max(alone, work / max(1.0 - scheduler.taken, 1e-3))
    else:
        reach = now + max(alone, in_turn(w, q, now, work, stream, machine, sm))
    issuing = work + (reach - now - alone) + (now - warp.since)
    waits[C_BASE] += issuing
    waits[C_DEP] += alone - work
    busy[R_ISSUE] += work / machine.schedulers
    before = reach
    reach = hold_units(warp.event, now, reach, many, stream, sm.units)
    waits[C_DEP] += reach - before
    if len(sm.blame) > 0:
        blame = sm.blame[warp.event]
        blame[C_BASE] += issuing
        blame[C_DEP] += alone - work
        blame[B_UNIT] += reach - before
    held = event.shared
    if held > 0.0:
        before = reach
        free = max(port[R_PORT], now)
        reach = max(reach, now + held + min(free - now, many * held))
        port[R_PORT] = free + held
        busy[R_PORT] += held
        waits[C_L1] += reach - before
        if len(sm.blame) > 0:
            sm.blame[warp.event, B_SHARED] += reach - before
    warp.rate = work / max(reach - now, 1e-9)
    scheduler.taken += warp.rate
    warp.state = ISSUING
    set_ready(w, reach, sm.ready, sm.order, sm.soonest, sm.first)


@inlined
def give_slots(w, now, begins, stream, machine, sm, port, waits, busy):
    """Issue slots go to the warp itself if it `begins` or the scheduler is greedy, then to those that wait."""
    q = w % machine.schedulers
    scheduler, warps = sm.schedulers[q], sm.warps
    asks = w
    if not begins and (not machine.greedy or warps[w].state != DATA or sm.ready[w] > now):
        asks = scheduler.first_in_line
    if asks == w:
        warps[w].since = now
    while asks >= 0:
        warp = warps[asks]
        work = stream.events[warp.event].issue * machine.issue_interval
        wanted = work / max(warp.gap, work, 1e-9)
        waits_in_line = warp.state == AT_SCHEDULER
        if not machine.greedy or 1.0 - scheduler.taken >= 0.5 * wanted - 1e-9:
            issue(asks, q, now, work, stream, machine, sm, port, waits, busy)
            if waits_in_line:
                scheduler.first_in_line = warp.behind
        elif waits_in_line:
            break
        elif begins:
            warps[w].state = AT_SCHEDULER
            set_ready(w, NEVER, sm.ready, sm.order, sm.soonest, sm.first)
            line_up(w, scheduler, warps)
        asks = -1 if begins else scheduler.first_in_line


@inlined
def next_at_port(machine, sm):
    """Of the warps that wait for the memory queue, the oldest, or the next in turn."""
    run, warps = sm.run[0], sm.warps
    found = -1
    for w in range(run.slots * machine.warps_per_block):
        if warps[w].state == AT_PORT and (
            found < 0 or (warps[w].age < warps[found].age if machine.greedy else w > run.last_port >= found)
        ):
            found = w
    return found


@inlined
def reach_event(w, now, enters, stream, machine, sm, memory, waits, busy):
    """A warp has issued its instructions: its access enters the memory queue or waits for it, or its event passes."""
    run, warp = sm.run[0], sm.warps[w]
    event = stream.events[warp.event]
    is_access = event.kind <= ATOMIC
    if not enters:
        scheduler = sm.schedulers[w % machine.schedulers]
        scheduler.taken = max(scheduler.taken - warp.rate, 0.0)
        if is_access and sm.queue[run.place] > now:
            warp.state = AT_PORT
            warp.since = now
            set_ready(w, NEVER, sm.ready, sm.order, sm.soonest, sm.first)
            run.at_port += 1
            return
    slot = sm.slots[w // machine.warps_per_block]
    back = now
    if is_access:
        part = sm.parts[w, warp.event - warp.first]
        sm.queue[run.place], back = access(now, event, slot.share, machine, memory, busy, part)
        run.place = run.place + 1 if run.place + 1 < machine.queue else 0
        run.last_port = w
    pass_event(w, now, back, stream, machine, sm, memory.split, waits)
    if slot.alive == 0:
        sm.ends[run.finished] = slot.left_at
        run.finished += 1


@inlined
def begin_launch(machine, sm, memory):
    """No block has entered. Waves in the middle of a long launch are all alike, and are left out."""
    run = sm.run[0]
    blocks = int(np.ceil(machine.blocks - 1e-9))  # of the SM that has most
    run.slots = min(machine.blocks_per_sm, blocks)
    followed = max(LEAST_WAVES * run.slots, MOST_WARPS // machine.warps_per_block)
    run.skipped = max((blocks - followed) // run.slots, 0)
    run.to_run = blocks - run.skipped * run.slots
    run.entered = run.finished = run.place = run.at_port = 0
    run.last_port = -1
    run.clock = 0.0
    reset(sm)
    reset_memory(machine, memory)


@inlined
def follow_warps(stream, machine, sm, memory, waits, busy):
    """Event by event, until no warp is left."""
    run = sm.run[0]
    while True:
        if run.entered < run.to_run and run.entered - run.finished < run.slots:
            enter_blocks(stream, machine, sm)
        w = sm.first[1]
        now = sm.ready[w]
        enters = run.at_port > 0 and sm.queue[run.place] <= now
        if enters:
            now = max(sm.queue[run.place], run.clock)
            w = next_at_port(machine, sm)
            run.at_port -= 1
            book(now - sm.warps[w].since, memory.split, waits)
        if now >= NEVER:
            break
        run.clock = now
        begins = sm.warps[w].state == DATA
        if not begins:
            reach_event(w, now, enters, stream, machine, sm, memory, waits, busy)
        if not enters:
            give_slots(w, now, begins, stream, machine, sm, memory.free, waits, busy)


@inlined
def cycles_of(ends, run):
    """Cycles of the launch from the ends of the blocks that were followed, and of waves that were not."""
    for k in range(1, run.to_run):  # nearly in order already
        end = ends[k]
        while k > 0 and ends[k - 1] > end:
            ends[k] = ends[k - 1]
            k -= 1
        ends[k] = end
    cycles = ends[run.to_run - 1]
    if run.skipped > 0:
        waves = (run.to_run - run.slots) // run.slots
        cycles += run.skipped * (ends[run.slots - 1 + waves * run.slots] - ends[run.slots - 1]) / waves
    return cycles


@kernel
def solve(stream, machines, sm, memory, all_cycles, all_waits, all_busy):
    """Cycles of a launch on each machine; adds up waits of warps by cause and busy cycles of resources."""
    run = sm.run[0]
    for row in range(len(machines)):
        busy = all_busy[row]
        begin_launch(machines[row], sm, memory)
        follow_warps(stream, machines[row], sm, memory, all_waits[row], busy)
        all_cycles[row] = cycles_of(sm.ends, run)
        for u in range(len(sm.units)):
            busy[R_UNIT] = max(busy[R_UNIT], sm.units[u].busy)
        if run.skipped > 0:
            for r in range(RESOURCES):
                busy[r] *= 1.0 + run.skipped * run.slots / run.to_run
