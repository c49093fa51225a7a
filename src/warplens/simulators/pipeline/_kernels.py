"""The event loop of the Pipeline model (Lemeire et al., §3.2), in whole ticks.

λ holds the pipeline, Λ the dependants; the issue limit is a valve that opens
`issue_gap` ticks after an issue (Fig. 10).
"""

from __future__ import annotations

from ...jit import inlined, kernel
from ._group_kernels import enter_group
from ._issue_kernels import issue
from ._records import NEVER


@inlined
def next_start(core):
    """When the next instruction can start; `NEVER` if all are issued."""
    start = NEVER
    for p in range(len(core.pipelines)):
        pipeline = core.pipelines[p]
        start = min(start, max(pipeline.earliest, pipeline.free))
    return max(start, core.clock[0].issue_from)


@inlined
def count_idle(p, since, until, core):
    """Why a pipeline is idle from `since` to `until`, in the precedence that `PipelineUse` gives."""
    pipeline = core.pipelines[p]
    if pipeline.left == 0:
        pipeline.idle_no_work += until - since
        return
    could = min(max(pipeline.earliest, since), until)
    pipeline.idle_issue_limit += until - could
    if core.clock[0].held_until > since:
        opens = NEVER
        for w in range(len(core.warps)):
            if core.queues[p, w].left > 0:
                opens = min(opens, core.warps[w].held_until)
        held = min(max(opens, since), could)
        pipeline.idle_barrier += held - since
        since = held
    pipeline.idle_dependence += could - since


@inlined
def pass_time(until, core):
    """Moves the clock and counts what the pipelines do meanwhile."""
    clock = core.clock[0]
    longest = clock.now
    second = clock.now
    for p in range(len(core.pipelines)):
        free = core.pipelines[p].free
        busy_until = min(free, until)
        if busy_until > longest:
            second = longest
            longest = busy_until
        elif busy_until > second:
            second = busy_until
        if free < until:
            count_idle(p, max(clock.now, free), until, core)
    clock.any_busy += longest - clock.now
    clock.overlap += second - clock.now
    clock.now = until


@kernel
def simulate(graphs, rules, core):
    """Runs all groups on a new core; what it counts is in `core`."""
    clock = core.clock[0]
    groups = len(graphs.of_warp) // rules.group_size
    while True:
        start = next_start(core)
        enters = clock.next_group < groups and clock.next_leave <= start
        when = clock.next_leave if enters else start if start < NEVER else clock.finish
        if when > clock.now:
            pass_time(when, core)
        if enters:
            enter_group(graphs, rules, core)
        elif start < NEVER:
            issue(graphs, rules, core)
        else:
            break
