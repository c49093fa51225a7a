"""Groups of lanes that run together while a warp is replayed, and guesses about branches."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...jit import allocating_kernel
from ...traces._bit_kernels import bit_count

RUNNING, AT_REGION_END, AT_RECORD = 0, 1, 2
#: The next record of a lane that has none.
NEVER = np.int64(1) << 62


@allocating_kernel
def next_record(lane, at, end, masks):
    """The first record from `at` on that has a lane, or NEVER."""
    bit = np.int64(1) << lane
    while at < end:
        if masks[at] & bit:
            return at
        at += 1
    return NEVER


@allocating_kernel
def reaches(reach, place, bit):
    return place < len(reach) and (reach[place, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) != 0


@allocating_kernel
def lowest(mask):
    lane = 0
    while not (mask >> lane) & 1:
        lane += 1
    return lane


@allocating_kernel
def first_lanes(mask, count):
    """The lowest `count` lanes of a mask."""
    taken = np.int64(0)
    while count > 0 and mask:
        low = mask & -mask
        taken |= low
        mask ^= low
        count -= 1
    return taken


@allocating_kernel
def guess(branch, lanes, share, lane_share, statistics):
    """Lanes that take a branch of which the records say nothing: so that shares of none, all and some come out.

    The commonest of the three happens until a rarer one is a whole execution
    behind its share; so a loop of n rounds goes round n - 1 times and leaves.
    """
    best = 0
    for case in range(1, 3):
        if share[branch, case] > share[branch, best]:
            best = case
    chosen = best
    most = 1.0 - 1e-6
    for case in range(3):
        behind = share[branch, case] * statistics[branch, 0] - statistics[branch, 2 + case]
        if case != best and behind >= most:
            chosen = case
            most = behind
    if chosen == 0:
        return np.int64(0)
    if chosen == 1:
        return lanes
    count = bit_count(lanes)
    if count == 1:
        return lanes if share[branch, 1] >= share[branch, 0] else np.int64(0)
    wanted = int(np.floor(lane_share[branch] * count + 0.5))
    return first_lanes(lanes, min(max(wanted, 1), count - 1))


@allocating_kernel
def release(groups, alive, place, mask, state, wait, members):
    """Let groups go on whose region's lanes have all arrived (or are gone); returns the number of groups."""
    g = 0
    while g < groups:
        if state[g] != AT_REGION_END:
            g += 1
            continue
        wanted = members[wait[g], lowest(mask[g])] & alive
        together = np.int64(0)
        for other in range(groups):
            if state[other] == AT_REGION_END and wait[other] == wait[g] and place[other] == place[g]:
                together |= mask[other]
        if wanted & ~together:
            g += 1
            continue
        whole = mask[g]
        other = groups - 1
        while other >= 0:
            if (
                other != g
                and state[other] == AT_REGION_END
                and wait[other] == wait[g]
                and place[other] == place[g]
                and mask[other] & wanted
            ):
                whole |= mask[other]
                groups = remove(other, groups, place, mask, state, wait)
                if g == groups:  # the last one took the place of the removed one
                    g = other
            other -= 1
        mask[g] = whole
        state[g] = RUNNING
        place[g] += 1
        g = 0
    return groups


@allocating_kernel
def remove(g, groups, place, mask, state, wait):
    last = groups - 1
    place[g], mask[g], state[g], wait[g] = place[last], mask[last], state[last], wait[last]
    return last


@allocating_kernel
def take_lanes(lanes, groups, place, mask, state, wait):
    """Remove lanes from whatever groups have them."""
    g = 0
    while g < groups:
        mask[g] &= ~lanes
        if mask[g] == 0:
            groups = remove(g, groups, place, mask, state, wait)
        else:
            g += 1
    return groups


@allocating_kernel
def add_lane(lane, to, first, groups, place, mask, state, wait):
    """Put a lane at a place: into one of the groups from `first` on that is there, else into one of its own."""
    for g in range(first, groups):
        if place[g] == to:
            mask[g] |= np.int64(1) << lane
            return groups
    place[groups], mask[groups], state[groups], wait[groups] = to, np.int64(1) << lane, RUNNING, -1
    return groups + 1
