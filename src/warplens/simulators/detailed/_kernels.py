"""The detailed simulator's loop over cycles.

Order of work in a cycle t: memory events that are due, thread blocks to SMs
(the window must hold as many as one cycle can give out, or it moves on first),
and for each SM that can do anything its L1, its tensor cores (products in the
background), its load-store unit, its copy engine, its schedulers, its barriers.
Which SM goes first, and so comes first at a port that several send to, changes
every cycle: ports take turns. What is ready at time x can be used in cycle t
when x <= t. Cycles in which no SM can do anything are skipped.
"""

from __future__ import annotations

import numpy as np

from ...analysis._cache_records import LOAD, NOTHING, STORE
from ...jit import inlined, kernel
from ._block_kernels import barriers_and_exits, dispatch, has_room
from ._event_kernels import pop
from ._l1_kernels import acknowledge_write, end_request, fill_l1, l1_stage
from ._lsu_kernels import bulk_stage, lsu_stage
from ._memory_kernels import at_bank, at_reply, at_sm
from ._pending_kernels import open_phases
from ._product_kernels import product_stage
from ._records import (
    AT_BANK,
    AT_REPLY,
    AT_SM,
    FINISHED,
    MEMORY,
    NEEDS_BLOCKS,
    NEVER,
    NO_CAUSE,
    NO_WARP,
    STUCK,
)
from ._scheduler_kernels import schedule


@inlined
def memory_events(t, state, config, table):
    """All events that are due in cycle t."""
    chip = state.chip[0]
    while chip.events > 0 and state.events[0].time <= t:
        now = state.events[0].time
        r = np.int64(state.events[0].request)
        stage = state.events[0].stage
        pop(state.events, chip)
        if stage == AT_BANK:
            at_bank(r, now, state, config)
        elif stage == AT_REPLY:
            at_reply(r, now, state, config)
        elif stage == AT_SM:
            at_sm(r, now, state, config)
        else:
            if state.requests[r].what == LOAD:
                fill_l1(now, state.requests[r], state, config, table)
            else:
                acknowledge_write(now, state.requests[r], state, table)
            end_request(r, now, state)  # not before: a dirty line that the fill evicts needs a request of its own


@inlined
def book_skipped_cycles(t, sm, state, config):
    """Nothing changed in the cycles since an SM was looked at: its slots stayed empty for the same causes."""
    core = state.sms[sm]
    skipped = (t - core.seen - 1) * config.issue_count
    for q in range(config.schedulers):
        scheduler = state.schedulers[sm, q]
        state.slots[scheduler.cause] += skipped
        state.stalls[scheduler.held, scheduler.cause] += skipped
    if core.waits_for == LOAD:
        state.totals[0].load_cycles += t - core.seen
    elif core.waits_for == STORE:
        state.totals[0].store_cycles += t - core.seen - core.issued
    core.seen = t


@inlined
def note_waits(sm, issued, state, config, table):
    """What an SM waits for from now on. Stores hold warps that find no room behind one, or that end after them."""
    core = state.sms[sm]
    core.issued = issued
    core.waits_for = NOTHING
    if core.mshrs_used + core.atomics > 0:
        core.waits_for = LOAD
        return
    behind_store = core.blocked != NO_CAUSE and table.kind[state.pipe[sm, core.pipe_head].static] == STORE
    for q in range(config.schedulers):
        scheduler = state.schedulers[sm, q]
        ends = scheduler.cause == MEMORY and scheduler.held == len(state.stalls) - 1
        if ends or (behind_store and scheduler.cause == core.blocked):
            core.waits_for = STORE


@inlined
def finish(t, state, config):
    """The launch ends with cycle t. SMs that had nothing to do until then were idle."""
    state.totals[0].cycles = t + 1
    for sm in range(config.sms):
        idle = (t - state.sms[sm].seen) * config.issue_count
        state.slots[NO_WARP] += idle * config.schedulers


@kernel
def run(config, window, table, state, all_blocks):
    """Run until all blocks are done, the window over the trace must move on, or nothing can happen any more."""
    chip = state.chip[0]
    while True:
        t = chip.time
        loaded = window.first_block + len(window.block_start) - 1
        if loaded < min(chip.next_block + config.sms, all_blocks):
            return NEEDS_BLOCKS
        memory_events(t, state, config, table)
        if chip.next_block < loaded:
            dispatch(t, state, config, window)
        wake = NEVER
        for turn in range(config.sms):
            sm = (np.int64(t) + turn) % config.sms
            core = state.sms[sm]
            if core.wake <= t:
                book_skipped_cycles(t, sm, state, config)
                again = l1_stage(t, sm, state, config, window, table)
                again = min(again, product_stage(t, sm, state, config, table))
                again = min(again, lsu_stage(t, sm, state, config, table))
                again = min(again, bulk_stage(t, sm, state, config, table))
                if core.awaiting > 0:
                    open_phases(t, sm, state)
                before = state.totals[0].issued
                for q in range(config.schedulers):
                    again = min(again, schedule(t, sm, q, state, config, window, table))
                core.wake = min(again, barriers_and_exits(t, sm, state, config))
                note_waits(sm, state.totals[0].issued > before, state, config, table)
            wake = min(wake, core.wake)
        if chip.finished_blocks == all_blocks:
            finish(t, state, config)
            return FINISHED
        if chip.next_block < all_blocks and has_room(state, config):
            wake = t + 1
        if chip.events > 0:
            wake = min(wake, np.ceil(state.events[0].time))
        if wake >= NEVER:
            return STUCK
        chip.time = max(wake, t + 1)
