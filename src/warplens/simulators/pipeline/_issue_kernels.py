"""The scheduler of a core: which warp issues, which instruction, and what can follow."""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ._group_kernels import update_group
from ._queue_kernels import enqueue, next_ready, offer_next, take_ready
from ._records import GREEDY_THEN_OLDEST, LOOSE_ROUND_ROBIN, NEVER, ROUND_ROBIN


@inlined
def can_take(p, core):
    """Whether a pipeline is free and some warp has an instruction for it that is ready."""
    pipeline = core.pipelines[p]
    return max(pipeline.earliest, pipeline.free) <= core.clock[0].now


@inlined
def next_in_turn(core):
    """Loose round robin: the first warp after the last one that can issue."""
    clock = core.clock[0]
    slots = len(core.warps)
    nearest = slots
    chosen = np.int64(-1)
    for p in range(len(core.pipelines)):
        if not can_take(p, core):
            continue
        for step in range(nearest):
            w = clock.last + 1 + step
            if w >= slots:
                w -= slots
            if core.ready[p, w] <= clock.now:
                nearest = step
                chosen = w
                break
    return chosen


@inlined
def least_rank(core):
    """The warp that can issue and comes first by rank."""
    clock = core.clock[0]
    best = NEVER
    chosen = np.int64(-1)
    for p in range(len(core.pipelines)):
        if not can_take(p, core):
            continue
        for w in range(len(core.warps)):
            if core.ready[p, w] <= clock.now and core.warps[w].rank < best:
                best = core.warps[w].rank
                chosen = w
    return chosen


@inlined
def last_can_issue(core):
    """Whether the warp that issued last is still there and can issue again."""
    clock = core.clock[0]
    if core.warps[clock.last].number != clock.last_number:
        return False
    for p in range(len(core.pipelines)):
        if core.pipelines[p].free <= clock.now and core.ready[p, clock.last] <= clock.now:
            return True
    return False


@inlined
def choose_warp(policy, core):
    """The slot of the warp that issues now."""
    if policy == LOOSE_ROUND_ROBIN:
        return next_in_turn(core)
    if policy == GREEDY_THEN_OLDEST and last_can_issue(core):
        return core.clock[0].last
    return least_rank(core)


@inlined
def choose_instruction(w, graphs, rules, core):
    """(the instruction of a warp that issues now, its pipeline)."""
    if rules.in_order:
        head = core.warps[w].head
        return head, graphs.instructions[core.warps[w].first + head].pipeline
    return take_ready(w, core)


@inlined
def record_issue(w, i, p, instruction, core):
    """Keeps an issue as long as there is room."""
    clock = core.clock[0]
    warp = core.warps[w]
    if clock.rows == len(core.rows):
        if instruction.is_barrier != 0:
            warp.barrier_row = -1
        return
    row = core.rows[clock.rows]
    row.warp = warp.number
    row.instruction = i
    row.pipeline = p
    row.start = clock.now
    row.busy_until = clock.now + instruction.interval
    row.done = clock.now + instruction.latency
    if instruction.is_barrier != 0:
        warp.barrier_row = clock.rows
    clock.rows += 1


@inlined
def release_followers(w, i, done, graphs, core, in_order):
    """Tells the instructions that wait for `i` when its result is there."""
    warp = core.warps[w]
    place = warp.first + i
    for edge in range(graphs.feed_start[place], graphs.feed_start[place + 1]):
        follower = graphs.feeds[edge]
        core.known[w, follower] = max(core.known[w, follower], done)
        if in_order:
            continue
        core.missing[w, follower] -= 1
        if core.missing[w, follower] == 0 and follower < warp.part_end:
            enqueue(w, follower, graphs, core)


@inlined
def advance_warp(w, i, is_barrier, done, graphs, rules, core):
    """What a warp does after an issue: it waits at a barrier, ends, or goes on."""
    clock = core.clock[0]
    warp = core.warps[w]
    group = core.groups[w // rules.group_size]
    if is_barrier:
        group.arrived += 1
        group.opens = max(group.opens, done)
        warp.held_until = NEVER
        clock.held_until = NEVER
    elif warp.unissued == 0:
        group.alive -= 1
        group.opens = max(group.opens, clock.now)
    elif rules.in_order:
        offer_next(w, i + 1, np.int64(0), graphs, core)
    else:
        warp.part_left -= 1
        if warp.part_left == 0 and warp.part_end < warp.length:
            enqueue(w, warp.part_end, graphs, core)  # the barrier


@inlined
def issue(graphs, rules, core):
    """Issues the instruction that the policy chooses among those that can start now."""
    clock = core.clock[0]
    now = clock.now
    w = choose_warp(rules.policy, core)
    i, p = choose_instruction(w, graphs, rules, core)
    warp = core.warps[w]
    pipeline = core.pipelines[p]
    slot = w // rules.group_size
    instruction = graphs.instructions[warp.first + i]
    done = now + instruction.latency
    pipeline.free = now + instruction.interval
    pipeline.busy += instruction.interval
    pipeline.left -= 1
    core.queues[p, w].left -= 1
    core.groups[slot].end = max(core.groups[slot].end, done)
    clock.issue_from = now + rules.issue_gap
    clock.finish = max(clock.finish, max(done, pipeline.free))
    clock.issues += 1
    clock.last = w
    clock.last_number = warp.number
    warp.unissued -= 1
    if rules.policy == ROUND_ROBIN:
        warp.rank = clock.issues
    record_issue(w, i, p, instruction, core)
    core.ready[p, w] = NEVER if rules.in_order else next_ready(p, w, core)
    release_followers(w, i, done, graphs, core, rules.in_order)
    advance_warp(w, i, instruction.is_barrier != 0, done, graphs, rules, core)
    update_group(slot, graphs, rules, core)
    earliest = NEVER
    for other in range(len(core.warps)):
        earliest = min(earliest, core.ready[p, other])
    pipeline.earliest = earliest
