"""Barriers hold a group, groups follow each other, and policies choose as they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from making import graph_of
from warplens.errors import OptionError, WorkloadError
from warplens.simulators.pipeline import POLICIES, ClassTimes, ExecutionConfig, run_core, warp_graphs_of
from warplens.simulators.pipeline.execution import (
    FIRST_INSTRUCTIONS,
    PARTIAL_GROUP,
    SOME_WAVES,
    bounded,
    execution_of,
)

TIMES = {
    "comp": ClassTimes(1, 4, "compute"),
    "mem": ClassTimes(2, 6, "memory"),
    "barrier": ClassTimes(1, 10, "compute"),
}


def run(graphs, warps=None, *, execution, policy="oldest", in_order=True, issue=None, times=TIMES):
    graphs = graphs if isinstance(graphs, list) else [graphs]
    program = warp_graphs_of(graphs, warps)
    return run_core(program, times, issue, execution, policy=policy, in_order=in_order, most_rows=10_000)


def starts(result):
    """Start of every instruction by (warp, position)."""
    p = result.profile
    return dict(zip(zip(p.warp.tolist(), p.instruction.tolist(), strict=True), p.start.tolist(), strict=True))


class TestBarriers:
    GRAPH = graph_of("comp", ("barrier", (0,)), ("comp", (1,)))

    @pytest.mark.parametrize("in_order", [True, False])
    def test_all_wait_for_the_last_to_arrive(self, in_order):
        found = starts(run(self.GRAPH, execution=ExecutionConfig(3, 1, 1), in_order=in_order))
        # Computations at 0, 1, 2; barriers at 4, 5, 6; the last one's Λ ends at 16.
        assert [found[w, 1] for w in range(3)] == [4, 5, 6]
        assert [found[w, 2] for w in range(3)] == [16, 17, 18]

    @pytest.mark.parametrize("in_order", [True, False])
    def test_groups_do_not_wait_for_each_other(self, in_order):
        found = starts(run(self.GRAPH, execution=ExecutionConfig(1, 3, 3), in_order=in_order))
        assert [found[w, 2] for w in range(3)] == [14, 15, 16]

    def test_out_of_order_nothing_passes_a_barrier(self):
        """Without dependences on it a barrier still lies between what is before and what is after."""
        graph = graph_of("mem", "comp", "barrier", "comp", "mem")
        found = starts(run(graph, execution=ExecutionConfig(2, 1, 1), in_order=False))
        arrived = max(found[w, 2] for w in range(2))
        for w in range(2):
            assert max(found[w, 0], found[w, 1]) <= found[w, 2]
            assert min(found[w, 3], found[w, 4]) >= arrived + 10

    def test_a_warp_that_ends_is_not_waited_for(self):
        """Warp 1 has no barrier: the others pass once it has issued its last instruction."""
        short = graph_of("comp", ("comp", (0,)), ("comp", (1,)), ("comp", (2,)), ("comp", (3,)), ("comp", (4,)))
        found = starts(run([self.GRAPH, short], [0, 1, 0], execution=ExecutionConfig(3, 1, 1)))
        assert found[1, 5] > found[0, 1] + 10
        assert found[0, 2] == found[1, 5] + 1  # it opens at once, after Λ; the pipeline takes one a cycle
        assert found[2, 2] == found[0, 2] + 1

    def test_two_barriers_in_a_row_and_one_at_the_end(self):
        graph = graph_of("barrier", "barrier", "comp", "barrier")
        for in_order in (True, False):
            result = run(graph, execution=ExecutionConfig(2, 1, 2), in_order=in_order)
            assert len(result.profile) == 16
            assert result.profile.done.max() == result.cycles

    def test_a_barrier_is_done_when_it_opens(self):
        result = run(self.GRAPH, execution=ExecutionConfig(3, 1, 1))
        barriers = result.profile.instruction == 1
        assert set(result.profile.done[barriers].tolist()) == {16}

    def test_waiting_at_a_barrier_is_counted_as_such(self):
        result = run(graph_of("barrier", "comp"), execution=ExecutionConfig(2, 1, 1))
        # Arrivals at 0 and 1; the pipeline is free from 2 and waits for the opening at 11.
        assert result.pipelines["compute"].idle_cycles["barrier"] == 9

    def test_larger_groups_are_not_faster(self):
        graph = graph_of(*[(n, (i - 1,) if i else ()) for i, n in enumerate(["comp", "barrier"] * 30)])
        cycles = [run(graph, execution=ExecutionConfig(size, 12 // size, 12 // size)).cycles for size in (1, 12)]
        assert cycles[0] < cycles[1]


class TestGroups:
    def test_a_group_enters_when_one_leaves(self):
        graph = graph_of("comp", ("mem", (0,)))
        found = starts(run(graph, execution=ExecutionConfig(1, 2, 4)))
        # Warp 0 ends at 4 + 6, warp 1 at 6 + 6 (the memory pipeline takes one access every 2 cycles).
        assert [found[w, 0] for w in range(4)] == [0, 1, 10, 12]

    def test_the_whole_group_must_have_left(self):
        short, long = graph_of("comp"), graph_of(*["comp"] * 20)
        found = starts(run([short, long], [0, 1, 0, 0], execution=ExecutionConfig(2, 1, 2)))
        assert found[2, 0] == found[1, 19] + 4

    def test_warps_may_have_graphs_of_their_own(self):
        result = run([graph_of("comp"), graph_of("mem", "mem")], [1, 0, 0], execution=ExecutionConfig(3, 1, 1))
        assert result.issues == 4
        assert result.profile.instruction_class.count("mem") == 2
        assert result.pipelines["memory"].busy_cycles == 4

    def test_more_slots_than_groups(self):
        graph = graph_of("comp")
        assert (
            run(graph, execution=ExecutionConfig(1, 50, 2)).cycles
            == run(graph, execution=ExecutionConfig(1, 2, 2)).cycles
        )


class TestPolicies:
    """Four independent computations per warp, two warps, one pipeline: the order of issue shows the policy."""

    def order(self, policy, graph=None):
        graph = graph or graph_of(*["comp"] * 4)
        result = run(graph, execution=ExecutionConfig(1, 2, 2), policy=policy)
        return "".join(str(warp) for warp in result.profile.warp.tolist())

    def test_round_robin_and_loose_round_robin_take_turns(self):
        assert self.order("rr") == self.order("lrr") == "01010101"

    def test_greedy_and_oldest_stay(self):
        assert self.order("gto") == self.order("oldest") == "00001111"

    def test_greedy_stays_with_the_younger_where_oldest_goes_back(self):
        graph = graph_of("comp", "comp", ("comp", (1,)), "comp")
        assert self.order("gto", graph) == "00110011"
        assert self.order("oldest", graph).startswith("0011")
        # Warp 0 waits from cycle 2 to 5. Greedy lets warp 1 go on until it waits itself.
        times = {"comp": ClassTimes(1, 3, "compute")}
        longer = [graph, graph_of(*["comp"] * 6)]
        for policy, expected in (("gto", "0011111100"), ("oldest", "0011001111")):
            result = run(longer, [0, 1], execution=ExecutionConfig(1, 2, 2), policy=policy, times=times)
            assert "".join(map(str, result.profile.warp.tolist())) == expected

    def test_round_robin_keeps_a_turn_that_loose_round_robin_loses(self):
        """Warp 0 cannot take its turn; once it can, round robin lets it go before the others."""
        waits, ready = graph_of("comp", ("comp", (0,))), graph_of(*["comp"] * 4)
        times = {"comp": ClassTimes(1, 4, "compute")}
        orders = {}
        for policy in ("rr", "lrr"):
            result = run([waits, ready], [0, 1, 1], execution=ExecutionConfig(3, 1, 1), policy=policy, times=times)
            orders[policy] = "".join(map(str, result.profile.warp.tolist()))
        assert orders["rr"].startswith("01210") and orders["lrr"].startswith("012120")

    def test_unknown_policy(self):
        with pytest.raises(OptionError, match="rr, lrr, gto, oldest"):
            run(graph_of("comp"), execution=ExecutionConfig(1, 1, 1), policy="random")

    @pytest.mark.parametrize("policy", POLICIES)
    def test_out_of_order_takes_the_first_that_is_ready(self, policy):
        graph = graph_of("mem", ("comp", (0,)), "comp", "mem")
        found = starts(run(graph, execution=ExecutionConfig(1, 1, 1), policy=policy, in_order=False))
        assert [found[0, i] for i in range(4)] == [0, 6, 0, 2]
        found = starts(run(graph, execution=ExecutionConfig(1, 1, 1), policy=policy, in_order=True))
        assert [found[0, i] for i in range(4)] == [0, 6, 7, 7]


class TestIssueLimit:
    def test_issues_lie_apart(self):
        graph = graph_of("comp", "mem", "comp", "mem")
        for limit, expected in ((None, [0, 0, 1, 2]), (2.0, [0, 0.5, 1, 2.5]), (0.25, [0, 4, 8, 12])):
            found = starts(run(graph, execution=ExecutionConfig(1, 1, 1), issue=limit))
            assert [found[0, i] for i in range(4)] == expected

    def test_waiting_for_the_limit_is_counted_as_such(self):
        result = run(graph_of("comp", "comp"), execution=ExecutionConfig(1, 1, 1), issue=0.25)
        assert result.pipelines["compute"].idle_cycles == {
            "dependence": 0,
            "issue limit": 3,
            "barrier": 0,
            "no work": 3,
        }


class TestExecution:
    def test_one_run_without_a_launch(self):
        assert execution_of(10, 1, 10, None) == ExecutionConfig(10, 1, 1)
        assert execution_of(16, 4, 4, None) == ExecutionConfig(4, 4, 4)

    def test_the_share_of_an_sm(self):
        assert execution_of(16, 4, 4, 9) == ExecutionConfig(4, 4, 9)

    def test_part_of_a_block_is_a_group_of_its_own(self):
        made = execution_of(4, 0.5, 8, 3)
        assert (made.group_size, made.concurrent, made.groups, made.scale) == (4, 1, 6, 1)
        assert not made.warnings

    def test_residents_that_make_no_whole_group(self):
        made = execution_of(12, 1.5, 8, None)
        assert (made.group_size, made.concurrent, made.groups, made.scale) == (8, 1, 1, 1.5)
        assert made.warnings == (PARTIAL_GROUP,)

    def test_long_launches_are_cut_to_waves(self):
        whole = ExecutionConfig(4, 2, 1000)
        assert bounded(whole, 100, 1e9) is whole
        made = bounded(whole, 100, 8000)
        assert (made.groups, made.scale, made.most_instructions) == (20, 50, None)
        assert made.warnings == (SOME_WAVES,)

    def test_long_warps_are_cut_to_their_first_instructions(self):
        made = bounded(ExecutionConfig(4, 2, 6), 10_000, 8000)
        assert (made.groups, made.most_instructions) == (2, 1000)
        assert made.scale == 3 * 10
        assert made.warnings == (SOME_WAVES, FIRST_INSTRUCTIONS)

    @pytest.mark.parametrize("length", [1, 3])
    def test_warps_without_instructions_hold_nobody(self, length):
        """Groups follow one another as if such warps were not there."""
        alone = warp_graphs_of([graph_of(*["mem"] * length)])
        both = replace(alone, graph_start=np.array([0, length, length]), warp_graph=np.array([0, 1] * 3))
        one, other = (
            run_core(graphs, TIMES, None, ExecutionConfig(size, 1, 3), policy="oldest", in_order=True)
            for graphs, size in ((alone, 1), (both, 2))
        )
        assert (one.cycles, one.issues) == (other.cycles, other.issues) == (3 * (2 * length + 4), 3 * length)

    def test_a_wave_that_just_fits_is_not_cut(self):
        made = bounded(ExecutionConfig(4, 2, 6), 1000, 8000)
        assert (made.groups, made.most_instructions, made.warnings) == (2, None, (SOME_WAVES,))

    def test_a_cut_program_points_at_nothing_that_is_cut_off(self):
        chains = [graph_of(*[("comp", (i - 1,) if i else ()) for i in range(length)]) for length in (3, 7)]
        whole = warp_graphs_of(chains, [0, 1])
        cut = whole.first_instructions(2)
        assert (whole.longest, cut.longest) == (7, 2)
        assert (cut.feeds.tolist(), cut.feed_start.tolist()) == ([1, 1], [0, 1, 1, 2, 2])

    def test_a_cut_program_is_simulated(self):
        graph = graph_of(*[("comp", (i - 1,) if i else ()) for i in range(50)])
        result = run(graph, execution=ExecutionConfig(2, 1, 1, 5.0, 10))
        assert (result.issues, result.cycles) == (20, 41)


def test_graphs_must_have_instructions_and_point_backwards():
    with pytest.raises(WorkloadError, match="no instructions"):
        warp_graphs_of([graph_of()])
    with pytest.raises(WorkloadError, match="does not come before"):
        warp_graphs_of([graph_of("comp", ("comp", (1,)))])
    with pytest.raises(WorkloadError, match="beyond the 1 given"):
        warp_graphs_of([graph_of("comp")], [0, 1])
