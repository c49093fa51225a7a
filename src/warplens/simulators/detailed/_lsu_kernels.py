"""The load-store unit of an SM: memory instructions in order, line by line into the pipeline before the L1's tags."""

from __future__ import annotations

import numpy as np

from ...analysis._cache_records import STORE
from ...jit import inlined
from ._load_kernels import finish_load, give_result
from ._pending_kernels import part_done
from ._records import NEVER, SHARED, SIGNAL


@inlined
def send_to_l1(t, sm, head, what, state, config):
    """The next line of an instruction enters the pipeline; returns whether it was the last."""
    core = state.sms[sm]
    entry = state.pipe[sm, (core.pipe_head + core.pipe_count) % config.l1_stages]
    entry.line = head.first
    entry.warp = head.warp
    entry.static = head.static
    entry.load = head.load
    entry.at = t + config.l1_latency
    if what != STORE:
        state.loads[head.load].left += 1
    head.first += 1
    entry.last = head.first == head.last
    core.pipe_count += 1
    core.entered = t
    return entry.last


@inlined
def lsu_stage(t, sm, state, config, table):
    """One line of the instruction at the head into the L1, or one shared access; returns when to look again."""
    core = state.sms[sm]
    if core.lsu_count == 0:
        return NEVER
    if core.lsu_free > t:
        return np.ceil(core.lsu_free)
    head = state.lsu[sm, core.lsu_head]
    what = table.kind[head.static]
    gone = True
    if what == SHARED:
        if core.port_free >= t + 1.0:  # a product reads its operands
            return np.floor(core.port_free)
        core.lsu_free = t + head.first  # banks in conflict hold the port
        core.port_free = max(core.port_free, t) + head.first
        core.product_read = False
        give_result(t + head.first - 1 + config.shared_latency, sm, head.warp, head.static, state, table)
        if table.phase[head.static] == SIGNAL and head.phase >= 0:
            part_done(state.phases[sm, state.warps[sm, head.warp].block, head.phase], t + head.first)
    elif head.first == head.last:  # no lane is active
        if what == STORE:
            state.warps[sm, head.warp].in_flight -= 1
            state.counters[head.static].worst_l1 += 1
        else:
            finish_load(head.load, t + config.l1_latency, sm, state, table)
    elif core.pipe_count < config.l1_stages:
        gone = send_to_l1(t, sm, head, what, state, config)
    else:
        return NEVER  # the L1 goes on first
    if gone:
        core.lsu_head = (core.lsu_head + 1) % config.lsu_entries
        core.lsu_count -= 1
    return t + 1


@inlined
def bulk_stage(t, sm, state, config, table):
    """One line of the oldest bulk copy into the L1, if the load-store unit sends none; returns when to look again."""
    core = state.sms[sm]
    if core.bulk_count == 0:
        return NEVER
    head = state.bulk[sm, core.bulk_head]
    if head.first == head.last:
        finish_load(head.load, t + config.l1_latency, sm, state, table)
    elif core.pipe_count == config.l1_stages:
        return NEVER  # the L1 goes on first
    elif core.entered == t or not send_to_l1(t, sm, head, table.kind[head.static], state, config):
        return t + 1.0
    core.bulk_head = (core.bulk_head + 1) % config.bulk_entries
    core.bulk_count -= 1
    return t + 1.0
