"""The small simulations behind Hong & Kim's timelines and MDM's batches."""

from __future__ import annotations

import pytest

from warplens_studies.reproduce.hong_kim_periods import simulate_periods
from warplens_studies.reproduce.mdm_batches import LATENCY, serve_loads
from warplens_studies.reproduce.warp_issue import mshr_timeline


def end(*arguments, **options) -> float:
    return max(period.end for period in simulate_periods(*arguments, **options))


def test_one_warp_does_one_thing_after_the_other():
    assert end(1, 3, 2.0, 5.0, 1) == 3 * (2 + 5)


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_never_more_memory_warps_than_servers_and_one_computation(servers):
    periods = simulate_periods(5, 2, 1.0, 3.0, servers)
    for now in {period.start for period in periods}:
        active = [period.kind for period in periods if period.start <= now < period.end]
        assert active.count("memory") <= servers and active.count("compute") <= 1


def test_departures_keep_their_distance():
    starts = sorted(p.start for p in simulate_periods(4, 1, 0.0, 10.0, 4, 3.0) if p.kind == "memory")
    assert starts == [0, 3, 6, 9]


def test_a_barrier_holds_all_until_the_last_is_served():
    periods = simulate_periods(3, 2, 1.0, 4.0, 3, barrier=True)
    first = [p for p in periods if p.kind == "memory"][:3]
    later = [p.start for p in periods if p.kind == "compute"][3:]
    assert min(later) == max(p.end for p in first)


@pytest.mark.parametrize(("warps", "requests", "entries"), [(3, 1, 3), (3, 32, 3), (2, 4, 2), (4, 3, 5)])
def test_one_load_a_warp_is_the_mshr_timeline(warps, requests, entries):
    def times(misses):
        return sorted((m.warp, m.start, m.end) for m in misses)

    expected = mshr_timeline([0] * warps, requests, entries, LATENCY)
    assert times(serve_loads("", warps, requests, entries).misses) == times(expected)
