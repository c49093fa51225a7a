"""Products of warpgroups in the background: they wait for tensor cores in order, and read shared memory.

Each scheduler has a tensor core, which computes its warps' parts of a product. The time of a class is that of the
whole SM: one tensor core takes as many times longer as there are.
"""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ._pending_kernels import current_turn, part_done
from ._records import NEVER, PRODUCTS, SHARED


@inlined
def issue_product(sm, w, s, state, config, table):
    """A product lines up; its warp goes on."""
    q = w % config.schedulers
    unit = state.tensor_cores[sm, q]
    entry = state.products[sm, q, (unit.head + unit.count) % state.products.shape[2]]
    unit.count += 1
    state.sms[sm].products += 1
    entry.warp = w
    entry.static = s
    entry.turn = current_turn(sm, w, s, state, table)
    state.groups[sm, w, PRODUCTS, entry.turn].left += 1
    state.warps[sm, w].in_flight += 1


@inlined
def start_product(t, sm, q, entry, state, config, table):
    """A tensor core takes a product. When it is done is known from now on."""
    s, w = entry.static, entry.warp
    core, unit, u = state.sms[sm], state.tensor_cores[sm, q], table.unit[s]
    unit.free = max(unit.free, t) + table.interval[s] * config.schedulers
    state.units[sm, u] = max(state.units[sm, u], t) + table.interval[s]
    if table.reads[s] > 0.0:
        core.port_free = max(core.port_free, t) + table.reads[s]
        core.product_read = True
    done = t + table.latency[s]
    state.registers[sm, w, table.accumulator[s]] = done
    part_done(state.groups[sm, w, PRODUCTS, entry.turn], done)
    state.warps[sm, w].in_flight -= 1
    if sm == 0 and len(state.rows) > 0 and state.row_of[w, s] >= 0:
        state.rows[state.row_of[w, s]].done = done


@inlined
def free_at(t, sm, q, entry, state, table):
    """When a product can start: its sums are there, its tensor core is free, and so is the port.

    Products and other accesses take turns at the port.
    """
    core, s = state.sms[sm], entry.static
    sums = state.registers[sm, entry.warp, table.accumulator[s]]
    free = max(np.floor(state.tensor_cores[sm, q].free), np.ceil(sums))
    if table.reads[s] > 0.0:
        free = max(free, np.floor(core.port_free))
        if core.product_read and core.lsu_count > 0 and table.kind[state.lsu[sm, core.lsu_head].static] == SHARED:
            free = max(free, t + 1.0)
    return free


@inlined
def product_stage(t, sm, state, config, table):
    """The oldest product of each tensor core starts if it can; returns when to look again."""
    core = state.sms[sm]
    if core.products == 0:
        return NEVER
    again = NEVER
    for q in range(config.schedulers):
        unit = state.tensor_cores[sm, q]
        if unit.count == 0:
            continue
        entry = state.products[sm, q, unit.head]
        free = free_at(t, sm, q, entry, state, table)
        if free <= t:
            start_product(t, sm, q, entry, state, config, table)
            unit.head = (unit.head + 1) % state.products.shape[2]
            unit.count -= 1
            core.products -= 1
            free = t + 1.0
        again = min(again, free)
    return again
