"""What the simulation must give where the answer is known: one warp, full pipelines, and bounds that always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from making import graph_of
from reference import warp as one_warp
from warplens.models import instruction_mix_forms as forms
from warplens.simulators.pipeline import POLICIES, ClassTimes, ExecutionConfig, run_core, warp_graphs_of

ALU, SFU, MEMORY = "alu", "sfu", "memory"


def chain(*names):
    """Each instruction waits for the one before."""
    return graph_of(*((name, (i - 1,) if i else ()) for i, name in enumerate(names)))


def simulate(graph, times, warps=1, *, groups=1, concurrent=1, issue=None, policy="rr", in_order=False, record=0):
    program = warp_graphs_of([graph])
    execution = ExecutionConfig(warps, concurrent, groups)
    return run_core(program, times, issue, execution, policy=policy, in_order=in_order, most_rows=record)


class TestInstructionMix:
    """β instructions of type 1 and one of type 2, over and over, at full occupancy (L-43 … L-45)."""

    REPEATS, WARPS = 48, 64

    def throughput(self, beta, lambda1, lambda2, pipeline, limit, policy="rr"):
        graph = chain(*(["fp32"] * beta + ["sfu"]) * self.REPEATS)
        times = {"fp32": ClassTimes(lambda1, lambda1, ALU), "sfu": ClassTimes(lambda2, lambda2, pipeline)}
        run = simulate(graph, times, self.WARPS, issue=limit, policy=policy)
        return beta * self.REPEATS * self.WARPS / run.cycles

    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("beta", [1, 3, 4, 7, 20])
    def test_one_subsystem(self, beta, policy):
        expected = forms.one_subsystem_ipc(beta, 1, 4)
        assert self.throughput(beta, 1, 4, ALU, None, policy) == pytest.approx(expected, rel=1e-3)

    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("beta", [1, 3, 4, 7, 20])
    def test_two_subsystems(self, beta, policy):
        expected = forms.two_subsystems_ipc(beta, 1, 4)
        found = self.throughput(beta, 1, 4, SFU, None, policy)
        assert 0.98 * expected < found <= expected * (1 + 1e-12)

    @pytest.mark.parametrize("beta", [1, 3, 4, 7, 20])
    def test_issue_limit(self, beta):
        expected = forms.issue_limited_ipc(beta, 1, 4, 1.0)
        assert 0.98 * expected < self.throughput(beta, 1, 4, SFU, 1.0) <= expected * (1 + 1e-12)

    @pytest.mark.parametrize("policy", POLICIES)
    def test_no_policy_exceeds_the_form(self, policy):
        for beta in (1, 2, 5):
            bound = forms.issue_limited_ipc(beta, 1, 4, 1.0)
            assert self.throughput(beta, 1, 4, SFU, 1.0, policy) <= bound * (1 + 1e-12)

    @pytest.mark.parametrize(
        ("lambda1", "lambda2", "limit", "least"),
        [(1, 8, 1, 0.98), (0.25, 1, 4, 0.98), (0.5, 2, 2, 0.98), (1, 5, 1, 0.98), (0.375, 1, 4, 0.9)],
    )
    def test_gpus_of_table_4(self, lambda1, lambda2, limit, least):
        """Maxwell's λ = 0.375 is no multiple of the 0.25 cycles between issues, so the valve costs more there."""
        for beta in (4, 12):
            expected = forms.issue_limited_ipc(beta, lambda1, lambda2, limit)
            found = self.throughput(beta, lambda1, lambda2, SFU, limit)
            assert least * expected < found <= expected * (1 + 1e-12)

    def test_fractions_are_not_rounded_to_the_issue_limit(self):
        """λ = 0.375 with four issues a cycle: 8/3 instructions per cycle, not 4 and not 2."""
        assert self.throughput(20, 0.375, 0.375, ALU, 4.0) == pytest.approx(20 / 21 * 8 / 3, rel=1e-3)


class TestExample:
    """Lemeire's example kernel: four computations, two memory accesses."""

    GRAPH = graph_of("comp", "comp", ("mem", (0, 1)), ("comp", (2,)), ("comp", (3,)), ("mem", (4,)))
    TIMES = {"comp": ClassTimes(1, 4, "compute"), "mem": ClassTimes(2, 6, MEMORY)}

    @pytest.mark.parametrize("policy", POLICIES)
    def test_one_warp_takes_25_cycles(self, policy):
        assert simulate(self.GRAPH, self.TIMES, policy=policy).cycles == 25

    def test_two_warps_by_hand(self):
        """RR: computations at 0 … 3, m1 at 6 and 8, c3 at 12 and 14, c4 at 16 and 18, m2 at 20 and 22, done at 28."""
        run = simulate(self.GRAPH, self.TIMES, 2, record=100)
        starts = {
            (w, i): start
            for w, i, start in zip(
                run.profile.warp.tolist(), run.profile.instruction.tolist(), run.profile.start.tolist(), strict=True
            )
        }
        assert [starts[0, i] for i in range(6)] == [0, 2, 6, 12, 16, 20]
        assert [starts[1, i] for i in range(6)] == [1, 3, 8, 14, 18, 22]
        assert run.cycles == 28

    def test_saturates_at_the_roof(self):
        """Many waves: 1/4 warp per cycle but for fill and drain."""
        run = simulate(self.GRAPH, self.TIMES, 1, groups=2000, concurrent=20)
        assert run.cycles / 2000 == pytest.approx(4, rel=0.02)
        assert run.cycles >= 8000
        assert run.pipelines[MEMORY].fill_rate > 0.98


