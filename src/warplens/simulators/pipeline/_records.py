"""What the kernels of the Pipeline model read and change. ClassTimes are whole ticks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: Scheduling policies.
ROUND_ROBIN, LOOSE_ROUND_ROBIN, GREEDY_THEN_OLDEST, OLDEST = range(4)

NEVER = np.int64(2**62)
#: A warp that has not issued yet comes before all that have.
NOT_YET = np.int64(2**48)


def _record(**fields: Any) -> np.dtype[Any]:
    return np.dtype(list(fields.items()), align=True)


I64 = np.int64

INSTRUCTION = _record(pipeline=I64, interval=I64, latency=I64, is_barrier=I64)
PIPELINE = _record(
    free=I64,  # when it can take another instruction
    earliest=I64,  # when the first instruction of any warp is ready for it
    left=I64,  # instructions of resident warps that it still has to take
    busy=I64,
    idle_dependence=I64,
    idle_issue_limit=I64,
    idle_barrier=I64,
    idle_no_work=I64,
)
WARP = _record(
    number=I64,
    first=I64,  # place of its graph among all instructions
    length=I64,
    head=I64,  # in order: the next instruction
    unissued=I64,
    held_until=I64,  # by a barrier
    barrier_row=I64,  # recorded row of the barrier that holds it, or -1
    rank=I64,  # the policy issues the least first
    part_end=I64,  # out of order: the next barrier, and the instructions before it that are not issued
    part_left=I64,
)
#: Instructions of one warp for one pipeline. Out of order, two heaps from `base` on hold those that become ready at
#: a known time (`coming`), and those that are ready (`waiting`).
QUEUE = _record(left=I64, base=I64, coming=I64, waiting=I64)
GROUP = _record(
    alive=I64,
    arrived=I64,  # warps at the barrier
    opens=I64,  # when the barrier opens, as far as known
    end=I64,
    leaves=I64,
)
CLOCK = _record(
    now=I64,
    issue_from=I64,  # the issue limit allows no issue before
    finish=I64,
    next_leave=I64,
    next_group=I64,
    age=I64,
    issues=I64,
    last=I64,  # slot and number of the warp that issued last
    last_number=I64,
    held_until=I64,  # no barrier holds any warp from then on
    rows=I64,
    any_busy=I64,  # ticks in which at least one pipeline is busy, and at least two
    overlap=I64,
)
ROW = _record(warp=I64, instruction=I64, pipeline=I64, start=I64, busy_until=I64, done=I64)


class Graphs(NamedTuple):
    """Dependence graphs, one after the other, and the graph of every warp, group by group.

    `feeds[feed_start[i]:feed_start[i + 1]]` wait for instruction i, which waits
    for `waits[i]` others; both count within a graph.
    """

    instructions: Any
    feed_start: Any
    feeds: Any
    waits: Any
    start: Any
    of_warp: Any


class Rules(NamedTuple):
    """How a core issues: `issue_gap` ticks lie between two issues."""

    group_size: int
    issue_gap: int
    policy: int
    in_order: bool


class Core(NamedTuple):
    """What changes on one core. Arrays have a row for each pipeline, or a slot for each resident warp or group."""

    pipelines: Any
    warps: Any
    queues: Any  # by pipeline and warp
    ready: Any  # when the first instruction of a warp can start in a pipeline
    known: Any  # by warp and instruction: not ready before, as far as known
    missing: Any  # out of order: dependences of an instruction that are not issued
    coming: Any
    waiting: Any
    groups: Any
    clock: Any
    rows: Any


def new_core(pipelines: int, groups: int, rules: Rules, longest: int, rows: int) -> Core:
    """A core that no group has entered. Graphs have up to `longest` instructions; `rows` issues are recorded."""
    slots = groups * rules.group_size
    span = 0 if rules.in_order else longest
    core = Core(
        pipelines=np.zeros(pipelines, PIPELINE),
        warps=np.zeros(slots, WARP),
        queues=np.zeros((pipelines, slots), QUEUE),
        ready=np.full((pipelines, slots), NEVER),
        known=np.zeros((slots, longest), I64),
        missing=np.zeros((slots, span), np.int32),
        coming=np.zeros(slots * span, np.int32),
        waiting=np.zeros(slots * span, np.int32),
        groups=np.zeros(groups, GROUP),  # all have left at time 0
        clock=np.zeros(1, CLOCK),
        rows=np.zeros(rows, ROW),
    )
    core.pipelines["earliest"] = NEVER
    core.warps["number"] = core.warps["barrier_row"] = core.clock["last_number"] = -1
    core.clock["last"] = slots - 1
    return core
