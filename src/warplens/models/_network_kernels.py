"""The warps of one SM as customers of a closed network, solved event by event.

The other SMs are taken to do the same at the same time: what all share takes
the requests of each of them, so its service times are multiplied by their
number. A warp's events are memory accesses and barriers: before each it issues
the instructions since the last one, when the data that they need are there.

Numba's cache looks at this file alone: touch it after editing the one it imports.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ._access_kernels import (
    ATOMIC,
    BARRIER,
    C_BASE,
    C_DEP,
    C_L1,
    C_SYNC,
    E_GAP,
    E_ISSUE,
    E_LEFT,
    E_SHARED,
    E_TAIL,
    E_WEIGHT,
    END,
    FIRST_PART,
    LOAD,
    M_BARRIER,
    M_BLOCK_LAUNCH,
    M_BLOCK_START,
    M_BLOCKS,
    M_BLOCKS_PER_SM,
    M_GREEDY,
    M_ISSUE_INTERVAL,
    M_QUEUE,
    M_SCHEDULERS,
    M_WARPS_PER_BLOCK,
    PARTS,
    R_ISSUE,
    R_PORT,
    R_UNIT,
    RESOURCES,
    STORE,
    access,
    new_memory,
)

NEVER = 1e300
# What a warp does until its time comes: waits for data, issues, waits for a scheduler, for a place in the memory
# queue, at a barrier.
DATA, ISSUING, AT_SCHEDULER, AT_PORT, AT_BARRIER = range(5)
#: Warps of an SM that are followed, or three waves; of longer launches the middle is left out and its time added.
MOST_WARPS, LEAST_WAVES = 160, 3


class Stream(NamedTuple):
    """What warps ask for (see `network.Demand`)."""

    block_start: Any
    event_start: Any
    kind: Any
    level: Any
    dependence: Any
    sets: Any
    events: Any
    units: Any
    order: Any  # blocks in the order in which an SM is given them
    traffic: Any  # what the mean block asks of shared resources, over what each does


class Warps(NamedTuple):
    """One entry per warp slot of the SM."""

    ready: Any
    state: Any
    position: Any
    first: Any
    end: Any
    gap: Any  # cycles of its own until the next event
    since: Any  # when it began to wait for a scheduler or the queue
    rate: Any  # issue slots a cycle that it takes
    age: Any
    back: Any  # when all its accesses are back
    done: Any  # when each event's result is there, and what it waited for
    parts: Any


class Core(NamedTuple):
    """Schedulers and functional units; waits of warps by cause, and busy cycles of resources."""

    load: Any
    free: Any  # when a scheduler that takes turns has issued all that it was given
    unit_free: Any
    unit_busy: Any
    waits: Any
    busy: Any


@njit(cache=True, nogil=True)
def go_on(w, now, stream, warps, waits):
    """A warp turns to its next event: from `now`, or from when the data that it needs are there."""
    e = warps.position[w]
    gap = stream.events[e, E_GAP]
    reach = now + gap
    needed = stream.dependence[e]
    start = now
    if needed >= 0:
        reach = max(reach, warps.done[w, needed] + stream.events[e, E_TAIL])
        start = max(now, reach - gap)
        total = 0.0
        for c in range(PARTS):
            total += warps.parts[w, needed, c]
        for c in range(PARTS):
            if total > 0.0:
                waits[FIRST_PART + c] += (start - now) * warps.parts[w, needed, c] / total
    warps.gap[w] = reach - start
    warps.state[w] = DATA
    warps.ready[w] = start


@njit(cache=True, nogil=True)
def has_room(w, q, stream, warps, core, machine):
    """Whether a scheduler can issue a warp's instructions: one that takes turns can always.

    A greedy one can at no less than half the rate that they could go at.
    """
    if machine[M_GREEDY] == 0.0:
        return True
    work = stream.events[warps.position[w], E_ISSUE] * machine[M_ISSUE_INTERVAL]
    wanted = work / max(warps.gap[w], work, 1e-9)
    return 1.0 - core.load[q] >= 0.5 * wanted - 1e-9


@njit(cache=True, nogil=True)
def in_turn(w, q, now, work, stream, warps, core, machine):
    """Cycles in which a scheduler that serves all by turns issues a warp's instructions, those of others among them.

    None waits for more than each of the others has to issue, nor than as if all had as much as itself.
    """
    others = 0
    ahead = max(core.free[q] - now, 0.0)
    for other in range(q, len(warps.ready), len(core.load)):
        if other == w or warps.ready[other] >= NEVER:
            continue
        if warps.state[other] == ISSUING:
            others += 1
        elif warps.state[other] == DATA and warps.ready[other] <= now:
            others += 1
            ahead += stream.events[warps.position[other], E_ISSUE] * machine[M_ISSUE_INTERVAL]
    core.free[q] = max(core.free[q], now) + work
    return work + min(ahead, others * work)


@njit(cache=True, nogil=True)
def issue(w, q, now, stream, warps, core, machine, port):
    """A warp issues the instructions before its next event, on the slots that others leave."""
    e = warps.position[w]
    many = len(warps.ready) - 1.0
    work = stream.events[e, E_ISSUE] * machine[M_ISSUE_INTERVAL]
    alone = max(warps.gap[w], work)
    if machine[M_GREEDY] == 0.0:
        reach = now + max(alone, in_turn(w, q, now, work, stream, warps, core, machine))
    else:
        reach = now + max(alone, work / max(1.0 - core.load[q], 1e-3))
    core.waits[C_BASE] += work + (reach - now - alone) + (now - warps.since[w])
    core.waits[C_DEP] += alone - work
    core.busy[R_ISSUE] += work / len(core.load)
    # A unit serves its warps by turns: none waits longer than as if all asked for as much as it does.
    before = reach
    for u in range(len(core.unit_free)):
        held = stream.units[e, u]
        if held > 0.0:
            reach = max(reach, now + held + min(max(core.unit_free[u] - now, 0.0), many * held))
            core.unit_free[u] = max(core.unit_free[u], now) + held
            core.unit_busy[u] += held
    core.waits[C_DEP] += reach - before
    held = stream.events[e, E_SHARED]
    if held > 0.0:
        before = reach
        reach = max(reach, now + held + min(max(port[R_PORT] - now, 0.0), many * held))
        port[R_PORT] = max(port[R_PORT], now) + held
        core.busy[R_PORT] += held
        core.waits[C_L1] += reach - before
    warps.rate[w] = work / max(reach - now, 1e-9)
    core.load[q] += warps.rate[w]
    warps.state[w] = ISSUING
    warps.ready[w] = reach


@njit(cache=True, nogil=True)
def chosen(state, step, begin, last, greedy, warps):
    """The warp, of those in a state, that goes next: the oldest, or the next one in turn."""
    best = -1
    for w in range(begin, len(warps.ready), step):
        if warps.state[w] != state:
            continue
        if best < 0:
            best = w
        elif greedy:
            if warps.age[w] < warps.age[best]:
                best = w
        elif w > last >= best:
            best = w
    return best


@njit(cache=True, nogil=True)
def enter_block(slot, block, begin, source, per_block, stream, warps):
    """The warps of a block take a slot's places; returns how many have anything to do."""
    first = stream.block_start[source]
    here = stream.block_start[source + 1] - first
    count = 0
    for k in range(per_block):
        w = slot * per_block + k
        warps.ready[w] = NEVER
        warps.state[w] = DATA
        if k >= here > 1:
            continue  # a block that lacks warps; but one alone stands for all
        origin = first + min(k, here - 1)
        warps.first[w] = stream.event_start[origin]
        warps.end[w] = stream.event_start[origin + 1]
        if warps.first[w] == warps.end[w]:
            continue
        warps.position[w] = warps.first[w]
        warps.age[w] = block * per_block + k
        warps.back[w] = begin
        warps.gap[w] = stream.events[warps.first[w], E_GAP]
        warps.ready[w] = begin
        count += 1
    return count


