"""The reference simulator's loop over cycles.

Order of work in a cycle t: memory events that are due, thread blocks to SMs
(the window must hold as many as one cycle can give out, or it moves on first),
and for each SM that can do anything its L1, its load-store unit, its
schedulers, its barriers. Which SM goes first, and so comes first at a port that
several send to, changes every cycle: ports take turns. What is ready at time x can be used in cycle t when
x <= t. Cycles in which no SM can do anything are skipped.

Kernels are compiled without reference counting (they allocate nothing) and
into one another, as records passed between functions would otherwise cost more
than the work on them. Numba's cache looks at this file alone: touch it after
editing one it imports.
"""

from __future__ import annotations

import numpy as np

from ...jit import inlined, kernel
from ._issue_kernels import barriers_and_exits, dispatch, schedule
from ._l1_kernels import filled, l1_stage, lsu_stage
from ._layout import (
    AT_BANK,
    AT_REPLY,
    AT_SM,
    FINISHED,
    I_BLOCKS_PER_SM,
    I_ISSUE_COUNT,
    I_SCHEDULERS,
    I_SMS,
    NEEDS_BLOCKS,
    NEVER,
    STUCK,
    T_CYCLES,
    T_SLOT_BASE,
    T_SLOT_IDLE,
)
from ._memory_kernels import at_bank, at_reply, at_sm, pop


@inlined
def memory_events(t, state, integers, floats, program):
    """All events that are due in cycle t."""
    cores = state.sms
    requests = state.requests
    loads = state.loads
    counters = state.counters
    llc = state.llc
    banks = state.banks
    bank_ring = state.bank_ring
    channels = state.channels
    channel_ring = state.channel_ring
    heap = state.heap
    globs = state.glob
    totals = state.totals
    traffic = state.traffic
    glob = globs[0]
    while glob.events > 0 and heap[0].time <= t:
        now = heap[0].time
        value = heap[0].value
        pop(heap, glob)
        r = value >> 2
        step = value & 3
        request = requests[r]
        if step == AT_BANK:
            at_bank(
                r,
                now,
                request,
                loads[request.load],
                counters[request.static],
                integers,
                floats,
                llc,
                banks,
                bank_ring,
                channels,
                channel_ring,
                heap,
                glob,
                totals,
                traffic,
            )
        elif step == AT_REPLY:
            at_reply(r, now, request, integers, floats, banks, heap, glob, traffic)
        elif step == AT_SM:
            at_sm(r, now, request, cores[request.sm], integers, floats, heap, glob)
        else:
            filled(r, now, state, integers, floats, program)


@kernel
def run(integers, floats, stream, program, state, all_blocks):
    """Run until all blocks are done, the window over the trace must move on, or nothing can happen any more."""
    cores = state.sms
    schedulers = state.schedulers
    blocks = state.blocks
    heap = state.heap
    globs = state.glob
    totals = state.totals
    stalls = state.stalls
    glob = globs[0]
    sms = integers[I_SMS]
    while True:
        t = glob.time
        loaded = stream.first_block + len(stream.block_start) - 1
        if loaded < min(glob.next_block + sms, all_blocks):
            return NEEDS_BLOCKS
        memory_events(t, state, integers, floats, program)
        if glob.next_block < loaded:
            dispatch(t, state, integers, stream)
        wake = NEVER
        for turn in range(sms):
            sm = (np.int64(t) + turn) % sms
            core = cores[sm]
            if core.wake <= t:
                for q in range(integers[I_SCHEDULERS]):  # nothing changed in the cycles that were skipped
                    skipped = (t - core.seen - 1) * integers[I_ISSUE_COUNT]
                    totals[schedulers[sm, q].cause] += skipped
                    stalls[schedulers[sm, q].held, schedulers[sm, q].cause - T_SLOT_BASE] += skipped
                core.seen = t
                again = l1_stage(t, sm, state, integers, floats, stream, program)
                again = min(again, lsu_stage(t, sm, state, integers, floats, program))
                for q in range(integers[I_SCHEDULERS]):
                    again = min(again, schedule(t, sm, q, state, integers, stream, program))
                core.wake = min(again, barriers_and_exits(t, sm, state, integers))
            wake = min(wake, core.wake)
        if glob.finished_blocks == all_blocks:
            totals[T_CYCLES] = t + 1
            for sm in range(sms):
                idle = (t - cores[sm].seen) * integers[I_ISSUE_COUNT]
                totals[T_SLOT_IDLE] += idle * integers[I_SCHEDULERS]
            return FINISHED
        room = False
        if glob.next_block < all_blocks:
            for sm in range(sms):
                for b in range(integers[I_BLOCKS_PER_SM]):
                    room = room or not blocks[sm, b].used
        if room:
            wake = t + 1
        if glob.events > 0:
            wake = min(wake, np.ceil(heap[0].time))
        if wake >= NEVER:
            return STUCK
        glob.time = max(wake, t + 1)
