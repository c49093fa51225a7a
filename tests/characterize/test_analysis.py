"""Knees, plateaus, λ and Λ on made-up data whose answer is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.characterize import analysis
from warplens.characterize.analysis import Statistic
from warplens.characterize.device import RECORD
from warplens.characterize.patterns import lane_offsets, turnarounds

OCCUPANCIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
LOOP_CYCLES = 17.0


def made_up_chains(times: dict[str, tuple[float, float]], *, chains=(1, 2, 4), repeats=5):
    """Rows as a GPU gives them, for (λ, Λ) of each operation: a pipeline that is never late, and the loop's cost."""
    rows = []
    for operation, (interval, latency) in times.items():
        for count in chains:
            for warps in OCCUPANCIES:
                cycles = max(latency / count, interval * warps)
                for length in (64, 192):
                    total = LOOP_CYCLES + length * cycles
                    rows.append(
                        {
                            "operation": operation,
                            "chains": count,
                            "warps": warps,
                            "length": length,
                            "cycles": [total] * repeats,
                        }
                    )
    return rows


def made_up_mixes(pairs: dict[tuple[str, str], str], times, limit: float):
    rows = []
    for (first, second), model in pairs.items():
        for beta in (1, 2, 4, 8, 16, 32):
            rate = analysis.mix_throughput(model, beta, times[first][0], times[second][0], limit)
            key = {"first": first, "second": second, "beta": beta, "repeats": 4, "warps": 64}
            rows.append({**key, "cycles": [float(beta * 4 * 64 / rate)] * 3})
    return rows


@given(
    st.floats(0.25, 8).map(lambda x: round(x, 2)),
    st.floats(1, 100).map(lambda x: round(x, 2)),
)
def test_the_loop_leaves_no_trace_in_either_lambda(interval, latency):
    latency = max(latency, interval)
    raw = {"chains": made_up_chains({"op": (interval, latency)})}
    assert analysis.latency(raw, "op").value == pytest.approx(latency)
    least = min(max(latency / count / warps, interval) for count in (1, 2, 4) for warps in OCCUPANCIES)
    assert analysis.interval(raw, "op").value == pytest.approx(least)


def test_a_chain_that_four_warps_execute_together_has_its_own_latency():
    rows = [row for row in made_up_chains({"product": (8.0, 32.0)}, chains=(1,)) if row["warps"] % 4 == 0]
    raw = {"chains": [*rows, *made_up_chains({"other": (0.25, 4.0)})]}
    assert analysis.latency(raw, "product").value == pytest.approx(32.0)
    assert analysis.interval(raw, "product").value == pytest.approx(8.0)
    assert analysis.issue_limit(raw).value == pytest.approx(4)


def test_a_sweep_saturates_where_the_latency_is_hidden():
    raw = {"chains": made_up_chains({"op": (0.5, 8.0)})}
    found = analysis.sweep(raw, "op", 1)
    assert found.warps == OCCUPANCIES
    assert analysis.saturating_warps(found.warps, found.instructions_per_cycle) == 16
    assert analysis.saturating_warps(*_rates(raw, chains=4)) == 4


def _rates(raw, chains):
    found = analysis.sweep(raw, "op", chains)
    return found.warps, found.instructions_per_cycle


def test_the_issue_limit_is_that_of_the_fastest_chain():
    raw = {"chains": made_up_chains({"slow": (2.0, 17.0), "fast": (0.25, 4.0)})}
    assert analysis.issue_limit(raw).value == pytest.approx(4)
    assert analysis.warp_issue_limit(raw).value == pytest.approx(1)


def test_subsystems_are_told_apart():
    times = {"a": (0.25, 4.0), "b": (0.5, 4.0), "c": (2.0, 17.0), "d": (2.0, 17.0), "e": (0.5, 4.0)}
    one, two = "one subsystem", "two subsystems, issue limit"
    pairs = {("a", "b"): two, ("a", "c"): two, ("a", "e"): one, ("b", "c"): two, ("c", "d"): one}
    raw = {"chains": made_up_chains(times), "mixes": made_up_mixes(pairs, times, 4.0)}
    found = {(pair.first, pair.second): pair for pair in analysis.mixes(raw)}
    assert {key: pair.shared for key, pair in found.items()} == {key: model == one for key, model in pairs.items()}
    assert max(pair.total[-1] for pair in found.values()) <= 4.0 + 1e-9
    assert all(min(pair.errors.values()) < 1e-9 for pair in found.values())
    assert analysis.subsystems(analysis.mixes(raw)) == {"a": "a", "b": "b", "c": "c", "d": "c", "e": "a"}


def test_mixes_as_in_the_paper():
    """Figure 12: λ₁ = 1, λ₂ = 4 and one instruction a cycle."""
    beta = np.array([1, 4, 12])
    assert analysis.mix_throughput("one subsystem", beta, 1, 4, 1) == pytest.approx([0.2, 0.5, 0.75])
    assert analysis.mix_throughput("two subsystems", beta, 1, 4, 1) == pytest.approx([0.25, 1, 1])
    limited = analysis.mix_throughput("two subsystems, issue limit", beta, 1, 4, 1)
    assert limited == pytest.approx([0.25, 0.8, 12 / 13])


