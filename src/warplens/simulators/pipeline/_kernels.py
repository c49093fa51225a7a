"""The event loop of the Pipeline model (Lemeire et al., §3.2), in whole ticks.

λ holds the pipeline, Λ the dependants; the issue limit is a valve that opens
`gap` ticks after an issue (Fig. 10). Columns of `instructions` are below;
`feeds` lists the positions that wait for an instruction, `waits` how many an
instruction waits for. Both count within a graph.
"""

from __future__ import annotations

import numpy as np
from numba import njit

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

_jit = njit(cache=True, nogil=True, error_model="numpy")  # a sixth less to compile; nothing divides by zero


# Binary heaps inside flat arrays: `count` items from `base` on, by `times[w, item]` or by position. Callers count.


@_jit
def _push_by_time(heap, base, count, item, times, w):
    place = count
    heap[base + place] = item
    while place > 0:
        above = (place - 1) >> 1
        if times[w, heap[base + above]] <= times[w, item]:
            break
        heap[base + place] = heap[base + above]
        place = above
    heap[base + place] = item


@_jit
def _pop_by_time(heap, base, count, times, w):
    """Removes the first item; `count` is the number before."""
    item = heap[base + count - 1]
    size = count - 1
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and times[w, heap[base + below + 1]] < times[w, heap[base + below]]:
            below += 1
        if times[w, heap[base + below]] >= times[w, item]:
            break
        heap[base + place] = heap[base + below]
        place = below
    heap[base + place] = item


@_jit
def _push_by_position(heap, base, count, item):
    place = count
    while place > 0:
        above = (place - 1) >> 1
        if heap[base + above] <= item:
            break
        heap[base + place] = heap[base + above]
        place = above
    heap[base + place] = item


@_jit
def _pop_by_position(heap, base, count):
    item = heap[base + count - 1]
    size = count - 1
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and heap[base + below + 1] < heap[base + below]:
            below += 1
        if heap[base + below] >= item:
            break
        heap[base + place] = heap[base + below]
        place = below
    heap[base + place] = item


@_jit
def simulate(
    instructions,
    feed_start,
    feeds,
    waits,
    graph_start,
    warp_graph,
    group_size,
    concurrent,
    pipelines,
    gap,
    policy,
    in_order,
    busy,
    idle,
    totals,
    rows,
):
    """Runs all groups on one core; fills `busy`, `idle` and `totals`, and `rows` as far as it has room.

    `warp_graph` gives the graph of every warp, group by group; `concurrent`
    groups of `group_size` warps are resident. Returns the number of rows filled.
    """
    groups = len(warp_graph) // group_size
    resident = min(concurrent, groups)
    slots = resident * group_size
    longest = 0
    for graph in range(len(graph_start) - 1):
        longest = max(longest, graph_start[graph + 1] - graph_start[graph])
    span = longest if not in_order else 0

    # Per pipeline and warp slot: when the first instruction there can start, and how many are left.
    ready = np.full((pipelines, slots), NEVER)
    left = np.zeros((pipelines, slots), dtype=np.int64)
    earliest = np.full(pipelines, NEVER)
    left_in_all = np.zeros(pipelines, dtype=np.int64)
    free = np.zeros(pipelines, dtype=np.int64)
    # Per warp slot.
    number = np.full(slots, -1)
    first = np.zeros(slots, dtype=np.int64)
    length = np.zeros(slots, dtype=np.int64)
    head = np.zeros(slots, dtype=np.int64)
    unissued = np.zeros(slots, dtype=np.int64)
    held = np.zeros(slots, dtype=np.int64)
    barrier_row = np.full(slots, -1)
    rank = np.zeros(slots, dtype=np.int64)
    known = np.zeros((slots, longest), dtype=np.int64)
    # Out of order: dependences not issued yet, the open part between two barriers, and two heaps per pipeline:
    # instructions that become ready at a known time, and those that are ready, in program order.
    missing = np.zeros((slots, span), dtype=np.int32)
    part_end = np.zeros(slots, dtype=np.int64)
    part_left = np.zeros(slots, dtype=np.int64)
    heap_base = np.zeros((pipelines, slots), dtype=np.int64)
    coming = np.zeros(slots * span, dtype=np.int32)
    coming_count = np.zeros((pipelines, slots), dtype=np.int64)
    waiting = np.zeros(slots * span, dtype=np.int32)
    waiting_count = np.zeros((pipelines, slots), dtype=np.int64)
    # Per group slot.
    alive = np.zeros(resident, dtype=np.int64)
    arrived = np.zeros(resident, dtype=np.int64)
    release = np.zeros(resident, dtype=np.int64)
    group_end = np.zeros(resident, dtype=np.int64)
    leaves = np.zeros(resident, dtype=np.int64)  # all slots are empty at first

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
                            instructions, first[w], length[w], 0, now, w, missing, known, part_end, part_left,
                            coming, coming_count, heap_base, ready, earliest,
                        )  # fmt: skip
            continue
        if start == NEVER:
            break

        # -- the policy chooses a warp among those that can issue now ------------------------
        w = -1
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
                    _push_by_position(waiting, base, waiting_count[p, w], coming[base])
                    waiting_count[p, w] += 1
                    _pop_by_time(coming, base, coming_count[p, w], known, w)
                    coming_count[p, w] -= 1
                if waiting[base] < item:
                    item = np.int64(waiting[base])
                    pipe = p
            base = heap_base[pipe, w]
            _pop_by_position(waiting, base, waiting_count[pipe, w])
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
                    _push_by_time(coming, heap_base[p, w], coming_count[p, w], follower, known, w)
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
                _push_by_time(coming, heap_base[p, w], coming_count[p, w], barrier, known, w)
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


@_jit
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
            _push_by_time(coming, heap_base[p, w], coming_count[p, w], i, times, w)
            coming_count[p, w] += 1
            if times[w, i] < ready[p, w]:
                ready[p, w] = times[w, i]
            if times[w, i] < earliest[p]:
                earliest[p] = times[w, i]
