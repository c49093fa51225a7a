"""What a control instruction does to the group of lanes that executes it.

Each function returns whether the group can simply continue.
"""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ._branch_kernels import reaches, taken_lanes
from ._group_kernels import add_group, add_lane, release, remove_group
from ._program import BRANCH, BREAK_REGION, CALL, ENTER_REGION, EXIT, INDIRECT, JUMP, LEAVE_REGION, RETURN, SILENT
from ._replay_state import AT_REGION_END, NEVER, STACK_DEPTH


@inlined
def act(r, g, here, fired):
    """Execute the control flow of an instruction; `fired` are the lanes in its record."""
    program = r.program
    action = program.action[here]
    silent = program.recorded[here] == SILENT
    conditional = program.conditional[here]
    if action == EXIT:
        return leave_kernel(r, g, here, fired)
    if action == JUMP:
        r.groups[g].place = program.target[here]
        return True
    if action == BRANCH:
        return branch(r, g, here)
    if action == INDIRECT:
        return branch_indirect(r, g, here)
    if action == ENTER_REGION:
        return enter_region(r, g, here)
    if action == LEAVE_REGION and program.region[here] >= 0:
        return leave_region(r, g, here)
    if action == BREAK_REGION and program.region[here] >= 0 and not conditional:
        return break_region(r, g, here)
    if action == CALL and program.target[here] >= 0 and (fired or silent):
        return call(r, g, here, fired)
    if action == RETURN and (fired or not conditional):
        return return_from_call(r, g, here, fired)
    r.groups[g].place = here + 1
    return True


@inlined
def leave_kernel(r, g, here, fired):
    leaving = fired
    if r.program.recorded[here] == SILENT:
        leaving = np.int64(0) if r.program.conditional[here] else r.groups[g].mask
    r.warp.alive &= ~leaving
    r.groups[g].mask &= ~leaving
    r.groups[g].place = here + 1
    if not leaving:
        return True
    gone = r.groups[g].mask == 0
    if gone:
        remove_group(r, g)
    before = r.warp.groups
    release(r)
    return not gone and r.warp.groups == before


@inlined
def branch(r, g, here):
    lanes = r.groups[g].mask
    target = r.program.target[here]
    taken = taken_lanes(r, here, lanes)
    if taken and taken != lanes:
        r.groups[g].mask = lanes & ~taken
        r.groups[g].place = here + 1
        add_group(r, target, taken)
        return False
    r.groups[g].place = target if taken else here + 1
    return True


@inlined
def indirect_target(r, here, upcoming):
    """Where an indirect branch leads a lane: the first target that can reach the lane's next record."""
    program = r.program
    first = program.indirect_start[here]
    end = program.indirect_start[here + 1]
    if upcoming < NEVER:
        bit = program.reach_bit[r.records.place[upcoming]]
        for i in range(first, end):
            if reaches(program.reach, program.indirect_target[i], bit):
                return program.indirect_target[i]
    return program.indirect_target[first] if end > first else here + 1


@inlined
def branch_indirect(r, g, here):
    lanes = r.groups[g].mask
    remove_group(r, g)
    first = r.warp.groups
    for lane in range(32):
        if (lanes >> lane) & 1:
            add_lane(r, lane, indirect_target(r, here, r.lanes.upcoming[lane]), first)
    return False


@inlined
def enter_region(r, g, here):
    lanes = r.groups[g].mask
    for lane in range(32):
        if (lanes >> lane) & 1:
            r.lanes.members[r.program.region[here], lane] = lanes
    r.groups[g].place = here + 1
    return True


@inlined
def leave_region(r, g, here):
    r.groups[g].state = AT_REGION_END
    r.groups[g].wait = r.program.region[here]
    release(r)
    return False


@inlined
def break_region(r, g, here):
    for lane in range(32):
        r.lanes.members[r.program.region[here], lane] &= ~r.groups[g].mask
    r.groups[g].place = here + 1
    before = r.warp.groups
    release(r)
    return r.warp.groups == before


@inlined
def call(r, g, here, fired):
    lanes = r.groups[g].mask
    calling = lanes if r.program.recorded[here] == SILENT else fired
    for lane in range(32):
        if (calling >> lane) & 1:
            r.lanes.stack[lane, r.lanes.depth[lane] % STACK_DEPTH] = here + 1
            r.lanes.depth[lane] += 1
    r.groups[g].place = r.program.target[here]
    if calling == lanes:
        return True
    r.groups[g].mask = calling
    add_group(r, here + 1, lanes & ~calling)
    return False


@inlined
def return_address(r, lane):
    """Where a lane returns to; the end of the code if its call is unknown, which takes it to its next record."""
    if r.lanes.depth[lane] == 0:
        return len(r.program.action)
    r.lanes.depth[lane] -= 1
    return r.lanes.stack[lane, r.lanes.depth[lane] % STACK_DEPTH]


@inlined
def return_from_call(r, g, here, fired):
    lanes = r.groups[g].mask
    returning = lanes if r.program.recorded[here] == SILENT else fired
    remove_group(r, g)
    first = r.warp.groups
    for lane in range(32):
        if (lanes >> lane) & 1:
            place = return_address(r, lane) if (returning >> lane) & 1 else here + 1
            add_lane(r, lane, place, first)
    return False
