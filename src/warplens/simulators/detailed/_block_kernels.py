"""Thread blocks come to SMs, meet at barriers and leave."""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ._pending_kernels import begin_groups, begin_phases
from ._records import NEVER


@inlined
def start_block(t, sm, b, state, config, window):
    """The next thread block takes a place on an SM."""
    chip = state.chip[0]
    block = state.blocks[sm, b]
    here = chip.next_block - window.first_block
    first = window.block_start[here]
    count = window.block_start[here + 1] - first
    block.used = True
    block.alive = count
    block.waiting = 0
    block.number = chip.next_block
    block.clustered = False
    block.gathered = False
    if config.phased:
        begin_phases(sm, b, here, state, window)
    for k in range(count):
        w = b * config.warps_per_block + k
        warp = state.warps[sm, w]
        warp.resident = True
        warp.finished = window.start[first + k] == window.start[first + k + 1]
        warp.at_barrier = False
        warp.waits_for_memory = False
        warp.position = window.start[first + k]
        warp.end = window.start[first + k + 1]
        warp.next_event = window.event_start[first + k]
        warp.next_shared = window.shared_start[first + k]
        warp.next_step = window.step_start[first + k]
        warp.awaits = -1
        warp.age = chip.dispatched
        warp.block = b
        warp.in_flight = 0
        warp.try_at = t
        state.registers[sm, w, :] = 0.0
        if config.grouped:
            begin_groups(sm, w, state)
        chip.dispatched += 1
        block.alive -= warp.finished
    chip.next_block += 1
    chip.first_sm = (sm + 1) % config.sms
    state.sms[sm].wake = min(state.sms[sm].wake, t)


@inlined
def dispatch(t, state, config, window):
    """Thread blocks to SMs with room, at most one an SM a cycle, from the one after the last that was given one."""
    chip = state.chip[0]
    loaded = window.first_block + len(window.block_start) - 1
    begin = chip.first_sm
    for turn in range(config.sms):
        sm = (begin + turn) % config.sms
        if chip.next_block >= loaded:
            break
        for b in range(config.blocks_per_sm):
            if not state.blocks[sm, b].used:
                start_block(t, sm, b, state, config, window)
                break


@inlined
def has_room(state, config):
    """Whether an SM could take another thread block."""
    for sm in range(config.sms):
        for b in range(config.blocks_per_sm):
            if not state.blocks[sm, b].used:
                return True
    return False


@inlined
def open_barrier(t, sm, first, last, state):
    """Warps of a block that wait at the barrier go on in the next cycle."""
    for w in range(first, last):
        warp = state.warps[sm, w]
        if warp.at_barrier:
            warp.at_barrier = False
            warp.try_at = t + 1


@inlined
def count_parked(sm, b, first, last, state):
    """Warps of a block that wait at mbarriers for what has not happened yet."""
    count = 0
    if state.sms[sm].awaiting > 0:
        for w in range(first, last):
            warp = state.warps[sm, w]
            if warp.resident and warp.awaits >= 0 and state.phases[sm, b, warp.awaits].left > 0:
                count += 1
    return count


@inlined
def all_there(sm, b, first, last, state):
    """Whether a barrier at which warps wait has no other to come. Those at mbarriers are not of its warps."""
    block = state.blocks[sm, b]
    return block.waiting > 0 and block.waiting + count_parked(sm, b, first, last, state) >= block.alive


@inlined
def count_in_flight(sm, first, last, state):
    """Memory instructions and stores of a block that are not back."""
    count = 0
    for w in range(first, last):
        if state.warps[sm, w].resident:
            count += state.warps[sm, w].in_flight
    return count


@inlined
def all_gathered(cluster, state, config):
    """Whether all blocks of a cluster that have not left are at its barrier."""
    last = min((cluster + 1) * config.cluster_blocks, config.blocks)
    if state.chip[0].next_block < last:
        return False
    for sm in range(config.sms):
        for b in range(config.blocks_per_sm):
            block = state.blocks[sm, b]
            if block.used and block.number // config.cluster_blocks == cluster and not block.gathered:
                return False
    return True


@inlined
def gather_cluster(t, cluster, state, config):
    """If all blocks of a cluster are at its barrier, it opens for them at the same time."""
    if not all_gathered(cluster, state, config):
        return
    for sm in range(config.sms):
        for b in range(config.blocks_per_sm):
            block = state.blocks[sm, b]
            mine = block.used and block.number // config.cluster_blocks == cluster
            if mine and block.opens >= NEVER:
                block.opens = t + config.cluster_barrier - 1.0
                state.sms[sm].wake = min(state.sms[sm].wake, np.ceil(block.opens))


@inlined
def is_open(t, block, state, config):
    """Whether the barrier opens at which all warps of a block are that have not ended."""
    if not block.clustered:
        return True
    if not block.gathered:
        block.gathered = True
        block.opens = NEVER
        gather_cluster(t, block.number // config.cluster_blocks, state, config)
    if block.opens > t:
        return False
    block.gathered = False
    return True


@inlined
def barriers_and_exits(t, sm, state, config):
    """Let complete groups pass their barrier, and finished blocks leave; returns when to look again."""
    again = NEVER
    for b in range(config.blocks_per_sm):
        block = state.blocks[sm, b]
        if not block.used:
            continue
        first = b * config.warps_per_block
        last = first + config.warps_per_block
        if all_there(sm, b, first, last, state) and is_open(t, block, state, config):
            open_barrier(t, sm, first, last, state)
            block.waiting = 0
            again = t + 1
        if block.alive == 0 and count_in_flight(sm, first, last, state) == 0:
            for w in range(first, last):
                state.warps[sm, w].resident = False
            block.used = False
            if config.cluster_barrier > 0.0:
                gather_cluster(t, block.number // config.cluster_blocks, state, config)
            state.chip[0].finished_blocks += 1
            again = min(again, t + 1)
    if config.cluster_barrier > 0.0:  # a block of this SM may have opened the barrier for another
        for b in range(config.blocks_per_sm):
            block = state.blocks[sm, b]
            if block.used and block.gathered:
                again = min(again, np.ceil(block.opens))
    return again
