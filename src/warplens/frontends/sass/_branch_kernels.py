"""Which lanes take a branch: as their next records say, else as counted executions say."""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ...traces._bit_kernels import bit_count
from ._replay_state import ALL_TAKEN, NEVER, NONE_TAKEN, SOME_TAKEN


@inlined
def reaches(reach, place, bit):
    return place < len(reach) and (reach[place, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) != 0


@inlined
def first_lanes(mask, count):
    """The lowest `count` lanes of a mask."""
    taken = np.int64(0)
    while count > 0 and mask:
        low = mask & -mask
        taken |= low
        mask ^= low
        count -= 1
    return taken


@inlined
def way_of_lane(r, here, target, upcoming, earliest):
    """Whether a lane's next record tells which way the lane goes, and whether that is the target."""
    program = r.program
    place = r.records.place[upcoming]
    bit = program.reach_bit[place]
    to_target = reaches(program.reach, target, bit)
    if to_target != reaches(program.reach, here + 1, bit):
        return True, to_target
    # Both ways lead there: one in this iteration of a loop, the other in a later one.
    to_target = reaches(program.ahead, target, bit)
    known = to_target != reaches(program.ahead, here + 1, bit)
    if known and upcoming != earliest and place == r.records.place[earliest]:
        to_target = not to_target  # other lanes go there in this iteration
    return known, to_target


@inlined
def known_ways(r, here, lanes):
    """Lanes that take the branch and lanes that fall through, as far as their next records tell."""
    target = r.program.target[here]
    earliest = NEVER
    for lane in range(32):
        if (lanes >> lane) & 1:
            earliest = min(earliest, r.lanes.upcoming[lane])
    taken = np.int64(0)
    fallen = np.int64(0)
    for lane in range(32):
        upcoming = r.lanes.upcoming[lane]
        if (lanes >> lane) & 1 and upcoming < NEVER:
            known, to_target = way_of_lane(r, here, target, upcoming, earliest)
            if known and to_target:
                taken |= np.int64(1) << lane
            elif known:
                fallen |= np.int64(1) << lane
    return taken, fallen


@inlined
def behind_its_share(r, branch, case):
    """By how many executions a case has happened less often than its share says."""
    return r.shares.cases[branch, case] * r.outcomes.executions[branch] - r.outcomes.cases[branch, case]


@inlined
def guess(r, branch, lanes):
    """Lanes that take a branch about which records say nothing, so that the counted shares come out.

    The most common case happens until a rarer one is a whole execution behind
    its share. So a loop of n iterations branches back n - 1 times and leaves.
    """
    cases = r.shares.cases
    common = NONE_TAKEN
    for case in range(ALL_TAKEN, SOME_TAKEN + 1):
        if cases[branch, case] > cases[branch, common]:
            common = case
    chosen = common
    most = 1.0 - 1e-6
    for case in range(NONE_TAKEN, SOME_TAKEN + 1):
        behind = behind_its_share(r, branch, case)
        if case != common and behind >= most:
            chosen = case
            most = behind
    if chosen == NONE_TAKEN:
        return np.int64(0)
    if chosen == ALL_TAKEN:
        return lanes
    count = bit_count(lanes)
    if count == 1:
        return lanes if cases[branch, ALL_TAKEN] >= cases[branch, NONE_TAKEN] else np.int64(0)
    wanted = int(np.floor(r.shares.lanes[branch] * count + 0.5))
    return first_lanes(lanes, min(max(wanted, 1), count - 1))


@inlined
def follow(r, branch, lanes, open_lanes, taken, fallen):
    """Open lanes that take a branch: all go with the known lanes, unless the counted shares say otherwise."""
    with_them = ALL_TAKEN if taken else NONE_TAKEN
    split = behind_its_share(r, branch, SOME_TAKEN) > behind_its_share(r, branch, with_them)
    if not (split or (taken and fallen)):
        return open_lanes if taken else np.int64(0)
    wanted = int(np.floor(r.shares.lanes[branch] * bit_count(lanes) + 0.5)) - bit_count(taken)
    if not taken:
        wanted = max(wanted, 1)
    if not fallen:
        wanted = min(wanted, bit_count(open_lanes) - 1)
    return first_lanes(open_lanes, wanted)


@inlined
def taken_lanes(r, here, lanes):
    """The lanes that take a branch."""
    taken, fallen = known_ways(r, here, lanes)
    r.outcomes.executions[here] += 1
    open_lanes = lanes & ~(taken | fallen)
    if open_lanes and (taken or fallen):
        taken |= follow(r, here, lanes, open_lanes, taken, fallen)
    elif open_lanes:
        r.tallies.guessed += 1
        taken |= guess(r, here, open_lanes)
    case = NONE_TAKEN if not taken else ALL_TAKEN if taken == lanes else SOME_TAKEN
    r.outcomes.cases[here, case] += 1
    return taken