@njit(cache=True, nogil=True)
def solve(stream, machine, waits, busy):
    """Cycles of a launch on one machine; adds up waits of warps by cause and busy cycles of resources."""
    schedulers = max(int(machine[M_SCHEDULERS]), 1)
    per_block = int(machine[M_WARPS_PER_BLOCK])
    greedy = machine[M_GREEDY] == 1.0
    blocks = int(np.ceil(machine[M_BLOCKS] - 1e-9))  # of the SM that has most
    slots = min(int(machine[M_BLOCKS_PER_SM]), blocks)
    followed = max(LEAST_WAVES * slots, MOST_WARPS // per_block)
    skipped = max((blocks - followed) // slots, 0)  # waves in the middle, which are all alike
    block = skipped * slots
    to_run = blocks - block
    ends = np.zeros(to_run)
    finished = 0
    count = slots * per_block
    most_events = 1
    for w in range(len(stream.event_start) - 1):
        most_events = max(most_events, stream.event_start[w + 1] - stream.event_start[w])
    warps = Warps(
        np.full(count, NEVER),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, dtype=np.int64),
        np.zeros(count),
        np.zeros((count, most_events)),
        np.zeros((count, most_events, PARTS)),
    )
    units = stream.units.shape[1]
    core = Core(np.zeros(schedulers), np.zeros(schedulers), np.zeros(units), np.zeros(units), waits, busy)
    memory = new_memory(machine)
    queue = np.zeros(max(int(machine[M_QUEUE]), 1))  # when the last accesses left the memory queue
    accesses = 0
    at_scheduler = np.zeros(schedulers, dtype=np.int64)
    at_port = 0
    last_issued = np.full(schedulers, -1, dtype=np.int64)
    last_port = -1
    alive = np.zeros(slots, dtype=np.int64)
    waiting = np.zeros(slots, dtype=np.int64)
    gathered = np.zeros(slots)  # when the last one reached the barrier
    left_at = np.zeros(slots)  # when the last access of a block is back
    share = np.ones(slots)
    clock = 0.0
    free_slots = slots
    while True:
        if free_slots > 0 and block < blocks:
            for slot in range(slots):
                if alive[slot] > 0 or block >= blocks:
                    continue
                begin = left_at[slot] + machine[M_BLOCK_START]
                begin = max(begin, (block - skipped * slots + 1) * machine[M_BLOCK_LAUNCH])
                source = stream.order[(block - skipped * slots) % len(stream.order)]
                share[slot] = min(max(machine[M_BLOCKS] - block, 0.0), 1.0) * stream.traffic[source]
                alive[slot] = enter_block(slot, block, begin, source, per_block, stream, warps)
                left_at[slot] = begin
                waiting[slot] = 0
                gathered[slot] = 0.0
                block += 1
                if alive[slot] > 0:
                    free_slots -= 1
                else:
                    ends[finished] = begin
                    finished += 1
        w = 0
        for other in range(1, count):
            if warps.ready[other] < warps.ready[w]:
                w = other
        now = warps.ready[w]
        place_at = queue[accesses % len(queue)] if at_port > 0 else NEVER
        enters = at_port > 0 and place_at <= now
        if enters:  # a place in the memory queue goes to one of those that wait for it
            now = max(place_at, clock)
            w = chosen(AT_PORT, 1, 0, last_port, greedy, warps)
            at_port -= 1
            total = memory.split.sum()
            for c in range(PARTS):
                waits[FIRST_PART + c] += (now - warps.since[w]) * memory.split[c] / total
        if now >= NEVER:
            break
        clock = now
        slot = w // per_block
        q = w % schedulers
        e = warps.position[w]
        if warps.state[w] == DATA:
            warps.since[w] = now
            if has_room(w, q, stream, warps, core, machine):
                issue(w, q, now, stream, warps, core, machine, memory.free)
            else:
                warps.state[w] = AT_SCHEDULER
                warps.ready[w] = NEVER
                at_scheduler[q] += 1
            continue
        what = stream.kind[e]
        is_access = LOAD <= what <= ATOMIC
        if not enters:
            core.load[q] = max(core.load[q] - warps.rate[w], 0.0)
        if is_access and not enters and queue[accesses % len(queue)] > now:
            warps.state[w] = AT_PORT
            warps.since[w] = now
            warps.ready[w] = NEVER
            at_port += 1
        else:
            local = e - warps.first[w]
            warps.done[w, local] = now
            if local > 0 and not is_access:
                warps.done[w, local] = max(now, warps.done[w, local - 1])
            if is_access:
                leaves, back = access(
                    now,
                    what,
                    stream.level[e],
                    stream.sets[e],
                    stream.events[e],
                    share[slot],
                    machine,
                    memory,
                    busy,
                    warps.parts[w, local],
                )
                queue[accesses % len(queue)] = leaves
                accesses += 1
                last_port = w
                warps.back[w] = max(warps.back[w], back)
                # What needs a load needs those before it: results are taken in order.
                if local > 0 and (what == STORE or back < warps.done[w, local - 1]):
                    warps.done[w, local] = warps.done[w, local - 1]
                    warps.parts[w, local] = warps.parts[w, local - 1]
                else:
                    warps.done[w, local] = back
            elif what == END:
                warps.back[w] = max(warps.back[w], now + stream.events[e, E_LEFT])
            if what == BARRIER:
                warps.state[w] = AT_BARRIER
                warps.since[w] = now
                warps.ready[w] = NEVER
                waiting[slot] += 1
                gathered[slot] = max(gathered[slot], now)
            else:
                warps.position[w] = e + 1
                if e + 1 < warps.end[w]:
                    go_on(w, now, stream, warps, waits)
                else:
                    warps.ready[w] = NEVER
                    alive[slot] -= 1
                    left_at[slot] = max(left_at[slot], now, warps.back[w])
                    for c in range(PARTS):
                        waits[FIRST_PART + c] += max(warps.back[w] - now, 0.0) * memory.split[c] / memory.split.sum()
            if waiting[slot] > 0 and waiting[slot] == alive[slot]:
                for other in range(slot * per_block, (slot + 1) * per_block):
                    if warps.state[other] != AT_BARRIER:
                        continue
                    at = warps.position[other]
                    opens = gathered[slot] + machine[M_BARRIER] * stream.events[at, E_WEIGHT]
                    waits[C_SYNC] += opens - warps.since[other]
                    warps.position[other] = at + 1
                    warps.state[other] = DATA
                    if at + 1 < warps.end[other]:
                        go_on(other, opens, stream, warps, waits)
                    else:
                        alive[slot] -= 1
                        left_at[slot] = max(left_at[slot], opens, warps.back[other])
                waiting[slot] = 0
                gathered[slot] = 0.0
            if alive[slot] == 0:
                ends[finished] = left_at[slot]
                finished += 1
                free_slots += 1
        # The slots that it leaves go to itself if the scheduler is greedy, then to those that wait.
        if enters:
            continue
        last_issued[q] = w
        if greedy and warps.state[w] == DATA and warps.ready[w] <= now:
            warps.since[w] = now
            if has_room(w, q, stream, warps, core, machine):
                issue(w, q, now, stream, warps, core, machine, memory.free)
        while at_scheduler[q] > 0:
            best = chosen(AT_SCHEDULER, schedulers, q, last_issued[q], greedy, warps)
            if not has_room(best, q, stream, warps, core, machine):
                break
            at_scheduler[q] -= 1
            last_issued[q] = best
            issue(best, q, now, stream, warps, core, machine, memory.free)
    ends.sort()
    cycles = ends[to_run - 1]
    busy[R_UNIT] = core.unit_busy.max()
    if skipped > 0:
        waves = (to_run - slots) // slots
        cycles += skipped * (ends[slots - 1 + waves * slots] - ends[slots - 1]) / waves
        for r in range(RESOURCES):
            busy[r] *= 1.0 + skipped * slots / to_run
    return cycles


@njit(cache=True, nogil=True)
def solve_batch(stream, machines, cycles, waits, busy):
    """`solve` for every row of `machines`."""
    for row in range(len(machines)):
        cycles[row] = solve(stream, machines[row], waits[row], busy[row])
