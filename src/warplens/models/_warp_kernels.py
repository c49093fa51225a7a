"""The warps of one SM: which one goes on first, how blocks enter, and what becomes of a warp after an event."""

from __future__ import annotations

from ..jit import inlined
from ._network_records import (
    AT_BARRIER,
    AT_MBARRIER,
    AT_SCHEDULER,
    ATOMIC,
    AWAIT,
    BARRIER,
    C_SYNC,
    DATA,
    END,
    FIRST_PART,
    LOAD,
    NEVER,
    PARTS,
    STORE,
)


@inlined
def set_ready(w, time, ready, order, soonest, first):
    """A warp goes on at `time`. The root then names the first of all; of equal ones, that with the lowest number.

    No branch depends on which of two is earlier: a processor could only guess.
    """
    ready[w] = time
    node = len(ready) + w
    key = order[w]
    other = w ^ 1
    other_key = order[other]
    while node > 1:
        earlier = other_key < key + (node & 1)  # the right one of two only if it is less
        key = other_key if earlier else key
        w = other if earlier else w
        node >>= 1
        soonest[node] = key
        first[node] = w
        other_key = soonest[node ^ 1]
        other = first[node ^ 1]


@inlined
def book(cycles, shares, waits):
    """Divide the cycles that a warp waited among causes, in proportion to `shares`."""
    if cycles == 0.0:
        return
    total = 0.0
    for c in range(PARTS):
        total += shares[c]
    if total > 0.0:
        for c in range(PARTS):
            waits[FIRST_PART + c] += cycles * shares[c] / total


@inlined
def reset(sm):
    """Nobody there, nothing taken."""
    leaves = len(sm.ready)
    for node in range(leaves - 1, -1, -1):
        sm.ready[node] = NEVER
        sm.soonest[node] = sm.order[node]
        sm.first[node] = 2 * node - leaves if 2 * node >= leaves else sm.first[2 * node]
    for q in range(len(sm.schedulers)):
        sm.schedulers[q].free = 0.0
        sm.schedulers[q].first_in_line = -1
        sm.schedulers[q].booked = 0
    for u in range(len(sm.units)):
        unit = sm.units[u]
        unit.free = unit.busy = 0.0
        unit.booked = 0
    for s in range(len(sm.slots)):
        slot = sm.slots[s]
        slot.left_at = 0.0
        slot.alive = 0
    for k in range(len(sm.queue)):
        sm.queue[k] = 0.0


@inlined
def enter_warps(s, block, source, begin, stream, machine, sm):
    """The warps of a block begin at their first events."""
    slot = sm.slots[s]
    per_block = machine.warps_per_block
    first = stream.block_start[source]
    here = stream.block_start[source + 1] - first
    for k in range(per_block):
        origin = first + min(k, here - 1)
        e = stream.event_start[origin]
        if k >= here > 1 or e == stream.event_start[origin + 1]:
            continue  # a block that lacks warps (but one alone stands for all), or a warp that has nothing to do
        w = s * per_block + k
        warp = sm.warps[w]
        warp.state = DATA
        warp.event = warp.first = e
        warp.last = stream.event_start[origin + 1] - 1
        warp.age = block * per_block + k
        warp.back = begin
        warp.gap = stream.events[e].gap
        warp.steps = warp.left = max(stream.events[e].steps, 1)
        set_ready(w, begin, sm.ready, sm.order, sm.soonest, sm.first)
        slot.alive += 1
        if len(sm.signalled) > 0:
            for local in range(warp.last - warp.first + 1):
                sm.signalled[w, local] = NEVER


@inlined
def having(block, machine, run):
    """Share of the SMs that have a block of this number.

    Each place of an SM is as likely as any other to get one of the blocks that do not fill a wave.
    """
    full = run.skipped * run.slots + run.to_run - run.last
    if block < full:
        return 1.0
    if full == 0:
        return min(max(machine.blocks - block, 0.0), 1.0)
    taken = (machine.blocks - full) / run.slots
    exactly = (1.0 - taken) ** run.slots
    more = 1.0
    for k in range(block - full + 1):
        more -= exactly
        exactly *= (run.slots - k) / (k + 1.0) * taken / (1.0 - taken)
    return max(more, 0.0)


@inlined
def enter_blocks(stream, machine, sm):
    """Blocks take the places that are free."""
    run = sm.run[0]
    for s in range(run.slots):
        slot = sm.slots[s]
        if slot.alive > 0 or run.entered >= run.to_run:
            continue
        begin = slot.left_at + machine.block_start
        begin = max(begin, (run.entered + 1) * machine.block_launch, machine.cold_start)
        block = run.skipped * run.slots + run.entered
        source = stream.order[run.entered % len(stream.order)]
        slot.share = having(block, machine, run) * stream.traffic[source]
        slot.left_at = begin
        slot.gathered = 0.0
        slot.parked = 0
        run.entered += 1
        enter_warps(s, block, source, begin, stream, machine, sm)
        if slot.alive == 0:
            sm.ends[run.finished] = begin
            run.finished += 1


@inlined
def call_next(scheduler, sm):
    """The oldest warp that waits for a scheduler goes on when it is free."""
    w = scheduler.first_in_line
    if w >= 0:
        set_ready(w, scheduler.free, sm.ready, sm.order, sm.soonest, sm.first)


