"""Groups of warps enter a core, meet at barriers and leave."""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ._queue_kernels import lay_out_queues, offer_next, open_part
from ._records import NEVER, NOT_YET, ROUND_ROBIN


@inlined
def enter_warp(w, number, graphs, rules, core):
    """A warp takes slot `w`; it may have nothing to issue."""
    clock = core.clock[0]
    warp = core.warps[w]
    graph = graphs.of_warp[number]
    warp.number = number
    warp.first = graphs.start[graph]
    warp.length = graphs.start[graph + 1] - warp.first
    warp.unissued = warp.length
    warp.held_until = 0
    warp.rank = clock.age - NOT_YET if rules.policy == ROUND_ROBIN else clock.age
    clock.age += 1
    for i in range(warp.length):  # slices of arrays would take seconds to compile
        core.known[w, i] = clock.now
        if not rules.in_order:
            core.missing[w, i] = graphs.waits[warp.first + i]
        p = graphs.instructions[warp.first + i].pipeline
        core.queues[p, w].left += 1
        core.pipelines[p].left += 1
    if warp.length == 0:
        return
    if rules.in_order:
        offer_next(w, np.int64(0), clock.now, graphs, core)
    else:
        lay_out_queues(w, core)
        open_part(w, np.int64(0), clock.now, graphs, core)


@inlined
def enter_group(graphs, rules, core):
    """The next group takes the slot of the one that leaves now."""
    clock = core.clock[0]
    slot = 0
    while core.groups[slot].leaves != clock.next_leave:
        slot += 1
    group = core.groups[slot]
    group.alive = rules.group_size
    group.arrived = 0
    group.opens = 0
    group.end = clock.now
    for index in range(rules.group_size):
        w = slot * rules.group_size + index
        enter_warp(w, clock.next_group * rules.group_size + index, graphs, rules, core)
        if core.warps[w].length == 0:
            group.alive -= 1
    group.leaves = clock.now if group.alive == 0 else NEVER
    clock.next_group += 1
    clock.next_leave = NEVER
    for other in range(len(core.groups)):
        clock.next_leave = min(clock.next_leave, core.groups[other].leaves)


@inlined
def pass_barrier(w, opened, group, graphs, rules, core):
    """The barrier that holds a warp opens."""
    warp = core.warps[w]
    warp.held_until = opened
    if warp.barrier_row >= 0:
        core.rows[warp.barrier_row].done = opened
        warp.barrier_row = -1
    if warp.unissued == 0:
        group.alive -= 1
    elif rules.in_order:
        offer_next(w, warp.head + 1, opened, graphs, core)
    else:
        open_part(w, warp.part_end + 1, opened, graphs, core)


@inlined
def open_barrier(slot, graphs, rules, core):
    """All warps of a group that have not ended are at the barrier: it opens."""
    clock = core.clock[0]
    group = core.groups[slot]
    opened = group.opens
    group.arrived = 0
    group.opens = 0
    group.end = max(group.end, opened)
    clock.finish = max(clock.finish, opened)
    for w in range(slot * rules.group_size, (slot + 1) * rules.group_size):
        if core.warps[w].held_until == NEVER:
            pass_barrier(w, opened, group, graphs, rules, core)
    clock.held_until = 0
    for w in range(len(core.warps)):
        clock.held_until = max(clock.held_until, core.warps[w].held_until)


@inlined
def update_group(slot, graphs, rules, core):
    """After an issue: the last warp to arrive opens the barrier, the last to end lets the group leave."""
    clock = core.clock[0]
    group = core.groups[slot]
    if group.arrived > 0 and group.arrived == group.alive:
        open_barrier(slot, graphs, rules, core)
    if group.alive == 0:
        group.leaves = group.end
        clock.next_leave = min(clock.next_leave, group.leaves)
