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
from ._calendar_kernels import full_until, hold, reserve
from ._network_records import (
    AT_MBARRIER,
    AT_PORT,
    AT_SCHEDULER,
    ATOMIC,
    B_SHARED,
    B_UNIT,
    C_BASE,
    C_DEP,
    C_L1,
    DATA,
    DRAM,
    DRAWS,
    END,
    GIVEN,
    GUMBEL,
    ISSUING,
    LEAST_WAVES,
    MOST_WARPS,
    NEVER,
    PORT,
    R_DRAM,
    R_ISSUE,
    R_NET_IN,
    R_NET_OUT,
    R_PORT,
    R_UNIT,
    R_WAY,
    RESOURCES,
    STORE,
    WAY,
)
from ._warp_kernels import (
    book,
    call_next,
    enter_blocks,
    leave_mbarrier,
    line_up,
    open_barrier,
    pass_event,
    reset,
    set_ready,
)


@inlined
def take_turns(now, work, ahead, scheduler, step):
    """When a warp has issued that takes turns with others: it waits for what they have, at most as much of each."""
    free = max(scheduler.free, now)
    scheduler.free = free + work
    return now + work + min(free - now + ahead, step.others * work)


@inlined
def look_round(w, now, stream, machine, sm, step):
    """Put down with whom a warp takes turns: those that issue, and those that are ready but not in the backlog."""
    step.others = step.ahead = 0.0
    for other in range(w % machine.schedulers, sm.run[0].slots * machine.warps_per_block, machine.schedulers):
        if other == w or sm.ready[other] >= NEVER:
            continue
        state = sm.warps[other].state
        if state == ISSUING:
            step.others += 1.0
        elif state == DATA and sm.ready[other] <= now:
            step.others += 1.0
            step.ahead += stream.events[sm.warps[other].event].issue / sm.warps[other].steps


@inlined
def hold_units(w, now, begin, reach, many, part, stream, machine, sm):
    """(Begins, ends): the instructions before the next event of a warp also take turns at functional units."""
    e, count = sm.warps[w].event, stream.units.shape[1]
    for u in range(count):
        held, row = stream.units[e, u] * part, u
        sm.units[u].busy += held
        if held > 0.0 and stream.slower[u]:  # else issue slots are waited for instead
            if machine.partitions > 1 and stream.divided[u]:
                row += w % machine.partitions * count
                held *= machine.partitions
            begin, reach = hold(row, now, begin, reach, held, many, machine.greedy, sm.units, sm.unit_calendar)
    return begin, reach


@inlined
def issue(w, now, step, stream, machine, sm, memory, waits, busy):
    """A warp issues the instructions before its next event, or a step of them, which it could do from `now` on.

    It waits for issue slots, units and shared memory, for each as long as the waits before it leave of them.
    """
    warp = sm.warps[w]
    event = stream.events[warp.event]
    part = 1.0 / warp.steps
    work = event.issue * machine.issue_interval * part
    many = sm.run[0].slots * machine.warps_per_block - 1.0
    alone = max(warp.gap * part, work)
    q = w % machine.schedulers
    begin = now
    if machine.greedy:
        begin, reach = reserve(q, now, now, work, alone, sm.schedulers, sm.calendar)
        sm.schedulers[q].free = full_until(q, sm.schedulers, sm.calendar)
    else:
        reach = take_turns(now, work, step.ahead * machine.issue_interval, sm.schedulers[q], step)
    reach = max(now + alone, reach)
    issuing = work + (reach - now - alone)
    waits[C_BASE] += issuing
    waits[C_DEP] += alone - work
    busy[R_ISSUE] += work / machine.schedulers
    before = reach
    begin, reach = hold_units(w, now, begin, reach, many, part, stream, machine, sm)
    servers, calendar = memory.servers, memory.calendar
    if event.special > 0.0:
        busy[R_WAY] += event.special * part
        begin, reach = hold(WAY, now, begin, reach, event.special * part, many, machine.greedy, servers, calendar)
    waits[C_DEP] += reach - before
    if len(sm.blame) > 0:
        blame = sm.blame[warp.event]
        blame[C_BASE] += issuing
        blame[C_DEP] += alone - work
        blame[B_UNIT] += reach - before
    if event.shared > 0.0:
        before = reach
        busy[R_PORT] += event.shared * part
        begin, reach = hold(PORT, now, begin, reach, event.shared * part, many, machine.greedy, servers, calendar)
        waits[C_L1] += reach - before
        if len(sm.blame) > 0:
            sm.blame[warp.event, B_SHARED] += reach - before
    warp.left -= 1
    warp.state = DATA if warp.left > 0 else ISSUING
    set_ready(w, reach, sm.ready, sm.order, sm.soonest, sm.first)


