"""The explicit simulations against properties that any correct one has."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_studies.reproduce.warp_issue import (
    POLICIES,
    Interval,
    count_nonoverlapped,
    issue_timeline,
    mshr_timeline,
    stall_of,
)

intervals = st.lists(st.builds(Interval, st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=4)


@given(st.sampled_from(POLICIES), intervals, st.integers(1, 6))
def test_every_instruction_issues_once_in_order_and_never_in_its_warps_stall(policy, profile, warps):
    issued = issue_timeline(policy, profile, warps)
    assert len(issued) == warps * sum(each.instructions for each in profile)
    cycles = [issue.cycle for issue in issued]
    assert cycles == sorted(set(cycles)), "one instruction a cycle"
    for warp in range(warps):
        own = [issue for issue in issued if issue.warp == warp]
        assert [(i.interval, i.instruction) for i in own] == [
            (number, position) for number, each in enumerate(profile) for position in range(each.instructions)
        ]
        for before, after in pairwise(own):
            stall = profile[before.interval].stall_cycles if after.interval > before.interval else 0
            assert after.cycle >= before.cycle + 1 + stall


@given(st.sampled_from(POLICIES), intervals, st.integers(1, 6))
def test_the_core_idles_only_when_all_warps_stall(policy, profile, warps):
    issued = issue_timeline(policy, profile, warps)
    busy = {issue.cycle for issue in issued}
    for cycle in range(max(busy)):
        if cycle in busy:
            continue
        for warp in range(warps):
            own = [issue for issue in issued if issue.warp == warp and issue.cycle < cycle]
            left = [issue for issue in issued if issue.warp == warp and issue.cycle > cycle]
            if left:
                assert own and cycle <= own[-1].cycle + profile[own[-1].interval].stall_cycles


@given(st.integers(1, 5), st.integers(1, 12), st.integers(2, 6))
def test_round_robin_of_aligned_warps_is_lemeires_correction(instructions, stall, warps):
    profile = [Interval(instructions, stall)] * 2
    others = warps - 1
    expected = others * instructions - min(stall, others)
    counted = count_nonoverlapped(issue_timeline("rr", profile, warps), profile, 0)
    # Instructions that come after the stall, while the representative warp is ready again, are its next turn's.
    assert counted <= expected if stall < others else counted == expected


def test_greedy_stays_and_then_takes_the_oldest():
    profile = [Interval(3, 6), Interval(3, 6)]
    issued = issue_timeline("gto", profile, 4)
    assert [issue.warp for issue in issued[:15]] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 0, 0, 0]
    assert stall_of(issued, profile, 0) == range(3, 9)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 8), st.integers(1, 50))
def test_no_entry_holds_two_misses_at_once(asked, requests, entries, latency):
    misses = mshr_timeline(asked, requests, entries, latency)
    assert len(misses) == len(asked) * requests
    for entry in range(entries):
        held = sorted((miss.start, miss.end) for miss in misses if miss.entry == entry)
        assert all(end <= start for (_, end), (start, _) in pairwise(held))
    assert all(miss.wait_cycles >= 0 and miss.end - miss.start == latency for miss in misses)
    if len(misses) <= entries:
        assert not any(miss.wait_cycles for miss in misses)


@pytest.mark.parametrize(("warps", "waiting"), [(3, 0), (4, 2), (7, 8)])
def test_misses_come_in_batches_of_the_entries(warps, waiting):
    misses = mshr_timeline([0] * warps, 2, 6, 100)
    assert sum(miss.wait_cycles > 0 for miss in misses) == waiting
    assert {miss.wait_cycles for miss in misses} <= {0, 100, 200}
