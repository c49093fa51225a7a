"""The event loop of the Pipeline model (Lemeire et al., §3.2), in whole ticks.

λ holds the pipeline, Λ the dependants; the issue limit is a valve that opens
`gap` ticks after an issue (Fig. 10). Columns of `instructions` are below;
`feeds` lists the positions that wait for an instruction, `waits` how many an
instruction waits for. Both count within a graph.

Numba's cache looks at this file alone: touch it after editing the one it imports.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...jit import inlined, kernel
from ._heap_kernels import by_position, by_time, pop, push

#: Columns of `instructions`.
PIPELINE, INTERVAL, LATENCY, IS_BARRIER, COLUMNS = 0, 1, 2, 3, 4
#: Scheduling policies.
ROUND_ROBIN, LOOSE_ROUND_ROBIN, GREEDY_THEN_OLDEST, OLDEST = 0, 1, 2, 3
#: Why a pipeline is idle.
DEPENDENCE, ISSUE_LIMIT, BARRIER, NO_WORK, CAUSES = 0, 1, 2, 3, 4
#: Columns of a recorded row: warp, instruction, pipeline, start, end of λ, end of Λ.
ROW_COLUMNS = 6
#: Entries of `totals`.
T_TICKS, T_ISSUES, T_ANY_BUSY, T_OVERLAP, TOTALS = 0, 1, 2, 3, 4

NEVER = np.int64(2**62)
#: A warp that has not issued yet comes before all that have.
_NOT_YET = np.int64(2**48)


class Core(NamedTuple):
    """Room for what changes on one core."""

    # Per pipeline and warp slot: when the first instruction there can start, and how many are left.
    ready: Any
    left: Any
    earliest: Any
    left_in_all: Any
    free: Any
    # Per warp slot.
    number: Any
    first: Any
    length: Any
    head: Any
    unissued: Any
    held: Any
    barrier_row: Any
    rank: Any
    known: Any
    # Out of order: dependences not issued yet, the open part between two barriers, and two heaps per pipeline:
    # instructions that become ready at a known time, and those that are ready, in program order.
    missing: Any
    part_end: Any
    part_left: Any
    heap_base: Any
    coming: Any
    coming_count: Any
    waiting: Any
    waiting_count: Any
    # Per group slot.
    alive: Any
    arrived: Any
    release: Any
    group_end: Any
    leaves: Any


def new_core(pipelines: int, groups: int, group_size: int, longest: int, in_order: bool) -> Core:
    """A core without any of its `groups`; no graph has more instructions than `longest`."""
    slots = groups * group_size
    span = 0 if in_order else longest

    def zeros(*shape: int, dtype: Any = np.int64) -> Any:
        return np.zeros(shape, dtype=dtype)

    return Core(
        ready=zeros(pipelines, slots) + NEVER,
        left=zeros(pipelines, slots),
        earliest=zeros(pipelines) + NEVER,
        left_in_all=zeros(pipelines),
        free=zeros(pipelines),
        number=zeros(slots) - 1,
        first=zeros(slots),
        length=zeros(slots),
        head=zeros(slots),
        unissued=zeros(slots),
        held=zeros(slots),
        barrier_row=zeros(slots) - 1,
        rank=zeros(slots),
        known=zeros(slots, longest),
        missing=zeros(slots, span, dtype=np.int32),
        part_end=zeros(slots),
        part_left=zeros(slots),
        heap_base=zeros(pipelines, slots),
        coming=zeros(slots * span, dtype=np.int32),
        coming_count=zeros(pipelines, slots),
        waiting=zeros(slots * span, dtype=np.int32),
        waiting_count=zeros(pipelines, slots),
        alive=zeros(groups),
        arrived=zeros(groups),
        release=zeros(groups),
        group_end=zeros(groups),
        leaves=zeros(groups),  # all are empty
    )


@kernel
def simulate(
    instructions,
    feed_start,
    feeds,
    waits,
    graph_start,
    warp_graph,
    group_size,
    gap,
    policy,
    in_order,
    core,
    busy,
    idle,
    totals,
    rows,
):
    """Runs all groups on one core; fills `busy`, `idle` and `totals`, and `rows` as far as it has room.

    `warp_graph` gives the graph of every warp, group by group of `group_size`
    warps; those of a new `core` are resident. Returns the number of rows filled.
    """
    ready, left, earliest, left_in_all, free = core.ready, core.left, core.earliest, core.left_in_all, core.free
    number, first, length, head, unissued = core.number, core.first, core.length, core.head, core.unissued
    held, barrier_row, rank, known, missing = core.held, core.barrier_row, core.rank, core.known, core.missing
    part_end, part_left, heap_base = core.part_end, core.part_left, core.heap_base
    coming, coming_count, waiting, waiting_count = core.coming, core.coming_count, core.waiting, core.waiting_count
    alive, arrived, release, group_end, leaves = core.alive, core.arrived, core.release, core.group_end, core.leaves
    groups = len(warp_graph) // group_size
    pipelines, slots = ready.shape
    resident = len(alive)
    span = missing.shape[1]
    now = np.int64(0)
    valve = np.int64(0)
    finish = np.int64(0)
    next_leave = np.int64(0)
    next_group = 0
    age = np.int64(0)
    turn = np.int64(0)
    last = slots - 1
    last_number = -1
    held_until = np.int64(0)  # no barrier holds any warp from then on
    count = 0
    issues = 0
    any_busy = np.int64(0)
    overlap = np.int64(0)

    while True:
        # -- when does something happen next? ------------------------------------------
        start = NEVER
        for p in range(pipelines):
            start = min(start, max(earliest[p], free[p]))
        if start < NEVER:
            start = max(start, valve)
        enters = next_group < groups and next_leave <= start
        when = next_leave if enters else (start if start < NEVER else finish)

        # -- what the pipelines did until then ------------------------------------------
        if when > now:
            largest = now
            second = now
            for p in range(pipelines):
                until = min(free[p], when)
                if until > largest:
                    second = largest
                    largest = until
                elif until > second:
                    second = until
                since = max(now, free[p])
                if since >= when:
                    continue
                if left_in_all[p] == 0:
                    idle[p, NO_WORK] += when - since
                    continue
                could = min(max(earliest[p], since), when)
                idle[p, ISSUE_LIMIT] += when - could
                if held_until > since:
                    hold = NEVER
                    for w in range(slots):
                        if left[p, w] > 0:
                            hold = min(hold, held[w])
                    behind = min(max(hold, since), could)
                    idle[p, BARRIER] += behind - since
                    since = behind
                idle[p, DEPENDENCE] += could - since
            any_busy += largest - now
            overlap += second - now
            now = when

        # -- a group enters the slot of one that has left ---------------------------------
        if enters:
            slot = 0
            while leaves[slot] != next_leave:
                slot += 1
            leaves[slot] = NEVER
            alive[slot] = group_size
            arrived[slot] = 0
            release[slot] = 0
            group_end[slot] = now
            for index in range(group_size):
                w = slot * group_size + index
                number[w] = next_group * group_size + index
                graph = warp_graph[number[w]]
                first[w] = graph_start[graph]
                length[w] = graph_start[graph + 1] - first[w]
                unissued[w] = length[w]
                held[w] = 0
                rank[w] = age - _NOT_YET if policy == ROUND_ROBIN else age
                age += 1
                for i in range(length[w]):  # slices of arrays would take seconds to compile
                    known[w, i] = now
                    if not in_order:
                        missing[w, i] = waits[first[w] + i]
                    p = instructions[first[w] + i, PIPELINE]
                    left[p, w] += 1
                    left_in_all[p] += 1
                if length[w] == 0:
                    alive[slot] -= 1
                elif in_order:
                    head[w] = 0
                    p = instructions[first[w], PIPELINE]
                    ready[p, w] = now
                    earliest[p] = min(earliest[p], now)
                else:
                    base = w * span
                    for p in range(pipelines):
                        heap_base[p, w] = base
                        base += left[p, w]
                    part_end[w] = -1
                    head[w] = 0  # the first instruction of a part that is to be opened
            next_group += 1
            next_leave = NEVER
            if alive[slot] == 0:
                leaves[slot] = now
            for other in range(resident):
                next_leave = min(next_leave, leaves[other])
            if not in_order:
                for w in range(slot * group_size, (slot + 1) * group_size):
                    if length[w] > 0:
                        _open_part(
                            instructions, first[w], length[w], np.int64(0), now, w, missing, known, part_end,
                            part_left, coming, coming_count, heap_base, ready, earliest,
                        )  # fmt: skip
            continue
        if start == NEVER:
            break

        # -- the policy chooses a warp among those that can issue now ------------------------
        w = np.int64(-1)  # a literal has a type of its own: what it is given to would be compiled twice
        if policy == LOOSE_ROUND_ROBIN:
            nearest = slots
            for p in range(pipelines):
                if max(earliest[p], free[p]) <= now:
                    for step in range(nearest):
                        other = last + 1 + step
                        if other >= slots:
                            other -= slots
                        if ready[p, other] <= now:
                            nearest = step
                            w = other
                            break
        else:
            if policy == GREEDY_THEN_OLDEST and number[last] == last_number:
                for p in range(pipelines):
                    if free[p] <= now and ready[p, last] <= now:
                        w = last
            if w < 0:
                best = NEVER
                for p in range(pipelines):
                    if max(earliest[p], free[p]) <= now:
                        for other in range(slots):
                            if ready[p, other] <= now and rank[other] < best:
                                best = rank[other]
                                w = other

        # -- and of that warp the first instruction in program order ---------------------------
        pipe = -1
        item = NEVER
        if in_order:
            item = head[w]
            pipe = instructions[first[w] + item, PIPELINE]
        else:
            for p in range(pipelines):
                if free[p] > now or ready[p, w] > now:
                    continue
                base = heap_base[p, w]
                while coming_count[p, w] > 0 and known[w, coming[base]] <= now:
                    push(waiting, base, waiting_count[p, w], coming[base], by_position, known, w)
                    waiting_count[p, w] += 1
                    pop(coming, base, coming_count[p, w], by_time, known, w)
                    coming_count[p, w] -= 1
                if waiting[base] < item:
                    item = np.int64(waiting[base])
                    pipe = p
            base = heap_base[pipe, w]
            pop(waiting, base, waiting_count[pipe, w], by_position, known, w)
            waiting_count[pipe, w] -= 1

        # -- issue it -----------------------------------------------------------------------
        slot = w // group_size
        place = first[w] + item
        interval = instructions[place, INTERVAL]
        end = now + instructions[place, LATENCY]
        is_barrier = instructions[place, IS_BARRIER] != 0
        free[pipe] = now + interval
        busy[pipe] += interval
        valve = now + gap
        finish = max(finish, max(end, now + interval))
        group_end[slot] = max(group_end[slot], end)
        left[pipe, w] -= 1
        left_in_all[pipe] -= 1
        unissued[w] -= 1
        issues += 1
        turn += 1
        last = w
        last_number = number[w]
        if policy == ROUND_ROBIN:
            rank[w] = turn
        if count < len(rows):
            rows[count, 0] = number[w]
            rows[count, 1] = item
            rows[count, 2] = pipe
            rows[count, 3] = now
            rows[count, 4] = now + interval
            rows[count, 5] = end
            if is_barrier:
                barrier_row[w] = count
            count += 1
        elif is_barrier:
            barrier_row[w] = -1

        # -- what can follow it -----------------------------------------------------------------
        if in_order:
            ready[pipe, w] = NEVER
        else:
            ready[pipe, w] = NEVER
            if waiting_count[pipe, w] > 0:
                ready[pipe, w] = now
            elif coming_count[pipe, w] > 0:
                ready[pipe, w] = known[w, coming[heap_base[pipe, w]]]
        for edge in range(feed_start[place], feed_start[place + 1]):
            follower = feeds[edge]
            if known[w, follower] < end:
                known[w, follower] = end
            if not in_order:
                missing[w, follower] -= 1
                if missing[w, follower] == 0 and follower < part_end[w]:
                    p = instructions[first[w] + follower, PIPELINE]
                    push(coming, heap_base[p, w], coming_count[p, w], follower, by_time, known, w)
                    coming_count[p, w] += 1
                    ready[p, w] = min(ready[p, w], known[w, follower])
                    earliest[p] = min(earliest[p], ready[p, w])
        if is_barrier:
            arrived[slot] += 1
            release[slot] = max(release[slot], end)
            held[w] = NEVER
            held_until = NEVER
        elif unissued[w] == 0:
            alive[slot] -= 1
            release[slot] = max(release[slot], now)
        elif in_order:
            head[w] = item + 1
            p = instructions[place + 1, PIPELINE]
            ready[p, w] = known[w, item + 1]
            earliest[p] = min(earliest[p], ready[p, w])
        else:
            part_left[w] -= 1
            if part_left[w] == 0 and part_end[w] < length[w]:
                barrier = part_end[w]
                p = instructions[first[w] + barrier, PIPELINE]
                push(coming, heap_base[p, w], coming_count[p, w], barrier, by_time, known, w)
                coming_count[p, w] += 1
                ready[p, w] = min(ready[p, w], known[w, barrier])
                earliest[p] = min(earliest[p], ready[p, w])

        # -- the last warp of a group that arrives opens the barrier ------------------------------
        if arrived[slot] > 0 and arrived[slot] == alive[slot]:
            opened = release[slot]
            arrived[slot] = 0
            release[slot] = 0
            group_end[slot] = max(group_end[slot], opened)
            finish = max(finish, opened)
            for other in range(slot * group_size, (slot + 1) * group_size):
                if held[other] != NEVER:
                    continue
                held[other] = opened
                if barrier_row[other] >= 0:
                    rows[barrier_row[other], 5] = opened
                    barrier_row[other] = -1
                if unissued[other] == 0:
                    alive[slot] -= 1
                elif in_order:
                    following = head[other] + 1
                    head[other] = following
                    p = instructions[first[other] + following, PIPELINE]
                    ready[p, other] = max(opened, known[other, following])
                    earliest[p] = min(earliest[p], ready[p, other])
                else:
                    _open_part(
                        instructions, first[other], length[other], part_end[other] + 1, opened, other, missing,
                        known, part_end, part_left, coming, coming_count, heap_base, ready, earliest,
                    )  # fmt: skip
            held_until = np.int64(0)
            for other in range(slots):
                held_until = max(held_until, held[other])
        if alive[slot] == 0:
            leaves[slot] = group_end[slot]
            next_leave = min(next_leave, leaves[slot])
        soonest = NEVER
        for other in range(slots):
            soonest = min(soonest, ready[pipe, other])
        earliest[pipe] = soonest

    totals[T_TICKS] = now
    totals[T_ISSUES] = issues
    totals[T_ANY_BUSY] = any_busy
    totals[T_OVERLAP] = overlap
    return count


@inlined
def _open_part(
    instructions, start, length, begin, when, w, missing, times, part_end, part_left,
    coming, coming_count, heap_base, ready, earliest,
):  # fmt: skip
    """Out of order: makes the instructions up to the next barrier known to the scheduler, none before `when`."""
    end = begin
    while end < length and instructions[start + end, IS_BARRIER] == 0:
        end += 1
    part_end[w] = end
    part_left[w] = end - begin
    # A barrier follows all instructions before it; with none between two barriers the second is next at once.
    stop = end + 1 if end == begin and end < length else end
    for i in range(begin, stop):
        if times[w, i] < when:
            times[w, i] = when
        if missing[w, i] == 0:
            p = instructions[start + i, PIPELINE]
            push(coming, heap_base[p, w], coming_count[p, w], i, by_time, times, w)
            coming_count[p, w] += 1
            if times[w, i] < ready[p, w]:
                ready[p, w] = times[w, i]
            if times[w, i] < earliest[p]:
                earliest[p] = times[w, i]
