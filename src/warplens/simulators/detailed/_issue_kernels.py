"""Block dispatch, schedulers, barriers and exits of an SM."""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ._layout import (
    ATOMIC,
    BARRIER,
    GREEDY_THEN_OLDEST,
    I_ACTIVE_WARPS,
    I_BLOCKS_PER_SM,
    I_COLLECTORS,
    I_ISSUE_COUNT,
    I_ISSUE_PERIOD,
    I_LSU_QUEUE,
    I_POLICY,
    I_SCHEDULERS,
    I_SMS,
    I_WARPS_PER_BLOCK,
    LOAD,
    NEVER,
    NOTHING,
    OLDEST,
    SHARED,
    STORE,
    T_ISSUED,
    T_SLOT_BASE,
    T_SLOT_DEP,
    T_SLOT_IDLE,
    T_SLOT_L1,
    T_SLOT_MEMORY,
    T_SLOT_SYNC,
    T_SLOT_UNIT,
    TWO_LEVEL,
)


@inlined
def dispatch(t, state, integers, stream):
    """Thread blocks to SMs with room, at most one an SM a cycle, from the one after the last that was given one."""
    warps = state.warps
    registers = state.registers
    cores = state.sms
    blocks = state.blocks
    globs = state.glob
    glob = globs[0]
    sms = integers[I_SMS]
    per_block = integers[I_WARPS_PER_BLOCK]
    begin = glob.first_sm
    for turn in range(sms):
        sm = (begin + turn) % sms
        if glob.next_block >= stream.first_block + len(stream.block_start) - 1:
            break
        for b in range(integers[I_BLOCKS_PER_SM]):
            block = blocks[sm, b]
            if block.used:
                continue
            here = glob.next_block - stream.first_block
            first = stream.block_start[here]
            count = stream.block_start[here + 1] - first
            block.used = True
            block.alive = count
            block.waiting = 0
            block.number = glob.next_block
            for k in range(count):
                warp = warps[sm, b * per_block + k]
                warp.resident = True
                warp.finished = stream.start[first + k] == stream.start[first + k + 1]
                warp.at_barrier = False
                warp.waits_for_memory = False
                warp.position = stream.start[first + k]
                warp.end = stream.start[first + k + 1]
                warp.next_event = stream.event_start[first + k]
                warp.next_shared = stream.shared_start[first + k]
                warp.age = glob.dispatched
                warp.block = b
                warp.in_flight = 0
                warp.try_at = t
                registers[sm, b * per_block + k, :] = 0.0
                glob.dispatched += 1
                if warp.finished:
                    block.alive -= 1
            glob.next_block += 1
            glob.first_sm = (sm + 1) % sms
            cores[sm].wake = min(cores[sm].wake, t)
            break


@inlined
def youngest_active(sm, q, state, integers):
    """Age of the youngest warp of a scheduler's active set: its oldest warps that do not wait for memory."""
    warps = state.warps
    limit = integers[I_ACTIVE_WARPS]
    age = -1
    for _ in range(limit):
        best = np.int64(1) << 62
        for w in range(q, warps.shape[1], integers[I_SCHEDULERS]):
            warp = warps[sm, w]
            waits = not warp.resident or warp.finished or warp.at_barrier or warp.waits_for_memory
            if not waits and age < warp.age < best:
                best = warp.age
        if best == np.int64(1) << 62:
            break
        age = best
    return age


@inlined
def why_not(t, sm, warp, registers, s, state, integers, program):
    """0 = the warp can issue its next instruction in cycle t, or the cause that keeps it; sets when to look again."""
    cores = state.sms
    units = state.units
    ready = 0.0
    for d in range(program.source_offsets[s], program.source_offsets[s + 1]):
        if program.sources[d] < 255:
            ready = max(ready, registers[program.sources[d]])
    for d in range(program.destination_offsets[s], program.destination_offsets[s + 1]):
        if program.destinations[d] < 255:
            ready = max(ready, registers[program.destinations[d]])
    if ready >= NEVER:
        warp.waits_for_memory = True
        return T_SLOT_MEMORY
    if ready > t:
        warp.try_at = ready
        return T_SLOT_DEP
    what = program.kind[s]
    if what == NOTHING:
        # Memory instructions hold the collectors, but for the one being served and the next, which has left its own.
        if cores[sm].lsu_count - 2 >= integers[I_COLLECTORS]:
            return T_SLOT_L1
        return T_SLOT_UNIT if units[sm, program.unit[s]] >= t + 1.0 else 0
    if what != BARRIER and cores[sm].lsu_count == integers[I_LSU_QUEUE]:
        return T_SLOT_L1
    return 0