times = st.integers(0, 40).map(lambda eighths: eighths / 8)


@st.composite
def programs(draw, longest=12, classes=("comp", "sfu", "mem")):
    instructions = []
    for position in range(draw(st.integers(1, longest))):
        depends = draw(st.sets(st.integers(0, position - 1), max_size=3)) if position else set()
        instructions.append((draw(st.sampled_from(classes)), tuple(sorted(depends))))
    return instructions


@given(programs(), st.tuples(*[times] * 3), st.sampled_from(POLICIES))
def test_one_warp_on_free_pipelines_takes_its_longest_path(program, latencies, policy):
    """λ = 0 and no issue limit: nothing is shared, so only dependences take time."""
    latency = dict(zip(("comp", "sfu", "mem"), latencies, strict=True))
    each = {name: ClassTimes(0, value, name) for name, value in latency.items()}
    found = simulate(graph_of(*program), each, policy=policy).cycles
    assert found == one_warp.longest_latency(program, latency)


@given(st.lists(st.sampled_from(("comp", "sfu", "mem")), min_size=1, max_size=12), st.booleans())
def test_one_warp_that_is_a_chain_takes_the_sum_of_its_latencies(names, in_order):
    each = {"comp": ClassTimes(1, 4, "c"), "sfu": ClassTimes(2, 9, "s"), "mem": ClassTimes(3, 30, "m")}
    assert simulate(chain(*names), each, in_order=in_order).cycles == sum(each[name].latency for name in names)


configurations = st.tuples(
    st.integers(1, 4),  # warps of a group
    st.integers(1, 5),  # groups
    st.integers(1, 3),  # at a time
    st.sampled_from([None, 0.25, 0.5, 1.0, 2.0, 4.0]),
    st.sampled_from(POLICIES),
    st.booleans(),
)


@given(programs(), st.tuples(*[times] * 6), configurations)
def test_bounds(program, values, configuration):
    """Never faster than the busiest pipeline, the valve or one warp; never slower than a work-conserving scheduler.

    The last instruction waited for results, for a busy pipeline or for the valve, and for nothing else.
    """
    size, groups, concurrent, issue, policy, in_order = configuration
    each = {
        name: ClassTimes(interval, latency, pipeline)
        for name, interval, latency, pipeline in zip(
            ("comp", "sfu", "mem"), values[:3], values[3:], ("a", "a", "b"), strict=True
        )
    }
    graph = graph_of(*program)
    run = simulate(
        graph, each, size, groups=groups, concurrent=concurrent, issue=issue, policy=policy, in_order=in_order
    )
    warps = size * groups
    busy = dict.fromkeys(("a", "b"), 0.0)
    for name, _ in program:
        busy[each[name].pipeline] += each[name].interval * warps
    gap = 0.0 if issue is None else 1.0 / issue
    latencies = {name: time.latency for name, time in each.items()}
    path = one_warp.longest_latency(program, latencies)
    waiting = one_warp.in_order_latency(program, latencies) if in_order else path
    assert run.cycles >= max(busy.values())
    assert run.cycles >= (warps * len(program) - 1) * gap
    assert run.cycles >= path * -(-groups // concurrent)
    longest = max(max(time.interval, time.latency) for time in each.values())
    # Groups follow each other at most `groups` times, each with its longest path; in order, instructions also wait
    # for those before them to issue.
    assert run.cycles <= groups * waiting + sum(busy.values()) + warps * len(program) * gap + longest


@given(programs(), st.tuples(*[times] * 6), st.sampled_from(POLICIES), st.booleans())
def test_each_pipeline_is_busy_for_its_work_and_idle_otherwise(program, values, policy, in_order):
    each = {
        name: ClassTimes(interval, latency, name)
        for name, interval, latency in zip(("comp", "sfu", "mem"), values[:3], values[3:], strict=True)
    }
    run = simulate(graph_of(*program), each, 3, groups=3, concurrent=2, issue=2.0, policy=policy, in_order=in_order)
    assume(run.cycles > 0)
    for name, use in run.pipelines.items():
        count = sum(name == item for item, _ in program)
        assert use.busy_cycles == 9 * count * each[name].interval
        assert use.busy_cycles + sum(use.idle_cycles.values()) == run.cycles
        assert use.fill_rate == pytest.approx(use.busy_cycles / run.cycles, rel=1e-12)
    assert 0 <= run.overlap <= run.any_busy <= 1
    assert run.issue_fill == pytest.approx(9 * len(program) * 0.5 / run.cycles, rel=1e-12)


def test_more_warps_fill_the_pipeline():
    """One long chain on one pipeline: throughput is ω·λ/Λ of the peak until Λ/λ warps."""
    graph = chain(*["comp"] * 200)
    each = {"comp": ClassTimes(1, 10, ALU)}
    for warps in (1, 3, 7, 10, 15):
        run = simulate(graph, each, warps)
        assert run.pipelines[ALU].fill_rate == pytest.approx(min(1, warps / 10), rel=0.02)


def test_overlap_of_two_pipelines():
    """Independent work for two pipelines with the same λ: both are always busy together."""
    graph = graph_of(*["comp", "mem"] * 10)
    run = simulate(graph, {"comp": ClassTimes(2, 2, "a"), "mem": ClassTimes(2, 2, "b")})
    assert (run.cycles, run.overlap, run.any_busy) == (20, 1, 1)
    assert np.all([use.fill_rate == 1 for use in run.pipelines.values()])
