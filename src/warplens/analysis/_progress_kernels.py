"""Caches in the order of an estimate of when warps reach memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit import helper, inlined, kernel
from ._cache_records import BARRIER, LOAD
from ._heap_kernels import entry_key, heap_fill, heap_push
from ._service_kernels import serve

SM = np.dtype(
    [
        ("head", np.int64),  # of the memory queue, a ring
        ("lined_up", np.int64),
        ("outside", np.int64),  # warps that wait for room in it
        ("last", np.int64),  # warp that entered it last
        ("flown", np.int64),  # misses sent so far
        ("stores", np.int64),  # lines of stores that did not merge
        ("free", np.float64),  # when the next of the queue is served
        ("in_free", np.float64),  # its port to the network, for data that come
        ("out_free", np.float64),  # and for data that go
    ],
    align=True,
)
BANK = np.dtype([("out_free", np.float64), ("in_free", np.float64), ("channel_free", np.float64)])
BLOCK = np.dtype([("sm", np.int64), ("alive", np.int64), ("at_barrier", np.int64)])
WARP = np.dtype(
    [
        ("block", np.int64),
        ("event", np.int64),  # the next one
        ("end", np.int64),
        ("lined_up", np.int64),  # its accesses in the memory queue
        ("since", np.float64),  # when it went on after the event before
        ("latest", np.float64),  # when the data of all loads so far are there
        ("held", np.bool_),  # at a barrier, or not started
        ("waits", np.bool_),  # for the service of an access in the queue
        ("runs", np.int64),  # of instructions that it still has to issue while the memory queue is full
    ],
    align=True,
)
#: A line of stores, its sectors, and until when it waits in its SM for the network.
STORED = np.dtype([("line", np.int64), ("sectors", np.int64), ("until", np.float64)])
COMING = np.dtype([("line", np.int64), ("there", np.float64), ("span", np.float64)])


class Progress(NamedTuple):
    """What changes while the order is estimated."""

    heap: NDArray[np.int64]
    warps: NDArray[Any]
    blocks: NDArray[Any]
    sms: NDArray[Any]
    line_up: NDArray[np.int64]
    outside: NDArray[np.int64]
    flight: NDArray[np.float64]
    stored: NDArray[Any]  # lines of stores of each SM, a ring
    coming: NDArray[Any]
    llc_coming: NDArray[Any]
    asked: NDArray[Any]  # lines under way to the SMs of each neighbourhood
    done: NDArray[np.float64]
    servers: NDArray[Any]  # ports and DRAM channel of each LLC bank; at the end those of a bank that has its share


class Steps(NamedTuple):
    """Events of all warps: the columns of `Events` that the estimate needs."""

    static: NDArray[np.uint32]
    instructions: NDArray[np.int32]
    gap: NDArray[np.float32]
    dependence: NDArray[np.int32]
    tail: NDArray[np.float32]
    runs: NDArray[np.int32]
    line_start: NDArray[np.int64]


@helper
def pick(outside, count, last, greedy, warps):
    """Place of the warp that enters an SM's memory queue next: the last one again, else the oldest; or in turn.

    It is one of those with the fewest runs to issue. All others issue one: that a
    memory instruction leaves frees a collector for it.
    """
    fewest = warps[outside[0]].runs
    for k in range(1, count):
        fewest = min(fewest, warps[outside[k]].runs)
    best = -1
    best_rank = 0
    for k in range(count):
        w = outside[k]
        near = warps[w].runs == fewest
        warps[w].runs = max(warps[w].runs - 1, 0)
        # The last one, or those behind it, come before all others.
        rank = w if (w == last if greedy else w > last) else w + (1 << 40)
        if near and (best < 0 or rank < best_rank):
            best = k
            best_rank = rank
    return best


@helper
def reach_time(warp, first, now, steps, done):
    """When a warp reaches its next event: after the instructions and data in between; negative: not known yet.

    It is not known while what the event needs, or at the end of a warp any access, is still in the memory queue.
    """
    event = warp.event
    if event == warp.end:
        if warp.lined_up > 0:
            return -1.0
        return max(now, done[event - 1]) if event > first else now
    reach = warp.since + steps.gap[event]
    needed = steps.dependence[event]
    if needed >= 0:
        there = done[first + needed]
        if there < 0.0:
            return -1.0
        reach = max(reach, there + steps.tail[event])
    return max(now, reach)


@inlined
def go_on(w, now, size, event_start, steps, state):
    """A warp goes on to its next event, if it is known when; the size of the heap then."""
    warp = state.warps[w]
    when = reach_time(warp, event_start[w], now, steps, state.done)
    warp.waits = when < 0.0
    if when >= 0.0:
        size = heap_push(state.heap, size, entry_key(when, w, len(state.warps), len(state.sms)))
    return size


@inlined
def let_go(first, last, now, size, block_start, event_start, steps, state):
    """Held warps of some blocks go on to their next events; the size of the heap then."""
    for b in range(first, last):
        for w in range(block_start[b], block_start[b + 1]):
            warp = state.warps[w]
            if warp.held:
                warp.held = False
                warp.since = now
                size = go_on(w, now, size, event_start, steps, state)
    return size


@inlined
def line_up(w, number, now, depth, state):
    """A warp's next event enters the memory queue of its SM."""
    warp = state.warps[w]
    sm = state.sms[number]
    place = (sm.head + sm.lined_up) % depth
    state.line_up[number, place, 0] = w
    state.line_up[number, place, 1] = warp.event
    sm.lined_up += 1
    sm.last = w
    warp.event += 1
    warp.lined_up += 1
    warp.since = now