@inlined
def better(w, best, last, warps, policy):
    """Whether warp slot w goes before the best one so far."""
    if policy == GREEDY_THEN_OLDEST:
        return w == last or (best != last and warps[w].age < warps[best].age)
    if policy == OLDEST:
        return warps[w].age < warps[best].age
    return w > last and best <= last  # in turn: the first slot after the last one


@inlined
def note_issue(t, w, s, done, state):
    """Record an issue of the first SM, as long as there is room."""
    globs = state.glob
    rows = state.rows
    glob = globs[0]
    if glob.rows < len(rows):
        row = rows[glob.rows]
        row.age = state.warps[0, w].age
        row.static = s
        row.start = t
        row.done = done
        state.row_of[w, s] = glob.rows
        glob.rows += 1


@inlined
def issue(t, sm, w, state, integers, stream, program):
    """Issue the next instruction of a warp."""
    warps = state.warps
    registers_ = state.registers
    cores = state.sms
    units = state.units
    blocks = state.blocks
    lsu = state.lsu
    loads = state.loads
    load_pool = state.load_pool
    globs = state.glob
    warp = warps[sm, w]
    registers = registers_[sm, w]
    s = stream.static[warp.position]
    what = program.kind[s]
    warp.position += 1
    warp.try_at = t + 1
    if sm == 0:
        note_issue(t, w, s, t + program.latency[s] if what == NOTHING else t + 1, state)
    if what == BARRIER:
        warp.next_event += 1
        warp.at_barrier = True
        blocks[sm, warp.block].waiting += 1
    elif what == NOTHING:
        u = program.unit[s]
        units[sm, u] = max(units[sm, u], t) + program.interval[s]
        for d in range(program.destination_offsets[s], program.destination_offsets[s + 1]):
            if program.destinations[d] < 255:
                registers[program.destinations[d]] = t + program.latency[s]
    else:
        core = cores[sm]
        entry = lsu[sm, (core.lsu_head + core.lsu_count) % integers[I_LSU_QUEUE]]
        core.lsu_count += 1
        entry.warp = w
        entry.static = s
        warp.in_flight += 1
        if what == SHARED:
            entry.first = stream.shared_degree[warp.next_shared]
            warp.next_shared += 1
        else:
            entry.first = stream.line_start[warp.next_event]
            entry.last = stream.line_start[warp.next_event + 1]
            warp.next_event += 1
            own = state.counters[s]
            own.executed += 1
            own.lines += entry.last - entry.first
            own.divergent += entry.last - entry.first > 1
        if what in (LOAD, ATOMIC):
            glob = globs[0]
            glob.loads_free -= 1
            entry.load = load_pool[glob.loads_free]
            load = loads[entry.load]
            load.warp = w
            load.static = s
            load.left = 1
            load.ready = t + 1
            load.leaves = False
            load.missed = False
            load.coming = 0.0
            load.llc_coming = 0.0
        if what != STORE:
            for d in range(program.destination_offsets[s], program.destination_offsets[s + 1]):
                if program.destinations[d] < 255:
                    registers[program.destinations[d]] = NEVER
    if warp.position == warp.end:
        warp.finished = True
        blocks[sm, warp.block].alive -= 1
        if what == BARRIER:  # it has left: the others need not count it among those that wait
            warp.at_barrier = False
            blocks[sm, warp.block].waiting -= 1


@inlined
def precedence(cause):
    """Which cause an empty slot is booked to when warps are held by different ones: the nearest to issuing."""
    if cause == T_SLOT_IDLE:
        return 0
    if cause == T_SLOT_SYNC:
        return 1
    if cause == T_SLOT_DEP:
        return 2
    if cause == T_SLOT_MEMORY:
        return 3
    if cause == T_SLOT_UNIT:
        return 4
    return 5


