"""The event kernel and the tick-by-tick simulation agree exactly, whatever the graphs, policies and times."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import pipeline as reference
from warplens.analysis import DependenceGraph, Instruction
from warplens.simulators.pipeline import IDLE_CAUSES, POLICIES, ClassTimes, ExecutionConfig, run_core, warp_graphs_of
from warplens.simulators.pipeline.ticks import choose_ticks

CLASSES = ("comp", "sfu", "mem", "barrier")
#: Eighths of a cycle, and thirds, which make ticks of 1/24.
EIGHTHS = st.sampled_from([Fraction(n, 8) for n in (0, 1, 2, 3, 7, 8, 10, 16, 21)])
THIRDS = st.sampled_from([Fraction(n, 3) for n in (0, 1, 2, 4)])
ISSUE_LIMITS = st.sampled_from([None, Fraction(1, 4), Fraction(1, 2), 1, 2, 3, 4, 8])


@st.composite
def graphs(draw):
    classes = st.sampled_from(("comp", "comp", "comp", "sfu", "mem", "mem", "barrier"))
    instructions = []
    for position in range(draw(st.integers(1, 8))):
        depends = draw(st.sets(st.integers(0, position - 1), max_size=2)) if position else set()
        instructions.append(Instruction(draw(classes), tuple(sorted(depends))))
    return DependenceGraph(tuple(instructions))


@st.composite
def cases(draw):
    """Graphs, the graph of every warp, groups, times, issue limit, policy and order."""
    made = draw(st.lists(graphs(), min_size=1, max_size=3))
    size, groups = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    warps = draw(st.lists(st.integers(0, len(made) - 1), min_size=size * groups, max_size=size * groups))
    times = st.one_of(EIGHTHS, THIRDS)
    pipelines = draw(st.integers(1, 3))
    each = {
        name: (draw(times), draw(st.one_of(times, EIGHTHS.map(lambda t: 3 * t))), draw(st.integers(0, pipelines - 1)))
        for name in CLASSES
    }
    execution = ExecutionConfig(size, draw(st.integers(1, 3)), groups)
    return made, warps, execution, each, draw(ISSUE_LIMITS), draw(st.sampled_from(POLICIES)), draw(st.booleans())


def both(made, warps, execution, times, limit, policy, in_order):
    run = run_core(
        warp_graphs_of(made, warps),
        {
            name: ClassTimes(float(interval), float(latency), f"p{p}")
            for name, (interval, latency, p) in times.items()
        },
        None if limit is None else float(limit),
        execution,
        policy=policy,
        in_order=in_order,
        most_rows=1000,
    )
    per_cycle = run.ticks.per_cycle
    assert run.ticks.exact

    def ticks(time):
        assert (time * per_cycle).denominator == 1, "a time was rounded"
        return int(time * per_cycle)

    names = list(run.pipelines)
    programs = [
        [
            (
                names.index(f"p{times[item.instruction_class][2]}"),
                ticks(times[item.instruction_class][0]),
                ticks(times[item.instruction_class][1]),
                item.depends,
                item.instruction_class == "barrier",
            )
            for item in graph.instructions
        ]
        for graph in made
    ]
    size = execution.group_size
    groups = [[programs[g] for g in warps[start : start + size]] for start in range(0, len(warps), size)]
    gap = 0 if limit is None else ticks(1 / Fraction(limit))
    return run, reference.simulate(groups, execution.concurrent, len(names), gap, policy, in_order), per_cycle


@given(cases())
def test_agrees_exactly(case):
    run, slow, per_cycle = both(*case)
    assert run.cycles * per_cycle == slow.ticks
    for use, busy, idle in zip(run.pipelines.values(), slow.busy, slow.idle, strict=True):
        assert use.busy_cycles * per_cycle == busy
        assert {cause: cycles * per_cycle for cause, cycles in use.idle_cycles.items()} == idle
        assert busy + sum(idle.values()) == slow.ticks
    if slow.ticks:
        assert run.overlap == pytest.approx(slow.overlap / slow.ticks, rel=1e-12)
        assert run.any_busy == pytest.approx(slow.any_busy / slow.ticks, rel=1e-12)
    profile = run.profile
    assert profile.complete
    rows = zip(
        profile.warp.tolist(),
        profile.instruction.tolist(),
        profile.pipeline.tolist(),
        (profile.start * per_cycle).tolist(),
        (profile.busy_until * per_cycle).tolist(),
        (profile.done * per_cycle).tolist(),
        strict=True,
    )
    assert list(rows) == slow.rows


@given(cases())
def test_no_recording_changes_nothing(case):
    made, warps, execution, times, limit, policy, in_order = case
    each = {name: ClassTimes(float(a), float(b), f"p{p}") for name, (a, b, p) in times.items()}
    rate = None if limit is None else float(limit)
    runs = [
        run_core(warp_graphs_of(made, warps), each, rate, execution, policy=policy, in_order=in_order, most_rows=rows)
        for rows in (0, 2, 1000)
    ]
    assert len({run.cycles for run in runs}) == 1
    assert runs[0].pipelines == runs[1].pipelines == runs[2].pipelines
    assert runs[0].profile is None
    assert len(runs[1].profile) == min(2, runs[1].issues)
    assert runs[1].profile.complete == (runs[1].issues <= 2)


def test_policies_and_causes_are_those_of_the_reference():
    assert POLICIES == reference.POLICIES
    assert IDLE_CAUSES == reference.CAUSES


class TestTicks:
    def test_an_eighth_is_the_coarsest(self):
        assert choose_ticks([1.0, 18.0], 1e3).per_cycle == 8
        assert choose_ticks([0.375, 0.875, 5.25], 1e3).per_cycle == 8

    def test_finer_where_a_machine_needs_it(self):
        ticks = choose_ticks([1 / 3, 0.375, 0.1], 1e3)
        assert ticks.per_cycle == 120
        assert (ticks.of(1 / 3), ticks.of(0.375), ticks.of(0.1)) == (40, 45, 12)
        assert ticks.exact

    def test_times_without_a_common_tick_are_rounded_up_by_less_than_a_millionth(self):
        time = 287.33912345678912
        ticks = choose_ticks([time, 0.375], 1e6)
        assert not ticks.exact
        assert ticks.per_cycle % 8 == 0 and ticks.per_cycle >= 2**20
        assert ticks.of(0.375) == 0.375 * ticks.per_cycle
        assert 0 <= ticks.of(time) / ticks.per_cycle - time < 1e-6

    def test_long_simulations_get_coarser_ticks(self):
        ticks = choose_ticks([np.pi], 1e16)
        assert ticks.per_cycle * 1e16 <= 2**61
        with pytest.raises(Exception, match="too long to simulate"):
            choose_ticks([1e18], 1e25)