@inlined
def line_up(w, scheduler, sm):
    """A warp waits for a scheduler, behind those that are older."""
    warps = sm.warps
    warps[w].state = AT_SCHEDULER
    warps[w].since = sm.ready[w]
    set_ready(w, NEVER, sm.ready, sm.order, sm.soonest, sm.first)
    before = -1
    behind = scheduler.first_in_line
    while behind >= 0 and warps[behind].age < warps[w].age:
        before = behind
        behind = warps[behind].behind
    warps[w].behind = behind
    if before >= 0:
        warps[before].behind = w
        return
    if behind >= 0:
        set_ready(behind, NEVER, sm.ready, sm.order, sm.soonest, sm.first)
    scheduler.first_in_line = w
    call_next(scheduler, sm)


@inlined
def advance(w, slot, now, stream, sm, split, waits):
    """A warp turns to its next event, from `now` or from when the data that it needs are there; or leaves."""
    warp = sm.warps[w]
    start = now
    warp.state = DATA
    if warp.event == warp.last:
        book(max(warp.back - now, 0.0), split, waits)
        slot.alive -= 1
        slot.gathered = max(slot.gathered, now)
        slot.left_at = max(slot.left_at, now, warp.back)
        start = NEVER
    else:
        warp.event += 1
        event = stream.events[warp.event]
        reach = now + event.gap
        if event.needs >= 0:
            reach = max(reach, sm.done[w, event.needs] + event.tail)
            start = max(now, reach - event.gap)
            book(start - now, sm.parts[w, event.needs], waits)
            if len(sm.blame) > 0:
                book(start - now, sm.parts[w, event.needs], sm.blame[sm.source[w, event.needs]])
        warp.gap = reach - start
        warp.steps = warp.left = max(event.steps, 1)
    set_ready(w, start, sm.ready, sm.order, sm.soonest, sm.first)


@inlined
def open_barrier(s, stream, machine, sm, split, waits):
    """All warps of a block have reached the barrier or left, and go on."""
    slot = sm.slots[s]
    gathered = slot.gathered
    slot.waiting = 0
    slot.gathered = 0.0
    for w in range(s * machine.warps_per_block, (s + 1) * machine.warps_per_block):
        warp = sm.warps[w]
        if warp.state == AT_BARRIER:
            event = stream.events[warp.event]
            opens = gathered + (machine.cluster_barrier if event.clustered else machine.barrier) * event.weight
            waits[C_SYNC] += opens - warp.since
            if len(sm.blame) > 0:
                sm.blame[warp.event, C_SYNC] += opens - warp.since
            advance(w, slot, opens, stream, sm, split, waits)


@inlined
def completed(w, stream, machine, sm):
    """When the phase that a warp waits for is complete; NEVER if something that it takes has not happened yet."""
    e = sm.warps[w].event
    first = w - w % machine.warps_per_block
    found = 0.0
    for k in range(stream.await_start[e], stream.await_start[e + 1]):
        other = stream.awaited[k, 0]
        if other < machine.warps_per_block:
            found = max(found, sm.signalled[first + other, stream.awaited[k, 1]])
    return found


@inlined
def leave_mbarrier(w, slot, opens, stream, sm, split, waits):
    """A warp that waited at an mbarrier goes on."""
    warp = sm.warps[w]
    slot.parked -= 1
    waits[C_SYNC] += opens - warp.since
    if len(sm.blame) > 0:
        sm.blame[warp.event, C_SYNC] += opens - warp.since
    advance(w, slot, opens, stream, sm, split, waits)


@inlined
def release_warps(s, stream, machine, sm, split, waits):
    """Warps of a block whose phase is complete leave their mbarriers."""
    slot = sm.slots[s]
    for w in range(s * machine.warps_per_block, (s + 1) * machine.warps_per_block):
        if sm.warps[w].state == AT_MBARRIER:
            opens = completed(w, stream, machine, sm)
            if opens < NEVER:
                leave_mbarrier(w, slot, max(opens, sm.warps[w].since), stream, sm, split, waits)


@inlined
def pass_event(w, now, back, stream, machine, sm, split, waits):
    """A warp's event is over, but for the result of an access, which is there when it is `back`."""
    warp, parts = sm.warps[w], sm.parts
    s = w // machine.warps_per_block
    slot = sm.slots[s]
    event = stream.events[warp.event]
    local = warp.event - warp.first
    done = back
    source = warp.event
    # What needs a load needs those before it: results are taken in order.
    if local > 0 and (event.kind == STORE or back < sm.done[w, local - 1]):
        done = sm.done[w, local - 1]
        source = sm.source[w, local - 1]
        for c in range(PARTS):
            parts[w, local, c] = parts[w, local - 1, c]
    elif event.kind > ATOMIC:
        for c in range(PARTS):
            parts[w, local, c] = 0.0
    sm.done[w, local] = done
    if len(sm.blame) > 0:
        sm.source[w, local] = source
    if event.kind == END:
        back += event.left
    warp.back = max(warp.back, back)
    if len(sm.signalled) > 0:
        sm.signalled[w, local] = done if event.kind == LOAD else now
    if event.kind == AWAIT and len(sm.signalled) > 0:
        warp.state = AT_MBARRIER
        warp.since = now
        set_ready(w, NEVER, sm.ready, sm.order, sm.soonest, sm.first)
        slot.parked += 1
    elif event.kind == BARRIER:
        warp.state = AT_BARRIER
        warp.since = now
        set_ready(w, NEVER, sm.ready, sm.order, sm.soonest, sm.first)
        slot.waiting += 1
        slot.gathered = max(slot.gathered, now)
    else:
        advance(w, slot, now, stream, sm, split, waits)
    if slot.parked > 0:
        release_warps(s, stream, machine, sm, split, waits)
    # A barrier of some warps opens when the others wait at mbarriers.
    if slot.waiting > 0 and slot.waiting + slot.parked == slot.alive:
        open_barrier(s, stream, machine, sm, split, waits)
