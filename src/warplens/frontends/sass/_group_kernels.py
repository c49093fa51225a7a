"""Groups of lanes that run together while a warp is replayed."""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ._replay_state import AT_REGION_END, NEVER, RUNNING


@inlined
def next_record(lane, at, end, masks):
    """The first record of a lane from `at` on, or NEVER."""
    bit = np.int64(1) << lane
    while at < end:
        if masks[at] & bit:
            return at
        at += 1
    return NEVER


@inlined
def lowest(mask):
    lane = 0
    while not (mask >> lane) & 1:
        lane += 1
    return lane


@inlined
def add_group(r, place, mask):
    """Start a group that can run."""
    group = r.groups[r.warp.groups]
    group.place = place
    group.mask = mask
    group.state = RUNNING
    group.wait = -1
    r.warp.groups += 1


@inlined
def remove_group(r, g):
    """The last group takes the place of the removed one."""
    last = r.warp.groups - 1
    r.groups[g] = r.groups[last]
    r.warp.groups = last


@inlined
def take_lanes(r, lanes):
    """Remove lanes from whichever groups have them."""
    g = 0
    while g < r.warp.groups:
        r.groups[g].mask &= ~lanes
        if r.groups[g].mask == 0:
            remove_group(r, g)
        else:
            g += 1


@inlined
def add_lane(r, lane, place, first):
    """Put a lane at a place: into a group from `first` on that is there, else into a new one."""
    for g in range(first, r.warp.groups):
        if r.groups[g].place == place:
            r.groups[g].mask |= np.int64(1) << lane
            return
    add_group(r, place, np.int64(1) << lane)


@inlined
def waits_with(r, g, other):
    """Whether a group waits at the same end of a region as another."""
    return (
        r.groups[other].state == AT_REGION_END
        and r.groups[other].wait == r.groups[g].wait
        and r.groups[other].place == r.groups[g].place
    )


@inlined
def lanes_waiting_with(r, g):
    together = np.int64(0)
    for other in range(r.warp.groups):
        if waits_with(r, g, other):
            together |= r.groups[other].mask
    return together


@inlined
def join(r, g, wanted):
    """Merge the groups that wait with a group into it; returns its place, which may change."""
    other = r.warp.groups - 1
    while other >= 0:
        if other != g and waits_with(r, g, other) and r.groups[other].mask & wanted:
            r.groups[g].mask |= r.groups[other].mask
            remove_group(r, other)
            if g == r.warp.groups:  # it was the last one and took the removed one's place
                g = other
        other -= 1
    return g


@inlined
def release(r):
    """Let groups continue once all lanes of their region have arrived or exited."""
    g = 0
    while g < r.warp.groups:
        if r.groups[g].state != AT_REGION_END:
            g += 1
            continue
        wanted = r.lanes.members[r.groups[g].wait, lowest(r.groups[g].mask)] & r.warp.alive
        if wanted & ~lanes_waiting_with(r, g):
            g += 1
            continue
        g = join(r, g, wanted)
        r.groups[g].state = RUNNING
        r.groups[g].place += 1
        g = 0


@inlined
def jump_to_records(r, lanes):
    """Move lanes that are off their path to their next records; those without one exit."""
    first = r.warp.groups
    for lane in range(32):
        if (lanes >> lane) & 1:
            upcoming = r.lanes.upcoming[lane]
            if upcoming >= NEVER:
                r.warp.alive &= ~(np.int64(1) << lane)
                r.tallies.lost += 1
            else:
                r.tallies.jumped += 1
                add_lane(r, lane, r.records.place[upcoming], first)
