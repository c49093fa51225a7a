"""Replays the warps of a launch on its SASS: from the records of each lane to the instructions of each warp."""

from __future__ import annotations

import numpy as np

from ...jit import inlined, kernel
from ...traces._bit_kernels import bit_count
from ._action_kernels import act
from ._group_kernels import add_group, jump_to_records, next_record, release, remove_group, take_lanes
from ._program import SILENT, SURE
from ._replay_state import AT_RECORD, NEVER, RUNNING


@kernel
def replay(r, first_warp):
    """Replay warps from `first_warp` on while the output has room; returns the first warp that is not done.

    Blocks are done whole or not at all.
    """
    warps = len(r.records.start) - 1
    for w in range(first_warp, warps):
        if w % r.warps_per_block == 0:
            copy_statistics(r.outcomes, r.tallies, r.saved_outcomes, r.saved_tallies)
        begin_warp(r, w)
        while r.warp.alive:
            g = next_group(r)
            if g < 0:
                end_deadlock(r)
            elif not run_group(r, g):
                copy_statistics(r.saved_outcomes, r.saved_tallies, r.outcomes, r.tallies)
                return w // r.warps_per_block * r.warps_per_block
        r.output.instruction_end[w + 1] = r.output.cursor.instruction
        r.output.access_end[w + 1] = r.output.cursor.access
    return warps


@inlined
def copy_statistics(outcomes, tallies, to_outcomes, to_tallies):
    for i in range(len(outcomes.executions)):
        to_outcomes.executions[i] = outcomes.executions[i]
        for case in range(3):
            to_outcomes.cases[i, case] = outcomes.cases[i, case]
    to_tallies.guessed = tallies.guessed
    to_tallies.jumped = tallies.jumped
    to_tallies.lost = tallies.lost
    to_tallies.forced = tallies.forced


@inlined
def begin_warp(r, w):
    """All lanes at the first instruction, in one group."""
    r.warp.alive = r.first_mask[w]
    r.warp.groups = 0
    r.warp.idle = 0
    r.warp.records_end = r.records.start[w + 1]
    for lane in range(32):
        r.lanes.upcoming[lane] = NEVER
        r.lanes.depth[lane] = 0
        if (r.warp.alive >> lane) & 1:
            r.lanes.upcoming[lane] = next_record(lane, r.records.start[w], r.warp.records_end, r.records.mask)
    add_group(r, 0, r.warp.alive)


@inlined
def earliest_record(r, g):
    """The earliest next record of a group's lanes."""
    mask = r.groups[g].mask
    earliest = NEVER + 1
    for lane in range(32):
        if (mask >> lane) & 1:
            earliest = min(earliest, r.lanes.upcoming[lane])
    return earliest


@inlined
def next_group(r):
    """Of the groups that can run, the one with the earliest record; -1 if all wait."""
    found = -1
    earliest = NEVER + 1
    for g in range(r.warp.groups):
        if r.groups[g].state == RUNNING:
            record = earliest_record(r, g)
            if record < earliest:
                earliest = record
                found = g
    return found


@inlined
def end_deadlock(r):
    """All groups wait for lanes that went elsewhere: let one of them continue."""
    r.tallies.forced += 1
    waiting = -1
    earliest = NEVER + 1
    for g in range(r.warp.groups):
        if r.groups[g].state == AT_RECORD and r.groups[g].wait < earliest:
            earliest = r.groups[g].wait
            waiting = g
    if waiting < 0:
        leave_region_together(r)
    else:
        gather_at_record(r, waiting)
    release(r)


@inlined
def leave_region_together(r):
    """All groups wait at ends of regions for lanes that left them: those at one end continue."""
    region = r.groups[0].wait
    together = np.int64(0)
    for g in range(r.warp.groups):
        if r.groups[g].wait == region and r.groups[g].place == r.groups[0].place:
            together |= r.groups[g].mask
    for lane in range(32):
        if (together >> lane) & 1:
            r.lanes.members[region, lane] = together


@inlined
def gather_at_record(r, g):
    """Bring the lanes that a record also has to the group that waits there."""
    record = r.groups[g].wait
    here = r.groups[g].place
    missing = r.records.mask[record] & r.warp.alive & ~r.groups[g].mask
    together = r.groups[g].mask | missing
    r.tallies.jumped += bit_count(missing)
    take_lanes(r, together)
    add_group(r, here, together)
    for lane in range(32):
        if (missing >> lane) & 1:
            r.lanes.upcoming[lane] = record


