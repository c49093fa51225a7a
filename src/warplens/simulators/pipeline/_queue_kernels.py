"""Which instructions of a warp a scheduler knows, and when they are ready."""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ._heap_kernels import by_position, by_time, pop, push
from ._records import NEVER


@inlined
def offer(p, w, when, core):
    """A warp has an instruction for pipeline `p` that can start at `when`."""
    pipeline = core.pipelines[p]
    core.ready[p, w] = min(core.ready[p, w], when)
    pipeline.earliest = min(pipeline.earliest, core.ready[p, w])


@inlined
def offer_next(w, i, when, graphs, core):
    """In order: instruction `i` is the next one of a warp; it starts at `when` at the earliest."""
    warp = core.warps[w]
    warp.head = i
    offer(graphs.instructions[warp.first + i].pipeline, w, max(when, core.known[w, i]), core)


@inlined
def enqueue(w, i, graphs, core):
    """Out of order: nothing that instruction `i` waits for is still to be issued, so its time is known."""
    p = graphs.instructions[core.warps[w].first + i].pipeline
    queue = core.queues[p, w]
    push(core.coming, queue.base, queue.coming, i, by_time, core.known, w)
    queue.coming += 1
    offer(p, w, core.known[w, i], core)


@inlined
def open_part(w, begin, when, graphs, core):
    """Out of order: shows the scheduler the instructions from `begin` to the next barrier, none before `when`."""
    warp = core.warps[w]
    end = begin
    while end < warp.length and graphs.instructions[warp.first + end].is_barrier == 0:
        end += 1
    warp.part_end = end
    warp.part_left = end - begin
    # A barrier follows all instructions before it; with none between two barriers the second is next at once.
    stop = end + 1 if end == begin and end < warp.length else end
    for i in range(begin, stop):
        core.known[w, i] = max(core.known[w, i], when)
        if core.missing[w, i] == 0:
            enqueue(w, i, graphs, core)


@inlined
def lay_out_queues(w, core):
    """Gives each pipeline's queue of a warp as much of the warp's heap as it has instructions."""
    base = w * core.missing.shape[1]
    for p in range(len(core.pipelines)):
        core.queues[p, w].base = base
        base += core.queues[p, w].left


@inlined
def take_ready(w, core):
    """Out of order: (first ready instruction of a warp in program order, its pipeline); leaves its queue."""
    now = core.clock[0].now
    chosen = NEVER
    pipe = np.int64(-1)
    for p in range(len(core.pipelines)):
        if core.pipelines[p].free > now or core.ready[p, w] > now:
            continue
        queue = core.queues[p, w]
        while queue.coming > 0 and core.known[w, core.coming[queue.base]] <= now:
            push(core.waiting, queue.base, queue.waiting, core.coming[queue.base], by_position, core.known, w)
            queue.waiting += 1
            pop(core.coming, queue.base, queue.coming, by_time, core.known, w)
            queue.coming -= 1
        if core.waiting[queue.base] < chosen:
            chosen = np.int64(core.waiting[queue.base])
            pipe = p
    queue = core.queues[pipe, w]
    pop(core.waiting, queue.base, queue.waiting, by_position, core.known, w)
    queue.waiting -= 1
    return chosen, pipe


@inlined
def next_ready(p, w, core):
    """Out of order: when the next queued instruction of a warp can start in a pipeline."""
    queue = core.queues[p, w]
    if queue.waiting > 0:
        return core.clock[0].now
    if queue.coming > 0:
        return core.known[w, core.coming[queue.base]]
    return NEVER