@inlined
def next_at_port(machine, sm):
    """Of the warps that wait for the memory queue, the oldest, or the next in step."""
    run, warps = sm.run[0], sm.warps
    found = -1
    for w in range(run.slots * machine.warps_per_block):
        if warps[w].state == AT_PORT and (
            found < 0 or (warps[w].age < warps[found].age if machine.greedy else w > run.last_port >= found)
        ):
            found = w
    return found


@inlined
def wait_for_queue(w, now, sm):
    """A warp whose access finds the memory queue full lines up."""
    warp = sm.warps[w]
    warp.state = AT_PORT
    warp.since = now
    set_ready(w, NEVER, sm.ready, sm.order, sm.soonest, sm.first)
    sm.run[0].at_port += 1


@inlined
def draw(warp, event):
    """A number of `GUMBEL` for an access of a warp of the launch, the same whenever it is drawn."""
    mixed = np.uint64(warp) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(event) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return GUMBEL[np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(DRAWS - 1))]


@inlined
def reach_event(w, now, step, stream, machine, sm, memory, waits, busy):
    """A warp has issued its instructions: its access enters the memory queue, or its event passes."""
    run, warp = sm.run[0], sm.warps[w]
    event = stream.events[warp.event]
    is_access = event.kind <= ATOMIC
    slot = sm.slots[w // machine.warps_per_block]
    back = now
    if is_access:
        part = sm.parts[w, warp.event - warp.first]
        drawn = draw(warp.age, warp.event - warp.first)
        sm.queue[run.place], back = access(now, event, drawn, slot.share, step, machine, memory, busy, part)
        run.place = run.place + 1 if run.place + 1 < machine.queue else 0
        run.last_port = w
    pass_event(w, now, back, stream, machine, sm, memory.split, waits)
    if slot.alive == 0:
        sm.ends[run.finished] = slot.left_at
        run.finished += 1


@inlined
def give_up(w, stream, machine, sm, split, waits):
    """A warp waits at an mbarrier for what does not come: it goes on as if it had not waited."""
    run, s = sm.run[0], w // machine.warps_per_block
    slot = sm.slots[s]
    leave_mbarrier(w, slot, sm.warps[w].since, stream, sm, split, waits)
    if slot.waiting > 0 and slot.waiting + slot.parked == slot.alive:
        open_barrier(s, stream, machine, sm, split, waits)
    if slot.alive == 0:
        sm.ends[run.finished] = slot.left_at
        run.finished += 1


@inlined
def next_at_mbarrier(machine, sm):
    """A warp that waits at an mbarrier, or -1."""
    for w in range(sm.run[0].slots * machine.warps_per_block):
        if sm.warps[w].state == AT_MBARRIER:
            return w
    return -1


@inlined
def begin_launch(machine, sm, memory):
    """No block has entered. Waves in the middle of a long launch are all alike, and are left out."""
    run = sm.run[0]
    run.slots = min(machine.blocks_per_sm, machine.most_blocks)
    full = int(machine.blocks / run.slots + 1e-9) * run.slots
    followed = max(LEAST_WAVES * run.slots, MOST_WARPS // machine.warps_per_block)
    run.skipped = max((full - followed) // run.slots, 0)
    run.last = machine.most_blocks - full
    run.to_run = machine.most_blocks - run.skipped * run.slots
    run.entered = run.finished = run.place = run.at_port = 0
    run.last_port = -1
    run.clock = 0.0
    reset(sm)
    reset_memory(machine, memory)


@inlined
def follow_warps(stream, machine, sm, memory, waits, busy, script):
    """Event by event, until no warp is left. A script that has room takes down each step."""
    run, step = sm.run[0], sm.step[0]
    steps = 0
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
            w = next_at_mbarrier(machine, sm)
            if w < 0:
                break
            step.warp = w
            if steps < len(script):
                script[steps] = step
                steps += 1
            give_up(w, stream, machine, sm, memory.split, waits)
            continue
        run.clock = now
        warp = sm.warps[w]
        scheduler = sm.schedulers[w % machine.schedulers]
        if warp.state == DATA and machine.greedy and scheduler.free > now:
            line_up(w, scheduler, sm)
            continue
        if warp.state == ISSUING and stream.events[warp.event].kind <= ATOMIC and sm.queue[run.place] > now:
            wait_for_queue(w, now, sm)
            continue
        step.warp = w
        if warp.state == DATA and not machine.greedy:
            look_round(w, now, stream, machine, sm, step)
        step.places = step.ways = 0
        if warp.state == DATA:
            issue(w, now, step, stream, machine, sm, memory, waits, busy)
            call_next(scheduler, sm)
        elif warp.state == AT_SCHEDULER:
            scheduler.first_in_line = warp.behind
            issue(w, warp.since, step, stream, machine, sm, memory, waits, busy)
            call_next(scheduler, sm)
        else:
            reach_event(w, now, step, stream, machine, sm, memory, waits, busy)
        if steps < len(script):
            script[steps] = step
            steps += 1


@inlined
def follow_script(stream, machine, sm, memory, waits, busy, script):
    """Step by step as another machine did: whatever takes less time on this one, no step comes later."""
    run = sm.run[0]
    for k in range(len(script)):
        if run.entered < run.to_run and run.entered - run.finished < run.slots:
            enter_blocks(stream, machine, sm)
        if run.finished == run.to_run:
            break
        w = script[k].warp
        warp, now = sm.warps[w], sm.ready[w]
        if warp.state == AT_MBARRIER:
            give_up(w, stream, machine, sm, memory.split, waits)
            continue
        if warp.state == DATA:
            issue(w, now, script[k], stream, machine, sm, memory, waits, busy)
            continue
        if stream.events[warp.event].kind <= ATOMIC:
            run.clock = max(now, sm.queue[run.place], run.clock)
            book(run.clock - now, memory.split, waits)
            now = run.clock
        reach_event(w, now, script[k], stream, machine, sm, memory, waits, busy)


@inlined
def cycles_of(ends, machine, run):
    """Cycles of the launch from the ends of the blocks that were followed, and of waves that were not."""
    for k in range(1, run.to_run):  # nearly in order already
        end = ends[k]
        while k > 0 and ends[k - 1] > end:
            ends[k] = ends[k - 1]
            k -= 1
        ends[k] = end
    cycles = ends[run.to_run - 1]
    if run.skipped > 0:
        waves = (run.to_run - run.last - run.slots) // run.slots
        took = 0.0
        for k in range(run.slots):
            took += (ends[k + waves * run.slots] - ends[k]) / (waves * run.slots)
        cycles += run.skipped * took
    return cycles


@inlined
def least_latency(event, machine):
    """Cycles after which the result of an access is there at the earliest."""
    latency = event.left if event.level == GIVEN else machine.l1_latency
    if machine.posted and event.kind == STORE:
        return latency * event.weight
    if event.level != GIVEN and event.misses > 0.0:
        latency = max(latency, machine.llc_latency)
        if event.level == DRAM and event.dram_reads > 0.0 and event.kind != STORE:
            latency = max(latency, machine.llc_latency + machine.dram_latency)
    return max(latency * event.weight + 2.0 * event.scatter * GUMBEL[0], 0.0)


@kernel
def least_of_blocks(stream, machines, done, least):
    """Cycles that each sampled block takes at least, alone: until all its warps have all results, if none waits."""
    for row in range(len(machines)):
        for block in range(len(stream.block_start) - 1):
            least[row, block] = 0.0
            for warp in range(stream.block_start[block], stream.block_start[block + 1]):
                first = stream.event_start[warp]
                now = back = 0.0
                for e in range(first, stream.event_start[warp + 1]):
                    event = stream.events[e]
                    now += event.gap
                    if event.needs >= 0:
                        now = max(now, done[event.needs] + event.tail)
                    result = now
                    if event.kind <= ATOMIC:
                        result += least_latency(event, machines[row])
                    elif event.kind == END:
                        back = max(back, now + event.left)
                    back = max(back, result)
                    done[e - first] = now if event.kind == STORE else result
                    if e > first:
                        done[e - first] = max(done[e - first], done[e - first - 1])
                least[row, block] = max(least[row, block], back)


@kernel
def solve(stream, machines, follows, script, sm, memory, all_cycles, all_waits, all_busy):
    """Cycles of a launch on each machine; adds up waits of warps by cause and busy cycles of resources.

    Machines that follow serve warps in the order of the `script`; others write theirs there, if it has room.
    """
    run = sm.run[0]
    for row in range(len(machines)):
        busy = all_busy[row]
        begin_launch(machines[row], sm, memory)
        if follows:
            follow_script(stream, machines[row], sm, memory, all_waits[row], busy, script)
        else:
            follow_warps(stream, machines[row], sm, memory, all_waits[row], busy, script)
        all_cycles[row] = cycles_of(sm.ends, machines[row], run)
        for u in range(stream.units.shape[1]):
            busy[R_UNIT] = max(busy[R_UNIT], sm.units[u].busy)
        if run.skipped > 0:
            left_out = run.skipped * run.slots
            for r in range(RESOURCES):  # what SMs share is busy for the blocks of all of them
                of_all = r in (R_NET_IN, R_NET_OUT, R_DRAM)
                blocks = machines[row].blocks if of_all else float(machines[row].most_blocks)
                busy[r] *= blocks / (blocks - left_out)