@inlined
def run_group(r, g):
    """Run a group until it splits, waits or ends; returns False if the output is full."""
    n = len(r.program.action)
    while True:
        here = r.groups[g].place
        if here >= n or r.warp.idle > r.idle_limit:
            # Off the code, or lost in it.
            lanes = r.groups[g].mask
            r.warp.idle = 0
            remove_group(r, g)
            jump_to_records(r, lanes)
            release(r)
            return True
        if not execute_run(r, g):
            return False
        here = r.groups[g].place
        if here >= n:
            continue
        g, fired, record = match_records(r, g, here)
        if g < 0:
            return True
        execute(r, here, r.groups[g].mask, fired, record)
        if not act(r, g, here, fired):
            return True


@inlined
def execute_run(r, g):
    """Execute up to the next instruction that branches or may leave a record; False if the output is full."""
    here = r.groups[g].place
    lanes = r.groups[g].mask
    stop = r.program.run_end[here]
    output = r.output
    at = output.cursor.instruction
    if at + stop - here + 2 > len(output.static) or output.cursor.access + 2 > len(output.access):
        return False
    for place in range(here, stop):
        output.static[at] = place
        output.mask[at] = lanes
        at += 1
    output.cursor.instruction = at
    r.warp.idle += stop - here
    r.groups[g].place = stop
    return True


@inlined
def execute(r, here, lanes, fired, record):
    """One instruction; lanes of an access are those of its record."""
    output = r.output
    at = output.cursor.instruction
    r.warp.idle += 1
    output.static[at] = here
    output.mask[at] = lanes
    if r.program.has_access[here]:
        output.mask[at] = r.records.mask[record] if fired else 0
        output.access[output.cursor.access] = record if fired else -1
        output.cursor.access += 1
    output.cursor.instruction = at + 1


@inlined
def lanes_with_record_here(r, here, lanes):
    """Lanes whose next record is of this instruction, and the earliest of these records."""
    fired = np.int64(0)
    record = NEVER
    for lane in range(32):
        upcoming = r.lanes.upcoming[lane]
        if (lanes >> lane) & 1 and upcoming < NEVER and r.records.place[upcoming] == here:
            fired |= np.int64(1) << lane
            record = min(record, upcoming)
    return fired, record


@inlined
def match_records(r, g, here):
    """Match a group with the next record of its lanes: (group, lanes in the record, record).

    The group is -1 if it cannot continue now: lanes of the record are still elsewhere, or some of its own cannot be
    here.
    """
    recorded = r.program.recorded[here]
    if recorded == SILENT:
        return g, np.int64(0), NEVER
    lanes = r.groups[g].mask
    fired, record = lanes_with_record_here(r, here, lanes)
    off = lanes & ~fired
    if recorded == SURE and off and not r.program.conditional[here]:
        # These lanes cannot be here: their next record is elsewhere.
        r.groups[g].mask &= ~off
        jump_to_records(r, off)
        if r.groups[g].mask == 0:
            remove_group(r, g)
        release(r)
        return -1, fired, record
    if not fired:
        return g, fired, record
    later = fired & ~r.records.mask[record]
    if later:  # the warp was split here
        r.groups[g].mask &= ~later
        add_group(r, here, later)
        fired &= ~later
    if r.records.mask[record] & r.warp.alive & ~r.groups[g].mask:
        g = meet_at_record(r, g, here, record)
        if g < 0:
            return g, fired, record
        fired = r.records.mask[record] & r.warp.alive
    r.warp.idle = 0
    for lane in range(32):
        if (fired >> lane) & 1:
            r.lanes.upcoming[lane] = next_record(lane, record + 1, r.warp.records_end, r.records.mask)
    return g, fired, record


@inlined
def meet_at_record(r, g, here, record):
    """Join the groups that wait at a record; the group waits itself (-1) while lanes of the record are missing."""
    together = r.groups[g].mask
    for other in range(r.warp.groups):
        if r.groups[other].state == AT_RECORD and r.groups[other].wait == record:
            together |= r.groups[other].mask
    if r.records.mask[record] & r.warp.alive & ~together:
        r.groups[g].state = AT_RECORD
        r.groups[g].wait = record
        return -1
    take_lanes(r, together)
    add_group(r, here, together)
    return r.warp.groups - 1
