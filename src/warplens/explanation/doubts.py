"""How a predicted time moves with what nobody knows exactly: machines nearly alike, and other orders of accesses.

Two versions of a kernel are compared by their difference. What is small beside a time may be large beside that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..analysis import MissProfile
from ..analysis.cache_run import DEFAULT_ORDER
from ..machine import Gpu, with_overrides
from ..models.base import Case
from ..models.warplens_model import Warplens
from ..traces import LaunchTrace
from ..traces.grouping import only_blocks
from ..workload import Facts, Workload, analyse
from ..workload.results import Results
from ..workload.traced import simulated
from .answer import Answer
from .paired import Timing
from .versions import seconds_by_cause

#: Machines beside the one that is asked for. Their latencies of L2 and DRAM are up to so much shorter or longer: less
#: than those that are measured under load differ (benchmarks/h200/first_touch.csv), but enough for warps to meet
#: elsewhere.
NEIGHBOURS, APART = 8, 0.04
#: From this part of the sectors on, what the L1 keeps depends on the order in which warps ask it.
_DEPENDS = 0.1


def neighbours_of(gpu: Gpu) -> Gpu:
    """A batch of machines nearly like one: other latencies, and other values that measurements allow."""
    places, half = np.arange(NEIGHBOURS), NEIGHBOURS // 2
    steps = places - half + (places >= half)  # the machine itself is the one in the middle
    values = {
        path: (1.0 + APART * steps / half) * float(value)
        for path in ("llc.latency_cycles", "dram.latency_cycles")
        if (value := gpu.get(path)) is not None
    }
    stride = 1
    for path, source in gpu.sources.items():
        if source.is_bounded:
            stride += 2  # an odd one visits all places, in an order of its own
            value = float(gpu.get(path))
            least, most = (value if end is None else end for end in (source.least, source.most))
            values[path] = least + (most - least) * (stride * places % NEIGHBOURS) / (NEIGHBOURS - 1)
    return with_overrides(gpu, values)


def timing_of(workload: Workload, gpu: Gpu, answer: Answer) -> Timing:
    """The time of an answer as comparisons take it: its mean over machines nearly alike, with what may move it."""
    parts = seconds_by_cause(answer)
    low, high = answer.seconds_low, answer.seconds_high
    if low is None or high is None:
        return Timing(answer.seconds, low, high, parts)
    model = Warplens()
    facts = analyse(workload, gpu, model.requirements, "a comparison")
    near = np.append(model.own_cycles(Case(facts, model.name), neighbours_of(gpu)), answer.prediction.cycles)
    mean = float(near.mean() / answer.prediction.cycles)
    return Timing(
        answer.seconds * mean,
        low * mean,
        high * mean,
        {name: seconds * mean for name, seconds in parts.items()},
        tuple(float(each) for each in near / near.mean()),
        crowded_time(workload, gpu, facts),
    )


def crowded_time(workload: Workload, gpu: Gpu, facts: Facts) -> float:
    """The time over the predicted one if all warps were under way at once: 1 unless hits of the L1 hang on that.

    Where the lines of an SM's blocks fill the L1, what it keeps depends on how many warps take turns, and on which
    blocks meet there, since some lines then want the same sets. A GPU decides both as it runs. Here a few choices of
    blocks for one SM have a place in its memory queue for every warp.
    """
    if workload.trace is None or facts.traced is None or workload.order != DEFAULT_ORDER:
        return 1.0
    recorded, held = facts.traced.recorded_blocks, max(int(facts.residency.blocks_per_sm), 1)
    usual = min(gpu.sms, recorded // held)
    steps = sorted({max(usual + step, 1) for step in (-1, 0, 1)})
    choices = [range(0, min(held * apart, recorded), apart) for apart in steps]
    wanted = sorted({block for choice in choices for block in choice})
    few = _only(workload, workload.trace, wanted)  # read a long trace once
    assert few.trace is not None
    parts = (_only(few, few.trace, [wanted.index(block) for block in choice]) for choice in choices)
    return max(1.0, *(_crowded(part, gpu) for part in parts))


def _only(workload: Workload, trace: LaunchTrace, blocks: Sequence[int]) -> Workload:
    """The launch with some of its recorded blocks, which says no more of the launches before it."""
    part = only_blocks(trace, [range(block, block + 1) for block in blocks])
    return replace(workload, trace=part, results=Results(), after=None)


def _crowded(workload: Workload, gpu: Gpu) -> float:
    """The time over the predicted one with a place in the memory queue for every warp, if the L1 then keeps less."""
    model = Warplens()
    facts = analyse(workload, gpu, model.requirements, "a comparison")
    assert facts.traced is not None
    caches, warps = facts.traced.caches, int(facts.residency.warps_per_sm)
    run = caches.runs[0]
    crowded = simulated(workload, replace(run, config=run.config._replace(queue=max(warps, run.config.queue))))
    if _left_l1(crowded) - _left_l1(facts.traced.misses) <= _DEPENDS * float(crowded.column("requests").sum()):
        return 1.0
    other = replace(facts, traced=replace(facts.traced, caches=replace(caches, misses=(crowded,))))
    return float(model.predict(other).cycles) / float(model.predict(facts).cycles)


def _left_l1(misses: MissProfile) -> float:
    """Sectors that the L1 had to ask the L2 for."""
    return float(sum(misses.column(name).sum() for name in ("llc_hits", "llc_misses")))