def test_plateaus_are_found_and_steps_are_not():
    sizes = [1 << n for n in range(10, 26)]
    cycles = [32, 32, 32.5, 32, 32, 150, 281, 280, 282, 281, 281, 400, 520, 600, 682, 682]
    found = analysis.plateaus(sizes, cycles)
    assert [(p.first_bytes, p.last_bytes, p.cycles) for p in found] == [
        (1 << 10, 1 << 14, 32),
        (1 << 16, 1 << 20, 281),
    ]
    assert [p.cycles for p in analysis.plateaus(sizes, cycles, least_points=2)] == [32, 281, 682]
    assert analysis.plateaus([1], [5.0]) == []


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=30))
def test_plateaus_are_in_order_and_apart(cycles):
    sizes = list(range(1, len(cycles) + 1))
    found = analysis.plateaus(sizes, cycles, least_points=1)
    assert sum(p.last_bytes - p.first_bytes + 1 for p in found) == len(cycles)
    assert all(a.last_bytes < b.first_bytes for a, b in itertools.pairwise(found))


def test_a_neighbour_that_misses_again_gives_the_sector():
    rows = [
        {"level": "l1", "distance_bytes": d, "cycles": [150.0 if d < 32 else 280.0]} for d in (8, 24, 32, 64, 128)
    ]
    assert analysis.sector_bytes({"sectors": rows}, "l1") == 32


def test_what_is_in_flight_follows_littles_law():
    rows = [
        {"pattern": "p", "level": "dram", "sectors": n, "rounds": 10, "cycles": [10 * max(600, n / 2)]}
        for n in (32, 4096, 1024, 256)
    ]
    raw = {"misses": rows, "latency": {"dram_cold": {"cycles": [600.0]}}}
    found = analysis.flight(raw, "p", "dram")
    assert list(found.sectors) == [32, 256, 1024, 4096]
    assert found.sectors_per_cycle.max() == pytest.approx(2)
    assert analysis.in_flight(raw, "p") == pytest.approx(1200)


def made_up_patterns(cycles_of):
    rows = [
        {"pattern": name, "offsets": offsets.tolist(), "cycles": [cycles_of(offsets)]}
        for name, offsets in lane_offsets().items()
    ]
    return {"patterns": rows}


@pytest.mark.parametrize("lines_per_cycle", [2, 4])
@pytest.mark.parametrize("banked", [False, True])
def test_patterns_of_loads_show_the_l1(lines_per_cycle, banked):
    def cycles(offsets):
        lines = np.ceil(len(set(offsets // 128)) / lines_per_cycle)
        return float(max(lines, analysis.bank_words(offsets) if banked else 1))

    raw = made_up_patterns(cycles)
    assert analysis.l1_lines_per_cycle(raw) == lines_per_cycle
    assert analysis.l1_is_banked(raw) == banked
    assert analysis.pattern_error(raw, lines_per_cycle, banked=banked) == 0
    assert analysis.pattern_error(raw, lines_per_cycle, banked=not banked) >= 0.5


def test_scattered_requests_are_told_apart():
    keys = [
        (what, size, apart, sms)
        for what in ("LOADS", "STORES")
        for size in (4, 128)
        for apart in (4, 0)
        for sms in (1, 132)
    ]
    rows = [dict(zip(("what", "bytes", "apart", "sms"), key, strict=True), cycles=[n]) for n, key in enumerate(keys)]
    found = analysis.scattered_cycles({"scattered": rows}, "STORES", 4, every=True)
    assert found.value == keys.index(("STORES", 4, 4, 132))


def test_places_of_an_sm_are_taken_again():
    """Two places: the third block starts when the first has ended, the fourth when the second has."""
    records = np.zeros(8, RECORD)
    records["sm"] = [0, 0, 0, 0, 1, 1, 1, 1]
    records["start_cycle"] = [0, 5, 140, 260, 1000, 1005, 1140, 1260]
    records["end_cycle"] = [100, 200, 300, 400, 1100, 1200, 1300, 1400]
    assert [gaps.tolist() for gaps in turnarounds(records)] == [[40, 60], [40, 60]]


def test_a_barrier_costs_a_line_over_warps():
    rows = [{"warps": w, "length": n, "cycles": [9 + n * (13 + 2 * w)]} for w in (1, 8, 32) for n in (16, 48)]
    start, slope, error = analysis.barrier_cost({"barriers": rows})
    assert (start, slope) == (pytest.approx(13), pytest.approx(2))
    assert error < 1e-9


def test_a_statistic_shows_its_repeats():
    found = Statistic.of([4.0, 4.2, 4.1])
    assert found == Statistic(4.1, pytest.approx(0.2 / 4.1), 3)
    assert str(found) == "4.1 (median of 3, spread 4.9 %)"
