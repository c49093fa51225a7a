"""From traced warps to intervals and a representative one (GPUMech §III, §V), against plain oracles."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reference import warps as oracle
from warplens.analysis import _profile_kernels as kernels
from warplens.analysis.representative import (
    representative_warp,
    select_warp,
    two_means,
    warp_features,
)
from warplens.errors import OptionError, TraceError

from .rows import (
    BAR,
    FADD,
    FMUL,
    LDG,
    LDG64,
    MOV,
    MUFU,
    ROWS,
    TABLE,
    any_latencies,
    programs,
    trace_of,
    whole_latencies,
)


def totals(warp: list[int], latency: list[float], step: float = 1.0) -> tuple[int, float]:
    instructions, stalls = np.empty(1, dtype=np.int64), np.empty(1)
    static = np.array(warp, dtype=np.uint32)
    kernels.warp_totals(
        np.array([0, len(warp)]),
        static,
        np.array(latency, dtype=np.float64),
        TABLE.destinations,
        TABLE.destination_offsets,
        TABLE.sources,
        TABLE.source_offsets,
        step,
        instructions,
        stalls,
    )
    return int(instructions[0]), float(stalls[0])


def intervals(warp: list[int], latency: list[float], step: float = 1.0, min_gap: float = 1.0):
    n = len(warp)
    end, cause, stall = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64), np.empty(n + 1)
    count = kernels.warp_intervals(
        np.array(warp, dtype=np.uint32),
        np.array(latency, dtype=np.float64),
        TABLE.destinations,
        TABLE.destination_offsets,
        TABLE.sources,
        TABLE.source_offsets,
        step,
        min_gap,
        end,
        stall,
        cause,
    )
    instructions = np.diff(end[:count], prepend=0).tolist()
    causes = [None if c < 0 else c for c in cause[:count].tolist()]
    return [oracle.Interval(*row) for row in zip(instructions, stall[:count].tolist(), causes, strict=True)]


# -- the interval algorithm, Eq. (G-4) ---------------------------------------------------------


@given(programs, any_latencies, st.sampled_from((1.0, 2.0, 4.0)))
def test_stalls_of_a_warp_are_the_oracles(warp, latency, step):
    issued = oracle.issue_times(warp, ROWS, latency, step)
    waits = [b - (a + step) for a, b in itertools.pairwise(issued)]
    assert totals(warp, latency, step) == (len(warp), pytest.approx(sum(waits), rel=1e-12, abs=1e-9))


@given(programs, whole_latencies, st.sampled_from((1.0, 2.0)), st.sampled_from((0.0, 1.0, 3.0, 10.0, 1e6)))
def test_intervals_are_the_oracles(warp, latency, step, min_gap):
    found = intervals(warp, latency, step, min_gap)
    assert found == oracle.intervals(warp, ROWS, latency, step=step, min_gap=min_gap)


@given(programs, whole_latencies, st.sampled_from((0.0, 1.0, 5.0, 10.0)))
def test_intervals_keep_all_instructions_and_stalls(warp, latency, min_gap):
    found = intervals(warp, latency, min_gap=min_gap)
    assert sum(item.instructions for item in found) == len(warp)
    assert sum(item.stall for item in found) == totals(warp, latency)[1]
    # All but the last were closed by a stall of min_gap or more.
    assert all(item.stall >= max(min_gap, 1) for item in found[:-1])
    assert all((item.cause is None) == (item.stall == 0) for item in found)


def test_of_operands_that_are_ready_together_the_first_is_the_cause():
    latency = [0.0] * len(ROWS)
    latency[LDG], latency[FMUL] = 20.0, 19.0  # done in the same cycle: the multiplication issues one later
    assert intervals([LDG, FMUL, FADD], latency)[0] == oracle.Interval(2, 19.0, LDG)


def test_a_dependent_instruction_waits_for_the_done_cycle_and_one_more():
    """G-4 as printed: the load issues at 0 and is done at 10, so its user issues at 11, not at 1."""
    latency = [10.0] * len(ROWS)
    assert oracle.issue_times([LDG, FADD], ROWS, latency) == [0.0, 11.0]
    assert totals([LDG, FADD], latency) == (2, 10.0)
    assert intervals([LDG, FADD], latency) == [oracle.Interval(1, 10.0, LDG), oracle.Interval(1, 0.0, None)]


def test_independent_instructions_shorten_the_stall():
    latency = [10.0] * len(ROWS)
    assert intervals([LDG, BAR, BAR, BAR, FADD], latency)[0] == oracle.Interval(4, 7.0, LDG)


def test_even_a_latency_of_0_is_no_stall():
    assert totals([LDG, FADD, FMUL], [0.0] * len(ROWS)) == (3, 0.0)


def test_short_stalls_join_the_interval_they_lie_in():
    """FADD waits 4 for the load; FMUL waits 9 for FADD: with min_gap 5 one interval ends, caused by FADD."""
    latency = [0.0] * len(ROWS)
    latency[LDG], latency[FADD] = 4.0, 9.0
    warp = [LDG, FADD, FMUL]
    assert [item.cause for item in intervals(warp, latency)] == [LDG, FADD, None]
    assert intervals(warp, latency, min_gap=5.0) == [oracle.Interval(2, 13.0, FADD), oracle.Interval(1, 0.0, None)]
    assert intervals(warp, latency, min_gap=10.0) == [oracle.Interval(3, 13.0, FADD)]
    # A stall of exactly min_gap ends an interval.
    assert [item.stall for item in intervals(warp, latency, min_gap=4.0)] == [4.0, 9.0, 0.0]
    assert [item.stall for item in intervals(warp, latency, min_gap=9.0)] == [13.0, 0.0]


def test_of_stalls_that_are_as_long_the_first_is_the_cause():
    latency = [0.0] * len(ROWS)
    latency[LDG], latency[FADD] = 6.0, 6.0
    assert intervals([LDG, FADD, FMUL], latency, min_gap=10.0) == [oracle.Interval(3, 12.0, LDG)]


def test_the_cause_is_the_latest_producer():
    latency = [0.0] * len(ROWS)
    latency[LDG], latency[MUFU], latency[FMUL] = 50.0, 20.0, 70.0
    # FADD reads registers 1 (LDG) and 2 (FMUL).
    assert intervals([LDG, FMUL, FADD], latency)[0].cause == FMUL
    latency[FMUL] = 30.0
    assert intervals([LDG, FMUL, FADD], latency)[0].cause == LDG


def test_a_register_that_is_written_again_is_waited_for_no_more():
    latency = [0.0] * len(ROWS)
    latency[LDG64] = 100.0  # writes 2 and 3; FMUL writes 2, MUFU reads 2
    assert totals([LDG64, FMUL, MUFU], latency) == (3, 0.0)


def test_the_zero_register_makes_nothing_wait():
    latency = [100.0] * len(ROWS)
    assert totals([MOV, FMUL], latency) == (2, 0.0)


def test_a_machine_that_issues_less_than_one_a_cycle_spaces_instructions():
    """Two cycles per issue: no stall where nothing waits."""
    assert totals([BAR] * 10, [0.0] * len(ROWS), step=2.0) == (10, 0.0)
    latency = [5.0] * len(ROWS)
    assert oracle.issue_times([LDG, FADD], ROWS, latency, 2.0) == [0.0, 7.0]
    assert totals([LDG, FADD], latency, 2.0) == (2, 5.0)


def test_a_warp_without_instructions_has_one_empty_interval():
    assert totals([], [1.0] * len(ROWS)) == (0, 0.0)
    assert intervals([], [1.0] * len(ROWS)) == [oracle.Interval(0, 0.0, None)]


def test_warps_of_a_group_do_not_wait_for_each_other():
    """Registers are each warp's own."""
    latency = np.full(len(ROWS), 100.0)
    features, instructions, _ = warp_features(trace_of([LDG], [FADD], [LDG, FADD], [FADD]), latency, 1.0)
    assert instructions.tolist() == [1, 1, 2, 1]
    alone = [1.0, 1.0, 2 / 102, 1.0]
    assert features[:, 0] == pytest.approx(np.array(alone) / np.mean(alone))


