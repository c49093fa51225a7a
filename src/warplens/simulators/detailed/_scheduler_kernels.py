"""Schedulers of an SM: which warp issues, and why slots stay empty."""

from __future__ import annotations

import numpy as np

from ...analysis._cache_records import ATOMIC, BARRIER, LOAD, NOTHING, STORE
from ...jit import inlined
from ._load_kernels import new_load, write_registers
from ._pending_kernels import cause_of_groups, current_turn, mark_group, next_phase
from ._product_kernels import issue_product
from ._records import (
    AT_BARRIER,
    AWAIT,
    BUSY_L1,
    BUSY_UNIT,
    COPIES,
    DEPENDENCE,
    GREEDY_THEN_OLDEST,
    MEMORY,
    NEVER,
    NO_CAUSE,
    NO_GROUP,
    NO_REGISTER,
    NO_WARP,
    OLDEST,
    PRODUCT,
    SHARED,
    TWO_LEVEL,
)

#: The slot is not booked to this warp.
IGNORED = -1


@inlined
def youngest_active(sm, q, state, config):
    """Age of the youngest warp of a scheduler's active set: its oldest warps that do not wait for memory."""
    age = -1
    for _ in range(config.active_warps):
        best = np.int64(1) << 62
        for w in range(q, state.warps.shape[1], config.schedulers):
            warp = state.warps[sm, w]
            waits = not warp.resident or warp.finished or warp.at_barrier or warp.waits_for_memory
            if not waits and warp.awaits < 0 and age < warp.age < best:
                best = warp.age
        if best == np.int64(1) << 62:
            break
        age = best
    return age


@inlined
def cause_of_instruction(t, sm, w, s, state, config, table):
    """What keeps a warp from issuing instruction `s` in cycle t; sets when to look again."""
    warp = state.warps[sm, w]
    core = state.sms[sm]
    registers = state.registers[sm, w]
    ready = 0.0  # when all registers that the instruction reads or writes are there
    for d in range(table.source_offsets[s], table.source_offsets[s + 1]):
        if table.sources[d] < NO_REGISTER:
            ready = max(ready, registers[table.sources[d]])
    for d in range(table.destination_offsets[s], table.destination_offsets[s + 1]):
        if table.destinations[d] < NO_REGISTER:
            ready = max(ready, registers[table.destinations[d]])
    if ready >= NEVER:
        warp.waits_for_memory = True
        return MEMORY
    if ready > t:
        warp.try_at = ready
        return DEPENDENCE
    what = table.kind[s]
    if config.grouped:
        cause = cause_of_groups(t, sm, w, s, state, table)
        if cause != NO_CAUSE:
            warp.waits_for_memory = cause == MEMORY
            return cause
    if what == PRODUCT:
        waiting = state.tensor_cores[sm, w % config.schedulers].count
        return BUSY_UNIT if waiting == state.products.shape[2] else NO_CAUSE
    if what == NOTHING:
        # Memory instructions hold the collectors, but for the one being served and the next, which has left its own.
        if core.lsu_count - 2 >= config.collectors:
            return BUSY_L1
        return BUSY_UNIT if state.units[sm, table.unit[s]] >= t + 1.0 else NO_CAUSE
    if table.bulk[s]:
        return BUSY_L1 if core.bulk_count == config.bulk_entries else NO_CAUSE
    if what != BARRIER and core.lsu_count == config.lsu_entries:
        return BUSY_L1
    return NO_CAUSE


@inlined
def cause_of_warp(t, sm, w, youngest, state, config, window, table):
    """(what keeps a warp from issuing in cycle t, when to look again)."""
    warp = state.warps[sm, w]
    if not warp.resident or (warp.finished and warp.in_flight == 0):
        return IGNORED, NEVER
    if warp.at_barrier:
        return AT_BARRIER, NEVER
    if warp.awaits >= 0:
        phase = state.phases[sm, warp.block, warp.awaits]
        return AT_BARRIER, np.ceil(phase.ready) if phase.left == 0 else NEVER
    if warp.finished or warp.waits_for_memory:
        return MEMORY, NEVER
    if config.policy == TWO_LEVEL and warp.age > youngest:
        return IGNORED, NEVER
    if warp.try_at > t:
        return DEPENDENCE, np.ceil(warp.try_at)
    s = window.static[warp.position]
    cause = cause_of_instruction(t, sm, w, s, state, config, table)
    if cause == DEPENDENCE:
        return cause, np.ceil(warp.try_at)
    if cause == BUSY_UNIT:
        free = np.floor(state.units[sm, table.unit[s]])
        return cause, free if free > t else NEVER  # if it waits for products, they say when they start
    if cause == BUSY_L1 and state.sms[sm].blocked != NO_CAUSE:  # the load-store unit says when there is room
        return state.sms[sm].blocked, NEVER
    if cause == MEMORY and config.policy == TWO_LEVEL:
        return cause, t + 1.0  # another warp takes its place in the active set
    return cause, NEVER


@inlined
def better(w, best, last, warps, policy):
    """Whether warp slot w goes before the best one so far."""
    if best < 0:
        return True
    if policy == GREEDY_THEN_OLDEST:
        return w == last or (best != last and warps[w].age < warps[best].age)
    if policy == OLDEST:
        return warps[w].age < warps[best].age
    return w > last and best <= last  # in turn: the first slot after the last one


