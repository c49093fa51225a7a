"""The interval algorithm (G-4) on dependence graphs, against a scheduler that waits cycle by cycle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import graph_of
from reference import warp
from warplens.analysis import COLUMNS, STALL_CAUSES, IntervalProfile, intervals_of_graph

READS = {"load_global", "atomic_global", "mem"}
WRITES = {"store_global"}
CLASSES = ["comp", "sfu", "load_shared", "barrier", *sorted(READS), *sorted(WRITES)]


@st.composite
def programs(draw, most=12):
    """Instructions with dependences that point backwards."""
    program = []
    for position in range(draw(st.integers(1, most))):
        depends = draw(st.sets(st.integers(0, position - 1), max_size=3)) if position else set()
        program.append((draw(st.sampled_from(CLASSES)), tuple(sorted(depends))))
    return program


latencies = st.fixed_dictionaries({name: st.integers(0, 30) for name in CLASSES})


def rows(profile: IntervalProfile) -> list[dict[str, float]]:
    """The profile in the oracle's words."""
    found = []
    for row, causes in zip(profile.matrix, profile.causes, strict=True):
        interval = dict(zip(COLUMNS, row, strict=True))
        shares = dict(zip(STALL_CAUSES, causes, strict=True))
        assert sum(causes) == pytest.approx(1)
        assert shares["L1"] == shares["L2"] == 0  # nothing is known of addresses: all accesses go to DRAM
        stall = interval["stall_cycles"]
        assert interval["memory_instructions"] == interval["read_misses"]
        assert interval["llc_miss_ratio"] == (interval["read_misses"] + interval["write_requests"] > 0)
        found.append(
            {
                "instructions": interval["instructions"],
                "reads": interval["read_misses"],
                "writes": interval["write_requests"],
                "DEP": pytest.approx(stall * shares["DEP"]),
                "DRAM": pytest.approx(stall * shares["DRAM"]),
            }
        )
    return found


@given(program=programs(), latency=latencies, min_gap=st.sampled_from([1, 2, 5, 10]))
def test_intervals_are_those_of_the_waiting_scheduler(program, latency, min_gap):
    ours = intervals_of_graph(graph_of(*program), latency.__getitem__, min_gap=min_gap)
    assert warp.intervals(program, latency, READS, WRITES, min_gap=min_gap) == rows(ours)


@given(program=programs(), latency=latencies, slots=st.sampled_from([2, 4]))
def test_a_slower_issue_stretches_the_steps(program, latency, slots):
    ours = intervals_of_graph(graph_of(*program), latency.__getitem__, issue_rate=1 / slots)
    assert warp.intervals(program, latency, READS, WRITES, step=slots) == rows(ours)


@given(program=programs(), latency=latencies, rate=st.sampled_from([2, 4, 8]))
def test_one_warp_issues_no_faster_than_one_instruction_a_cycle(program, latency, rate):
    one, several = (intervals_of_graph(graph_of(*program), latency.__getitem__, issue_rate=r) for r in (1, rate))
    assert (one.matrix == several.matrix).all()


@given(program=programs(), latency=latencies)
def test_intervals_account_for_every_cycle_of_the_warp(program, latency):
    """Instructions and stalls add up to the cycle in which the last result is there (and its own step)."""
    profile = intervals_of_graph(graph_of(*program), latency.__getitem__)
    issued = warp.issue_cycles(program, latency)
    end = max(cycle + latency[name] for cycle, (name, _) in zip(issued, program, strict=True))
    assert profile.total_instructions == len(program)
    assert profile.total_instructions + profile.column("stall_cycles").sum() == end + 1


@given(program=programs(), latency=latencies, gaps=st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_a_larger_min_gap_makes_fewer_intervals_and_loses_no_stall(program, latency, gaps):
    fine, coarse = (intervals_of_graph(graph_of(*program), latency.__getitem__, min_gap=gap) for gap in sorted(gaps))
    assert len(coarse) <= len(fine)
    for column in ("instructions", "stall_cycles", "read_misses", "write_requests"):
        assert coarse.column(column).sum() == fine.column(column).sum()
    assert coarse.stall_by_cause == pytest.approx(fine.stall_by_cause)


# -- by hand ---------------------------------------------------------------------------------


def intervals(*program, min_gap=1.0, **latency):
    profile = intervals_of_graph(graph_of(*program), latency.__getitem__, min_gap=min_gap)
    return [(row[0], row[1]) for row in profile.matrix.tolist()]


def test_figure_6_of_gpumech():
    """i3 leads to stall cycles because i5 depends on it; the others of the first interval have no dependants."""
    program = ["comp", "comp", "load_global", "comp", ("comp", (2,)), "comp"]
    assert intervals(*program, comp=1, load_global=10) == [(4, 9), (2, 1)]


def test_a_dependant_issues_one_cycle_after_the_done_cycle():
    """G-4: done + 1, where done = issue + latency; so a latency of 4 leaves 4 cycles without issue."""
    assert intervals("comp", ("comp", (0,)), comp=4) == [(1, 4), (1, 4)]


def test_the_latest_producer_counts():
    assert intervals("load_global", "comp", ("comp", (0, 1)), comp=2, load_global=9) == [(2, 8), (1, 2)]


def test_work_between_producer_and_consumer_hides_the_latency():
    assert intervals("load_global", "comp", "comp", ("comp", (0,)), comp=0, load_global=2) == [(4, 0)]


def test_the_drain_of_the_last_interval_waits_for_the_last_result():
    """A load that nobody reads still ends the warp."""
    assert intervals("load_global", "comp", comp=1, load_global=50) == [(2, 49)]


def test_short_waits_stay_inside_an_interval():
    program = ["comp", ("comp", (0,)), ("load_global", (1,)), ("comp", (2,))]
    assert intervals(*program, min_gap=10, comp=4, load_global=40) == [(3, 48), (1, 4)]


def test_a_stall_is_blamed_on_its_producer():
    profile = intervals_of_graph(
        graph_of("load_global", ("comp", (0,)), ("comp", (1,))), {"load_global": 30, "comp": 5}.__getitem__
    )
    assert profile.causes.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert profile.stall_by_cause.tolist() == [10, 0, 0, 30]


def test_mixed_causes_inside_one_interval_are_shared_by_their_cycles():
    program = [("load_global", ()), ("comp", (0,)), ("comp", (1,))]
    profile = intervals_of_graph(graph_of(*program), {"load_global": 30, "comp": 5}.__getitem__, min_gap=100)
    assert profile.causes.tolist() == [[pytest.approx(10 / 40), 0, 0, pytest.approx(30 / 40)]]


def test_stores_are_writes_and_loads_and_atomics_are_reads():
    program = ["load_global", "atomic_global", "store_global", "store_local", "store_shared", "comp"]
    profile = intervals_of_graph(graph_of(*program), lambda name: 0)
    assert profile.column("read_misses").tolist() == [2]
    assert profile.column("write_requests").tolist() == [2]


def test_the_average_miss_latency_weighs_memory_instructions():
    from making import Interval, profile_of

    profile = profile_of([Interval(1, 0, 3, 3, 0, 0.0), Interval(1, 0, 1, 9, 0, 1.0)])
    assert profile.dram_fraction == 0.25
    assert profile_of([Interval(1, 0)]).dram_fraction == 0