# -- features and the choice of a warp (§III-C) --------------------------------------------------


@given(st.lists(programs, min_size=1, max_size=9), whole_latencies, st.sampled_from((0.5, 1.0, 2.0)))
def test_features_are_g5_over_its_mean_and_instructions_over_theirs(warps, latency, issue_rate):
    assume(any(warps))
    step = max(1.0, 1.0 / issue_rate)
    performance = []
    for warp in warps:
        stall = sum(item.stall for item in oracle.intervals(warp, ROWS, latency, step=step))
        performance.append(len(warp) / (len(warp) / issue_rate + stall) if warp else 0.0)  # Eq. (G-5)
    lengths = [len(warp) for warp in warps]
    features, instructions, _ = warp_features(trace_of(*warps), np.array(latency, dtype=np.float64), issue_rate)
    assert instructions.tolist() == lengths
    assert features[:, 0] == pytest.approx(np.array(performance) / np.mean(performance))
    assert features[:, 1] == pytest.approx(np.array(lengths) / np.mean(lengths))


def test_a_launch_without_instructions_is_refused():
    with pytest.raises(TraceError, match="'made' has no instructions"):
        warp_features(trace_of([], []), np.zeros(len(ROWS)), 1.0)


coordinates = st.integers(0, 6).map(lambda i: i / 4)
point_lists = st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=9, unique=True)