@inlined
def arrive(w, now, kind, steps, timing, config, state):
    """A warp reaches its next event: its end, a barrier, or its SM's memory queue; whether it is in the queue."""
    warp = state.warps[w]
    block = state.blocks[warp.block]
    sm = state.sms[block.sm]
    if warp.event == warp.end:
        block.alive -= 1
    elif kind[steps.static[warp.event]] == BARRIER:
        sm.free = max(now, sm.free) + steps.instructions[warp.event] * timing.issue_interval
        state.done[warp.event] = now
        warp.event += 1
        warp.held = True
        block.at_barrier += 1
    elif sm.lined_up < config.queue:
        line_up(w, block.sm, now, config.queue, state)
        return True
    else:
        state.outside[block.sm, sm.outside] = w
        sm.outside += 1
        warp.runs = steps.runs[warp.event] if config.collects else 0
    return False


@inlined
def leave_queue(number, now, config, state):
    """(warp, event) at the head of an SM's memory queue, and the warp that takes the room or -1."""
    sm = state.sms[number]
    w = state.line_up[number, sm.head, 0]
    event = state.line_up[number, sm.head, 1]
    sm.head = (sm.head + 1) % config.queue
    sm.lined_up -= 1
    state.warps[w].lined_up -= 1
    enters = np.int64(-1)
    if sm.outside > 0:
        outside = state.outside[number]
        k = pick(outside, sm.outside, sm.last, config.greedy, state.warps)
        enters = outside[k]
        line_up(enters, number, now, config.queue, state)
        sm.outside -= 1
        outside[k] = outside[sm.outside]
    return w, event, enters


@inlined
def served(w, event, number, now, there, accepts, kind, steps, timing, state):
    """Note when an access has its data and the L1 goes on."""
    warp = state.warps[w]
    there = max(there, now + timing.l1_latency)
    if kind[steps.static[event]] == LOAD:
        there = max(there, warp.latest)
        warp.latest = there  # results are taken in order
    state.done[event] = there
    state.sms[number].free = max(accepts, now + steps.instructions[event] * timing.issue_interval)


@kernel
def simulate_progress(block_start, event_start, steps, kind, lines, caches, timing, arrivals, state):
    """Memory instructions in the order of an estimate of when warps reach them; returns the estimated cycles.

    Warps that reach an access enter their SM's memory queue while it has room;
    when it is full the scheduling policy decides who enters next. A warp whose
    access is in the queue goes on until it needs the data. The queue is served
    in order: a service takes the issue slots of the instructions since the
    warp's last access, the time of the L1, and the wait for MSHRs.
    The heap holds two kinds of entries: warp w reaches its next event, and
    (number of warps + sm) the SM can serve again.
    """
    heap = state.heap
    sms = len(state.sms)
    config = caches.config
    warps = len(state.warps)
    blocks = len(state.blocks)
    started = min(blocks, config.sms * config.blocks_per_sm)
    size = np.int64(0)
    now = 0.0
    # Blocks whose held warps go on: at first those that are resident.
    freed = np.int64(0)
    freed_end = started
    while True:
        size = let_go(freed, freed_end, now, size, block_start, event_start, steps, state)
        if size == 0:
            return now
        cycle = heap[0] // (warps + sms)
        entry = heap[0] % (warps + sms)
        if entry >= warps:
            entry = warps + (entry - warps + cycle) % sms
        now = float(cycle)
        freed_end = freed
        size -= 1
        heap_fill(heap, size, heap[size])
        if entry < warps:
            w = entry
            number = state.blocks[state.warps[w].block].sm
            if arrive(w, now, kind, steps, timing, config, state):
                size = go_on(w, now, size, event_start, steps, state)
                if state.sms[number].lined_up == 1:
                    when = max(now, state.sms[number].free)
                    size = heap_push(heap, size, entry_key(when, warps + number, warps, sms))
        else:
            number = entry - warps
            w, event, enters = leave_queue(number, now, config, state)
            there, accepts = serve(
                number,
                now,
                steps.static[event],
                kind[steps.static[event]],
                steps.line_start[event],
                steps.line_start[event + 1],
                lines,
                caches,
                timing,
                state,
                arrivals,
            )
            served(w, event, number, now, there, accepts, kind, steps, timing, state)
            if state.sms[number].lined_up > 0:
                size = heap_push(heap, size, entry_key(state.sms[number].free, entry, warps, sms))
            if enters >= 0:
                size = go_on(enters, now, size, event_start, steps, state)
            if state.warps[w].waits:
                size = go_on(w, now, size, event_start, steps, state)
        owner = state.warps[w].block
        block = state.blocks[owner]
        if block.alive == 0 and started < blocks:  # the next block takes its place
            state.blocks[started].sm = block.sm
            freed = started
            started += 1
            freed_end = started
        elif block.at_barrier > 0 and block.at_barrier == block.alive:
            block.at_barrier = 0
            freed = owner
            freed_end = freed + 1
