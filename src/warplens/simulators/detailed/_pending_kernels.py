"""Work that completes in the background: phases of mbarriers, and groups of copies and products."""

from __future__ import annotations

from ...jit import inlined
from ._records import AWAITS, BUSY_UNIT, COPIES, DEPENDENCE, JOINS, MARKS, MEMORY, NO_CAUSE, NO_PHASE, TURNS


@inlined
def begin_phases(sm, b, here, state, window):
    """A block begins: nothing has arrived at its mbarriers."""
    first = window.phase_start[here]
    for p in range(window.phase_start[here + 1] - first):
        phase = state.phases[sm, b, p]
        phase.left = window.phase_signals[first + p]
        phase.ready = 0.0


@inlined
def begin_groups(sm, w, state):
    """A warp begins: it has no group under way."""
    for kind in range(state.groups.shape[2]):
        state.marks[sm, w, kind] = 0
        for turn in range(TURNS):
            state.groups[sm, w, kind, turn].left = 0
            state.groups[sm, w, kind, turn].ready = 0.0


@inlined
def part_done(pending, when):
    """One of the things that a phase or a group takes has happened."""
    pending.left -= 1
    pending.ready = max(pending.ready, when)


@inlined
def next_phase(warp, s, window, table):
    """The phase that an instruction is for, of those of the warp's steps at mbarriers; -1 if for none."""
    if table.phase[s] == NO_PHASE:
        return -1
    phase = window.step_phase[warp.next_step]
    warp.next_step += 1
    return phase


@inlined
def open_phases(t, sm, state):
    """Warps whose phase is complete leave their mbarriers."""
    core = state.sms[sm]
    for w in range(state.warps.shape[1]):
        warp = state.warps[sm, w]
        if warp.resident and warp.awaits >= 0:
            phase = state.phases[sm, warp.block, warp.awaits]
            if phase.left == 0 and phase.ready <= t:
                warp.awaits = -1
                core.awaiting -= 1


@inlined
def current_turn(sm, w, s, state, table):
    """The turn of the group to which work belongs that a warp starts now."""
    joins = table.role[s] == JOINS
    return (state.marks[sm, w, table.group[s]] - joins) % TURNS


@inlined
def mark_group(sm, w, s, state, table):
    """An instruction that ends a group, or begins one."""
    if table.role[s] == MARKS:
        state.marks[sm, w, table.group[s]] += 1


@inlined
def cause_of_groups(t, sm, w, s, state, table):
    """What a wait for groups waits for: all but the last ones, and but the one that has not ended."""
    if table.role[s] != AWAITS:
        return NO_CAUSE
    kind = table.group[s]
    staying = min(table.staying[s] + 1, TURNS)
    oldest = state.marks[sm, w, kind] - staying + 1
    ready = 0.0
    for k in range(TURNS - staying):
        group = state.groups[sm, w, kind, (oldest + staying + k) % TURNS]
        if group.left > 0:
            return MEMORY if kind == COPIES else BUSY_UNIT
        ready = max(ready, group.ready)
    if ready > t:
        state.warps[sm, w].try_at = ready
        return DEPENDENCE
    return NO_CAUSE