@given(point_lists, st.data())
def test_two_means_ends_where_no_point_wants_to_move(points, data):
    """Every point is nearest to the centre of its own cluster: the split is a local optimum of k-means."""
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(points), max_size=len(points)))
    labels = two_means(np.array(points), np.array(weights)).tolist()
    sides = [[i for i, label in enumerate(labels) if label == side] for side in (0, 1)]
    if len(points) == 1:
        assert labels == [0]
        return
    assert sides[0]
    assert sides[1]
    centres = [oracle.centre([points[i] for i in side], [weights[i] for i in side]) for side in sides]
    for point, label in zip(points, labels, strict=True):
        assert math.dist(point, centres[label]) <= math.dist(point, centres[1 - label]) * (1 + 1e-9)
    cost = sum(oracle.spread([points[i] for i in side], [weights[i] for i in side]) for side in sides)
    best, _ = oracle.best_split(points, weights)
    assert cost >= best * (1 - 1e-9)
    assert cost <= oracle.spread(points, weights)


@given(
    st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=5, unique=True),
    st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=4, unique=True),
)
def test_clusters_that_lie_apart_are_found(near, far):
    points = near + [(x + 10.0, y) for x, y in far]
    labels = two_means(np.array(points), np.ones(len(points), dtype=np.int64)).tolist()
    found = frozenset(i for i, label in enumerate(labels) if label == labels[0])
    assert found == oracle.best_split(points, [1] * len(points))[1] == frozenset(range(len(near)))


@given(point_lists, st.data())
def test_the_choice_is_the_warp_nearest_the_centre_of_the_largest_cluster(distinct, data):
    features = data.draw(st.lists(st.sampled_from(distinct), min_size=1, max_size=20))
    index, sizes, distance = select_warp(np.array(features))
    assert sum(sizes) == len(features)
    # The clusters of the distinct points with their numbers are those of all points.
    ordered = sorted(set(features))
    labels = two_means(np.array(ordered), np.array([features.count(point) for point in ordered]))
    label_of = dict(zip(ordered, labels.tolist(), strict=True))
    members = [i for i, point in enumerate(features) if label_of[point] == label_of[features[index]]]
    assert len(members) == max(sizes)
    middle = oracle.centre([features[i] for i in members], [1] * len(members))
    nearest = min(math.dist(features[i], middle) for i in members)
    assert distance == pytest.approx(nearest, abs=1e-12)
    # The first of all that are as near.
    assert index == min(i for i in members if math.dist(features[i], middle) <= nearest * (1 + 1e-9) + 1e-12)


@given(point_lists, st.randoms(use_true_random=False))
def test_the_choice_is_the_same_whenever_it_is_made(points, random):
    features = np.array(points)
    assert select_warp(features) == select_warp(features.copy())
    # In another order of the warps the same kind of warp is chosen, unless several are as near.
    order = list(range(len(points)))
    random.shuffle(order)
    again, sizes, distance = select_warp(features[order])
    assert (sorted(sizes), distance) == (sorted(select_warp(features)[1]), pytest.approx(select_warp(features)[2]))
    assert 0 <= again < len(points)


def test_one_kind_of_warp_is_one_cluster():
    assert select_warp(np.ones((7, 2))) == (0, (7, 0), 0.0)
    assert select_warp(np.ones((1, 2))) == (0, (1, 0), 0.0)