@inlined
def nearness(cause):
    """How near a warp with this cause is to issuing."""
    return min(cause, BUSY_L1)


@inlined
def record_issue(t, w, s, done, state):
    """Record an issue of the first SM, as long as there is room."""
    chip = state.chip[0]
    if chip.rows < len(state.rows):
        row = state.rows[chip.rows]
        row.age = state.warps[0, w].age
        row.static = s
        row.start = t
        row.done = done
        state.row_of[w, s] = chip.rows
        chip.rows += 1


@inlined
def issue_memory(t, sm, w, s, what, state, config, window, table):
    """A memory instruction enters the queue of the load-store unit."""
    core = state.sms[sm]
    warp = state.warps[sm, w]
    if table.bulk[s]:
        entry = state.bulk[sm, (core.bulk_head + core.bulk_count) % config.bulk_entries]
        core.bulk_count += 1
    else:
        entry = state.lsu[sm, (core.lsu_head + core.lsu_count) % config.lsu_entries]
        core.lsu_count += 1
    entry.warp = w
    entry.static = s
    entry.phase = next_phase(warp, s, window, table)
    warp.in_flight += 1
    if what == SHARED:
        entry.first = window.shared_degree[warp.next_shared]
        warp.next_shared += 1
    else:
        entry.first = window.line_start[warp.next_event]
        entry.last = window.line_start[warp.next_event + 1]
        warp.next_event += 1
        own = state.counters[s]
        own.executed += 1
        own.lines += entry.last - entry.first
        own.divergent += entry.last - entry.first > 1
    if what in (LOAD, ATOMIC):
        entry.load = new_load(t, w, s, state)
        state.loads[entry.load].phase = entry.phase
        if table.role[s] != NO_GROUP:
            turn = current_turn(sm, w, s, state, table)
            state.loads[entry.load].turn = turn
            state.groups[sm, w, COPIES, turn].left += 1
    if what != STORE:
        write_registers(NEVER, state.registers[sm, w], s, table)
    if table.phase[s] == AWAIT and entry.phase >= 0 and warp.position < warp.end:  # one that leaves need not wait
        warp.awaits = entry.phase
        core.awaiting += 1


@inlined
def issue(t, sm, w, state, config, window, table):
    """Issue the next instruction of a warp."""
    warp = state.warps[sm, w]
    block = state.blocks[sm, warp.block]
    s = window.static[warp.position]
    what = table.kind[s]
    warp.position += 1
    warp.try_at = t + 1
    if sm == 0:
        record_issue(t, w, s, t + table.latency[s] if what == NOTHING else t + 1, state)
    if what == BARRIER:
        warp.next_event += 1
        warp.at_barrier = True
        block.waiting += 1
        block.clustered = table.clustered[s]
    elif what == NOTHING:
        u = table.unit[s]
        state.units[sm, u] = max(state.units[sm, u], t) + table.interval[s]
        write_registers(t + table.latency[s], state.registers[sm, w], s, table)
        if config.grouped:
            mark_group(sm, w, s, state, table)
    elif what == PRODUCT:
        issue_product(sm, w, s, state, config, table)
    else:
        issue_memory(t, sm, w, s, what, state, config, window, table)
    if warp.position == warp.end:
        warp.finished = True
        block.alive -= 1
        if what == BARRIER:  # it has left: the others need not count it among those that wait
            warp.at_barrier = False
            block.waiting -= 1


@inlined
def schedule(t, sm, q, state, config, window, table):
    """One scheduler's cycle; returns when to look again. Empty slots are booked to what kept them empty.

    An instruction that takes several cycles to issue (width below one) fills them all.
    """
    scheduler = state.schedulers[sm, q]
    nothing = len(state.stalls) - 1
    if scheduler.issue_at > t:
        scheduler.cause = NO_CAUSE
        scheduler.held = nothing
        state.slots[NO_CAUSE] += config.issue_count
        return np.ceil(scheduler.issue_at)
    again = NEVER
    issued = 0
    nearest = NO_WARP
    held = nothing
    for _ in range(config.issue_count):
        best = np.int64(-1)  # no literal, for which `issue` would be compiled too
        youngest = youngest_active(sm, q, state, config) if config.policy == TWO_LEVEL else 0
        for w in range(q, state.warps.shape[1], config.schedulers):
            cause, look_again = cause_of_warp(t, sm, w, youngest, state, config, window, table)
            again = min(again, look_again)
            if cause == NO_CAUSE:
                if better(w, best, scheduler.last, state.warps[sm], config.policy):
                    best = w
            elif nearness(cause) > nearness(nearest):
                warp = state.warps[sm, w]
                nearest = cause
                held = nothing if warp.finished else np.int64(window.static[warp.position])
        if best < 0:
            break
        issue(t, sm, best, state, config, window, table)
        scheduler.last = best
        issued += 1
        again = min(again, t + 1)
    if issued > 0:
        scheduler.issue_at = t + config.issue_period
        state.totals[0].issued += issued
        state.slots[NO_CAUSE] += issued
    scheduler.cause = nearest
    scheduler.held = held
    empty = config.issue_count - issued
    state.slots[nearest] += empty
    state.stalls[held, nearest] += empty
    return again
