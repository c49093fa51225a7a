"""Replays the warps of a launch on its SASS: from the records of each lane to the instructions of each warp."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...jit import allocating_kernel
from ...traces._bit_kernels import bit_count
from ._group_kernels import (
    AT_RECORD,
    AT_REGION_END,
    NEVER,
    RUNNING,
    add_lane,
    first_lanes,
    guess,
    next_record,
    reaches,
    release,
    remove,
    take_lanes,
)
from ._program import (
    BRANCH,
    BREAK_REGION,
    CALL,
    ENTER_REGION,
    EXIT,
    INDIRECT,
    JUMP,
    LEAVE_REGION,
    RETURN,
    SILENT,
    SURE,
)

#: Places in `tallies`.
GUESSED, JUMPED, LOST, FORCED = range(4)
_DEPTH = 16


@allocating_kernel
def jump(lanes, upcoming, record_place, alive, tallies, groups, place, mask, state, wait):
    """Take lanes that are off their path to their next records, or out; (number of groups, lanes that are left)."""
    first = groups
    for lane in range(32):
        if (lanes >> lane) & 1:
            if upcoming[lane] >= NEVER:
                alive &= ~(np.int64(1) << lane)
                tallies[LOST] += 1
            else:
                tallies[JUMPED] += 1
                groups = add_lane(lane, record_place[upcoming[lane]], first, groups, place, mask, state, wait)
    return groups, alive


@allocating_kernel
def replay(
    program, share, lane_share, statistics, start, record_place, record_mask, first_mask, first_warp, warps,
    idle_limit, room, out_static, out_mask, out_access, ends, tallies
):  # fmt: skip
    """Replay warps from `first_warp` on while the outputs have room; returns the first warp that is not done.

    Blocks of `warps` warps are done whole or not at all. A warp that executes
    `idle_limit` instructions without a record is taken to its next one.

    `start` gives the records of each warp, `record_place` their instruction,
    `record_mask` their lanes. `share` and `lane_share` say how branches go that
    records leave open; `statistics` says how all went (executions, those left
    open, and how often none, all or some lanes took it). `ends[w + 1]` becomes where a warp's instructions and
    accesses end; `out_access` has the record of each access, -1 without lanes.
    """
    n = len(program.action)
    upcoming = np.empty(32, dtype=np.int64)
    depth = np.zeros(32, dtype=np.int64)
    stack = np.zeros((32, _DEPTH), dtype=np.int64)
    members = np.zeros((program.regions[0] + 1, 32), dtype=np.int64)
    place = np.zeros(64, dtype=np.int64)
    mask = np.zeros(64, dtype=np.int64)
    state = np.zeros(64, dtype=np.int64)
    wait = np.zeros(64, dtype=np.int64)
    at = ends[first_warp, 0]
    access = ends[first_warp, 1]
    saved_statistics = statistics.copy()
    saved_tallies = tallies.copy()
    for w in range(first_warp, len(start) - 1):
        if w % warps == 0:
            saved_statistics[:] = statistics
            saved_tallies[:] = tallies
        end = start[w + 1]
        alive = first_mask[w]
        for lane in range(32):
            upcoming[lane] = NEVER
            depth[lane] = 0
            if (alive >> lane) & 1:
                upcoming[lane] = next_record(lane, start[w], end, record_mask)
        groups = 1
        place[0], mask[0], state[0], wait[0] = 0, alive, RUNNING, -1
        idle = 0
        while alive:
            # Of the groups that can run, the one with the earliest record goes first.
            g = -1
            earliest = NEVER + 1
            for each in range(groups):
                if state[each] == RUNNING:
                    for lane in range(32):
                        if (mask[each] >> lane) & 1 and upcoming[lane] < earliest:
                            earliest = upcoming[lane]
                            g = each
            if g < 0:
                tallies[FORCED] += 1
                earliest = NEVER + 1
                for each in range(groups):
                    if state[each] == AT_RECORD and wait[each] < earliest:
                        earliest = wait[each]
                        g = each
                if g < 0:
                    # All wait at ends of regions, for lanes that left theirs: those who are together go on.
                    together = np.int64(0)
                    for each in range(groups):
                        if wait[each] == wait[0] and place[each] == place[0]:
                            together |= mask[each]
                    for lane in range(32):
                        if (together >> lane) & 1:
                            members[wait[0], lane] = together
                    groups = release(groups, alive, place, mask, state, wait, members)
                    continue
                record = wait[g]
                here = place[g]
                missing = record_mask[record] & alive & ~mask[g]
                kept = mask[g] | missing
                tallies[JUMPED] += bit_count(missing)
                groups = take_lanes(kept, groups, place, mask, state, wait)
                place[groups], mask[groups], state[groups], wait[groups] = here, kept, RUNNING, -1
                groups += 1
                for lane in range(32):
                    if (missing >> lane) & 1:
                        upcoming[lane] = record
                groups = release(groups, alive, place, mask, state, wait, members)
                continue
            while True:
                here = place[g]
                lanes = mask[g]
                if here >= n or idle > idle_limit:
                    # Off the code, or lost in it: to the next record, or nowhere.
                    idle = 0
                    groups = remove(g, groups, place, mask, state, wait)
                    groups, alive = jump(
                        lanes, upcoming, record_place, alive, tallies, groups, place, mask, state, wait
                    )
                    groups = release(groups, alive, place, mask, state, wait, members)
                    break
                stop = program.run_end[here]
                if at + stop - here + 2 > room or access + 2 > len(out_access):
                    statistics[:] = saved_statistics
                    tallies[:] = saved_tallies
                    return w // warps * warps
                while here < stop:
                    out_static[at] = here
                    out_mask[at] = lanes
                    at += 1
                    here += 1
                    idle += 1
                place[g] = here
                if here >= n:
                    continue
                action = program.action[here]
                fired = np.int64(0)
                record = NEVER
                recorded = program.recorded[here]
                if recorded != SILENT:
                    for lane in range(32):
                        following = upcoming[lane]
                        if (lanes >> lane) & 1 and following < NEVER and record_place[following] == here:
                            fired |= np.int64(1) << lane
                            record = min(record, following)
                    off = lanes & ~fired
                    if recorded == SURE and off and not program.conditional[here]:
                        # These lanes cannot be here: their next record is elsewhere.
                        mask[g] &= ~off
                        groups, alive = jump(
                            off, upcoming, record_place, alive, tallies, groups, place, mask, state, wait
                        )
                        if mask[g] == 0:
                            groups = remove(g, groups, place, mask, state, wait)
                        groups = release(groups, alive, place, mask, state, wait, members)
                        break
                    if fired:
                        later = fired & ~record_mask[record]
                        if later:  # the warp was split here
                            mask[g] &= ~later
                            place[groups], mask[groups], state[groups], wait[groups] = here, later, RUNNING, -1
                            groups += 1
                            fired &= ~later
                        missing = record_mask[record] & alive & ~mask[g]
                        if missing:
                            for other in range(groups):
                                if state[other] == AT_RECORD and wait[other] == record:
                                    missing &= ~mask[other]
                            if missing:
                                state[g] = AT_RECORD
                                wait[g] = record
                                break
                            together = mask[g]
                            for other in range(groups):
                                if state[other] == AT_RECORD and wait[other] == record:
                                    together |= mask[other]
                            groups = take_lanes(together, groups, place, mask, state, wait)
                            g = groups
                            place[g], mask[g], state[g], wait[g] = here, together, RUNNING, -1
                            groups += 1
                            fired = record_mask[record] & alive
                        lanes = mask[g]
                        idle = 0
                        for lane in range(32):
                            if (fired >> lane) & 1:
                                upcoming[lane] = next_record(lane, record + 1, end, record_mask)
                idle += 1
                out_static[at] = here
                out_mask[at] = lanes
                if program.has_access[here]:
                    out_mask[at] = record_mask[record] if fired else 0
                    out_access[access] = record if fired else -1
                    access += 1
                at += 1

                if action == EXIT:
                    leaving = fired if recorded != SILENT else (np.int64(0) if program.conditional[here] else lanes)
                    alive &= ~leaving
                    mask[g] &= ~leaving
                    place[g] = here + 1
                    if leaving:
                        gone = mask[g] == 0
                        if gone:
                            groups = remove(g, groups, place, mask, state, wait)
                        before = groups
                        groups = release(groups, alive, place, mask, state, wait, members)
                        if gone or groups != before:
                            break
                elif action == JUMP:
                    place[g] = program.target[here]
                elif action == BRANCH:
                    target = program.target[here]
                    taken = np.int64(0)
                    fallen = np.int64(0)
                    earliest = NEVER
                    for lane in range(32):
                        if (lanes >> lane) & 1:
                            earliest = min(earliest, upcoming[lane])
                    for lane in range(32):
                        if (lanes >> lane) & 1 and upcoming[lane] < NEVER:
                            bit = program.reach_bit[record_place[upcoming[lane]]]
                            to_target = reaches(program.reach, target, bit)
                            known = to_target != reaches(program.reach, here + 1, bit)
                            if not known:
                                # Both ways lead there: now on one of them, or in a later round of a loop.
                                to_target = reaches(program.ahead, target, bit)
                                known = to_target != reaches(program.ahead, here + 1, bit)
                                same = record_place[upcoming[lane]] == record_place[earliest]
                                if known and same and upcoming[lane] != earliest:
                                    to_target = not to_target  # those who go there now are others
                            if known:
                                if to_target:
                                    taken |= np.int64(1) << lane
                                else:
                                    fallen |= np.int64(1) << lane
                    statistics[here, 0] += 1
                    open_lanes = lanes & ~(taken | fallen)
                    if open_lanes:
                        if taken or fallen:
                            # Some lanes are known to go one way: the others go along, unless counts say otherwise.
                            with_them = 3 if taken else 2
                            split = share[here, 2] * statistics[here, 0] - statistics[here, 4]
                            whole = share[here, with_them - 2] * statistics[here, 0] - statistics[here, with_them]
                            if (taken and fallen) or split > whole:
                                wanted = int(np.floor(lane_share[here] * bit_count(lanes) + 0.5)) - bit_count(taken)
                                if not taken:
                                    wanted = max(wanted, 1)
                                if not fallen:
                                    wanted = min(wanted, bit_count(open_lanes) - 1)
                                chosen = first_lanes(open_lanes, wanted)
                                taken |= chosen
                                fallen |= open_lanes & ~chosen
                            elif taken:
                                taken |= open_lanes
                            else:
                                fallen |= open_lanes
                        else:
                            tallies[GUESSED] += 1
                            statistics[here, 1] += 1
                            chosen = guess(here, open_lanes, share, lane_share, statistics)
                            taken |= chosen
                            fallen |= open_lanes & ~chosen
                    statistics[here, 4 if taken and fallen else 3 if taken else 2] += 1
                    if taken and fallen:
                        mask[g] = fallen
                        place[g] = here + 1
                        place[groups], mask[groups], state[groups], wait[groups] = target, taken, RUNNING, -1
                        groups += 1
                        break
                    place[g] = target if taken else here + 1
                elif action == INDIRECT:
                    groups = remove(g, groups, place, mask, state, wait)
                    first = groups
                    low = program.indirect_start[here]
                    high = program.indirect_start[here + 1]
                    for lane in range(32):
                        if (lanes >> lane) & 1:
                            to = program.indirect_target[low] if high > low else here + 1
                            if upcoming[lane] < NEVER:
                                bit = program.reach_bit[record_place[upcoming[lane]]]
                                for each in range(low, high):
                                    if reaches(program.reach, program.indirect_target[each], bit):
                                        to = program.indirect_target[each]
                                        break
                            groups = add_lane(lane, to, first, groups, place, mask, state, wait)
                    break
                elif action == ENTER_REGION:
                    for lane in range(32):
                        if (lanes >> lane) & 1:
                            members[program.region[here], lane] = lanes
                    place[g] = here + 1
                elif action == LEAVE_REGION and program.region[here] >= 0:
                    state[g] = AT_REGION_END
                    wait[g] = program.region[here]
                    groups = release(groups, alive, place, mask, state, wait, members)
                    break
                elif action == BREAK_REGION and program.region[here] >= 0 and not program.conditional[here]:
                    for lane in range(32):
                        members[program.region[here], lane] &= ~lanes
                    place[g] = here + 1
                    before = groups
                    groups = release(groups, alive, place, mask, state, wait, members)
                    if groups != before:
                        break
                elif action == CALL and program.target[here] >= 0 and (fired or recorded == SILENT):
                    calling = fired if recorded != SILENT else lanes
                    for lane in range(32):
                        if (calling >> lane) & 1:
                            stack[lane, depth[lane] % _DEPTH] = here + 1
                            depth[lane] += 1
                    place[g] = program.target[here]
                    if calling != lanes:
                        mask[g] = calling
                        place[groups], mask[groups], state[groups], wait[groups] = (
                            here + 1, lanes & ~calling, RUNNING, -1
                        )  # fmt: skip
                        groups += 1
                        break
                elif action == RETURN and (fired or not program.conditional[here]):
                    returning = fired if recorded != SILENT else lanes
                    groups = remove(g, groups, place, mask, state, wait)
                    first = groups
                    for lane in range(32):
                        if (lanes >> lane) & 1:
                            to = here + 1
                            if (returning >> lane) & 1:
                                to = n  # from a call that is not known: on to the next record
                                if depth[lane] > 0:
                                    depth[lane] -= 1
                                    to = stack[lane, depth[lane] % _DEPTH]
                            groups = add_lane(lane, to, first, groups, place, mask, state, wait)
                    break
                else:
                    place[g] = here + 1
        ends[w + 1, 0] = at
        ends[w + 1, 1] = access
    return len(start) - 1