def test_two_clusters_of_one_kind_each():
    """Five warps of one kind and three of another, mixed: the first of the five."""
    features = np.array(
        [[2.0, 2.0], [1.0, 1.0], [2.0, 2.0], [1.0, 1.0], [1.0, 1.0], [2.0, 2.0], [1.0, 1.0], [1.0, 1.0]]
    )
    index, sizes, distance = select_warp(features)
    assert (index, sorted(sizes), distance) == (1, [3, 5], 0.0)


def test_clusters_of_one_size_are_told_apart_in_the_same_way_always():
    features = np.array([[1.0, 1.0], [3.0, 3.0]])
    index, sizes, _ = select_warp(features)
    assert sizes == (1, 1)
    assert index == select_warp(features)[0]


def test_warps_that_run_faster_or_slower_than_all_others():
    features = np.array([[1.0, 1.0], [0.2, 5.0], [3.0, 1.0], [0.2, 1.0], [3.0, 9.0]])
    assert select_warp(features, "max") == (2, (5, 0), 0.0)
    assert select_warp(features, "min") == (1, (5, 0), 0.0)


def test_unknown_selections_are_refused():
    with pytest.raises(OptionError, match="'median' is not one of clustering, max, min"):
        select_warp(np.ones((2, 2)), "median")


# -- the representative and its report ---------------------------------------------------------------


def test_the_report_says_how_different_the_others_are():
    """Three warps of two instructions, one of six: the chosen one is of the three."""
    latency = np.zeros(len(ROWS))
    warps = [[FADD, FMUL], [FADD, FMUL], [BAR] * 6, [FADD, FMUL]]
    found = representative_warp(trace_of(*warps), latency, 1.0)
    assert found.index == 0
    assert found.instructions.tolist() == [FADD, FMUL]
    assert found.selection == "clustering"
    assert sorted(found.cluster_sizes) == [1, 3]
    assert found.distance == 0.0
    # Nothing stalls, so warps differ in their lengths over the mean of 3.
    assert found.mean_distance == pytest.approx((6 / 3 - 2 / 3) / 4)
    assert (found.warps, found.mean_instructions) == (4, 3.0)


@pytest.mark.parametrize(("selection", "index"), (("clustering", 1), ("max", 3), ("min", 0)))
def test_the_representative_is_found_in_later_groups_too(selection, index):
    """Warps lie in two groups. The last warp runs fastest, the first slowest, three are alike."""
    latency = np.zeros(len(ROWS))
    latency[LDG], latency[FADD] = 100.0, 3.0
    alike = [LDG, BAR, BAR, FADD]
    warps = [[LDG, FADD], alike, alike, [BAR] * 4, alike, alike]
    found = representative_warp(trace_of(*warps), latency, 1.0, selection)
    assert found.index == index
    assert found.instructions.tolist() == warps[index]
    assert found.selection == selection


@pytest.mark.parametrize("selection", ("clustering", "max", "min"))
def test_a_warp_that_executes_nothing_represents_none(selection):
    """Traces have such warps where a front end recorded none of their instructions."""
    found = representative_warp(trace_of([], [], [], [LDG, FADD], [], []), np.ones(len(ROWS)), 1.0, selection)
    assert (found.index, found.instructions.tolist()) == (3, [LDG, FADD])
    assert (found.warps, found.mean_instructions) == (6, pytest.approx(2 / 6))


@given(st.lists(programs, min_size=1, max_size=8), whole_latencies)
def test_the_report_of_any_trace(warps, latency):
    assume(any(warps))
    trace = trace_of(*warps)
    features, _, _ = warp_features(trace, np.array(latency, dtype=np.float64), 1.0)
    found = representative_warp(trace, np.array(latency, dtype=np.float64), 1.0)
    assert found.instructions.tolist() == warps[found.index]
    assert warps[found.index]
    assert sum(found.cluster_sizes) == sum(map(bool, warps))
    assert found.warps == len(warps)
    distances = [math.dist(features[found.index], other) for other in features]
    assert found.mean_distance == pytest.approx(sum(distances) / len(warps), abs=1e-12)
    assert found.mean_instructions == pytest.approx(sum(map(len, warps)) / len(warps))