@inlined
def schedule(t, sm, q, state, integers, stream, program):
    """One scheduler's cycle; returns when to look again. Empty slots are booked to what kept them empty.

    An instruction that takes several cycles to issue (width below one) fills them all.
    """
    warps = state.warps
    registers = state.registers
    cores = state.sms
    schedulers = state.schedulers
    units = state.units
    totals = state.totals
    stalls = state.stalls
    nothing = len(stalls) - 1
    scheduler = schedulers[sm, q]
    if scheduler.issue_at > t:
        scheduler.cause = T_SLOT_BASE
        scheduler.held = nothing
        totals[T_SLOT_BASE] += integers[I_ISSUE_COUNT]
        return np.ceil(scheduler.issue_at)
    again = NEVER
    done = 0
    policy = integers[I_POLICY]
    worst = T_SLOT_IDLE
    held = nothing
    for _ in range(integers[I_ISSUE_COUNT]):
        best = np.int64(-1)  # no literal, for which `issue` would be compiled too
        oldest_age = youngest_active(sm, q, state, integers) if policy == TWO_LEVEL else 0
        for w in range(q, warps.shape[1], integers[I_SCHEDULERS]):
            warp = warps[sm, w]
            if not warp.resident:
                continue
            cause = 0
            if warp.finished:
                if warp.in_flight == 0:
                    continue
                cause = T_SLOT_MEMORY
            elif warp.at_barrier:
                cause = T_SLOT_SYNC
            elif warp.waits_for_memory:
                cause = T_SLOT_MEMORY
            elif policy == TWO_LEVEL and warp.age > oldest_age:
                continue
            elif warp.try_at > t:
                cause = T_SLOT_DEP
                again = min(again, np.ceil(warp.try_at))
            else:
                s = stream.static[warp.position]
                cause = why_not(t, sm, warp, registers[sm, w], s, state, integers, program)
                if cause == T_SLOT_DEP:
                    again = min(again, np.ceil(warp.try_at))
                elif cause == T_SLOT_UNIT:
                    again = min(again, np.floor(units[sm, program.unit[s]]))
                elif cause == T_SLOT_L1 and cores[sm].blocked:  # the load-store unit says when there is room
                    cause = cores[sm].blocked
                elif cause == T_SLOT_MEMORY and policy == TWO_LEVEL:
                    again = min(again, t + 1)  # another warp takes its place in the active set
            if cause == 0:
                if best < 0 or better(w, best, scheduler.last, warps[sm], policy):
                    best = w
            elif precedence(cause) > precedence(worst):
                worst = cause
                held = nothing if warp.finished else np.int64(stream.static[warp.position])
        if best < 0:
            break
        issue(t, sm, best, state, integers, stream, program)
        scheduler.last = best
        done += 1
        again = min(again, t + 1)
    if done > 0:
        scheduler.issue_at = t + integers[I_ISSUE_PERIOD]
        totals[T_ISSUED] += done
        totals[T_SLOT_BASE] += done
    scheduler.cause = worst
    scheduler.held = held
    totals[worst] += integers[I_ISSUE_COUNT] - done
    stalls[held, worst - T_SLOT_BASE] += integers[I_ISSUE_COUNT] - done
    return again


@inlined
def barriers_and_exits(t, sm, state, integers):
    """Let complete groups pass their barrier, and finished blocks leave; returns when to look again."""
    warps = state.warps
    blocks = state.blocks
    globs = state.glob
    again = NEVER
    per_block = integers[I_WARPS_PER_BLOCK]
    for b in range(integers[I_BLOCKS_PER_SM]):
        block = blocks[sm, b]
        if not block.used:
            continue
        first = b * per_block
        if block.waiting > 0 and block.waiting >= block.alive:
            for w in range(first, first + per_block):
                if warps[sm, w].at_barrier:
                    warps[sm, w].at_barrier = False
                    warps[sm, w].try_at = t + 1
            block.waiting = 0
            again = t + 1
        if block.alive == 0:
            left = 0
            for w in range(first, first + per_block):
                if warps[sm, w].resident:
                    left += warps[sm, w].in_flight
            if left == 0:
                for w in range(first, first + per_block):
                    warps[sm, w].resident = False
                block.used = False
                globs[0].finished_blocks += 1
                again = min(again, t + 1)
    return again
