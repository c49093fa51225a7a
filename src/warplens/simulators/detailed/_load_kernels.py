"""Results of memory instructions: registers, loads in flight, and what served them."""

from __future__ import annotations

from ...analysis._cache_kernels import count_level
from ...jit import inlined
from ._pending_kernels import part_done
from ._records import COPIES, NO_REGISTER


@inlined
def write_registers(when, registers, s, table):
    """The results of an instruction are there at `when`."""
    for d in range(table.destination_offsets[s], table.destination_offsets[s + 1]):
        if table.destinations[d] < NO_REGISTER:
            registers[table.destinations[d]] = when


@inlined
def give_result(when, sm, w, s, state, table):
    """A memory instruction's registers are there at `when`; a warp that waits looks again what for and how long."""
    write_registers(when, state.registers[sm, w], s, table)
    state.warps[sm, w].waits_for_memory = False
    state.warps[sm, w].in_flight -= 1
    if sm == 0 and len(state.rows) > 0 and state.row_of[w, s] >= 0:  # a recorded issue of the first SM
        state.rows[state.row_of[w, s]].done = when


@inlined
def count_load(load, own, arrivals):
    """What served a load or an atomic: the worst of its requests, and whether others had sent for its data."""
    count_level(own, load.leaves, load.missed)
    if not load.leaves and load.coming > 0.0:
        arrivals.l1 += 1.0
        arrivals.l1_left += load.coming
    elif load.leaves and not load.missed and load.llc_coming > 0.0:
        arrivals.llc += 1.0
        arrivals.llc_left += load.llc_coming


@inlined
def new_load(t, w, s, state):
    """Record of a load or atomic that issues in cycle t."""
    chip = state.chip[0]
    chip.loads_free -= 1
    number = state.load_pool[chip.loads_free]
    load = state.loads[number]
    load.warp = w
    load.static = s
    load.left = 1
    load.ready = t + 1
    load.leaves = False
    load.missed = False
    load.coming = 0.0
    load.llc_coming = 0.0
    load.phase = -1
    load.turn = -1
    return number


@inlined
def finish_load(number, when, sm, state, table):
    """A load or atomic gives its result, and its record back."""
    load = state.loads[number]
    give_result(when, sm, load.warp, load.static, state, table)
    count_load(load, state.counters[load.static], state.arrivals[load.static])
    if load.phase >= 0:
        part_done(state.phases[sm, state.warps[sm, load.warp].block, load.phase], when)
    if load.turn >= 0:
        part_done(state.groups[sm, load.warp, COPIES, load.turn], when)
    chip = state.chip[0]
    state.load_pool[chip.loads_free] = number
    chip.loads_free += 1


@inlined
def part_of_load_back(number, when, sm, state, table):
    """One line of a load is there, or all have gone in; with the last one the load is done."""
    load = state.loads[number]
    load.left -= 1
    load.ready = max(load.ready, when)
    if load.left == 0:
        finish_load(number, load.ready, sm, state, table)
