"""Transit: the crossing of the two occupancy rooflines, L-4 … L-14."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import gpu, run, with_mix
from reference import occupancy_roofline as oracle
from warplens.models.transit import steady_state


def transit(alpha_comp, alpha_mem, warps, **changes):
    entries = {name: count for name, count in (("comp", alpha_comp), ("mem", alpha_mem)) if count}
    return run("transit", with_mix(entries, {"warps_per_sm": warps}), gpu("lemeire-example", **changes)).terms


def supply(terms, latency, busy):
    """f(k): warps per cycle that memory serves with k waiting."""
    return min(1 / busy, terms["k"] / latency)


def demanded(terms, latency, busy):
    """g(x): warps per cycle that computation asks for with x computing."""
    return min(1 / busy, terms["x"] / latency)


def test_crossing_on_both_slopes():
    """L-11: too few warps for either roof."""
    terms = transit(4, 2, 5)
    assert terms["k"] == 5 * 12 / (12 + 16) == pytest.approx(5 / (1 + 2 * 4 / 6))
    assert terms["WPC"] == pytest.approx(5 / 28)


def test_crossing_on_the_memory_roof():
    terms = transit(4, 4, 20)
    assert terms["WPC"] == 1 / 8
    assert terms["x"] == pytest.approx(16 / 8)  # just enough computing to keep memory busy
    assert terms["k"] == pytest.approx(18)


def test_crossing_on_the_compute_roof():
    terms = transit(8, 2, 20)
    assert terms["WPC"] == 1 / 8
    assert terms["k"] == pytest.approx(12 / 8)  # just enough waiting to keep computation busy


def test_equal_roofs_meet_in_a_range_and_the_largest_k_is_given():
    """The example kernel lies on the ridge: any k between the roofs' feet fits."""
    terms = transit(4, 2, 10)
    assert terms["WPC"] == 1 / 4
    assert terms["k"] == pytest.approx(10 - 16 / 4)
    assert terms["k"] >= 12 / 4


def test_the_slopes_hold_up_to_the_point_where_they_meet_the_roof():
    assert transit(4, 2, 7)["WPC"] == pytest.approx(1 / 4)
    assert transit(4, 2, 6.9)["WPC"] == pytest.approx(6.9 / 28)


@pytest.mark.parametrize(("alpha_comp", "alpha_mem", "warps"), [(4, 2, 5), (4, 4, 20), (8, 2, 20), (4, 2, 10)])
def test_supply_meets_demand_at_the_crossing(alpha_comp, alpha_mem, warps):
    """L-8"""
    terms = transit(alpha_comp, alpha_mem, warps)
    assert terms["k"] + terms["x"] == pytest.approx(warps)
    assert supply(terms, 6 * alpha_mem, 2 * alpha_mem) == pytest.approx(terms["WPC"])
    assert demanded(terms, 4 * alpha_comp, alpha_comp) == pytest.approx(terms["WPC"])


def test_without_memory_every_warp_computes():
    terms = transit(4, 0, 2)
    assert (terms["k"], terms["WPC"]) == (0, 2 / 16)
    assert transit(4, 0, 20)["WPC"] == 1 / 4


def test_without_computation_every_warp_waits():
    terms = transit(0, 2, 2)
    assert (terms["k"], terms["WPC"]) == (2, 2 / 12)
    assert transit(0, 2, 20)["WPC"] == 1 / 4


def test_the_issue_limit_is_not_part_of_it():
    assert transit(8, 2, 20, issue_width=0.25) == transit(8, 2, 20)


def test_independence_is_not_part_of_it():
    free = run("transit", with_mix({"comp": (4, 2), "mem": (2, 1)}, {"warps_per_sm": 3}), "lemeire-example")
    assert free.terms["WPC"] == 3 / 28


def test_several_compute_pipelines_are_bounded_by_the_slowest():
    machine = gpu(
        "lemeire-example",
        instructions__sfu__latency=9,
        instructions__sfu__interval=4,
        instructions__sfu__subsystem="special",
    )
    prediction = run("transit", with_mix({"comp": 4, "sfu": 3, "mem": 1}, {"warps_per_sm": 64}), machine)
    assert prediction.terms["WPC"] == 1 / 12
    assert any("one compute side" in text for text in prediction.warnings)


@given(
    alphas=st.tuples(st.integers(0, 50), st.integers(0, 20)).filter(any),
    timing=st.tuples(st.integers(1, 40), st.integers(1, 32), st.integers(1, 900), st.integers(1, 90)),
    warps=st.integers(1, 64),
)
def test_the_crossing_is_the_one_found_by_halving(alphas, timing, warps):
    terms = transit(
        *alphas,
        warps,
        instructions__comp__latency=timing[0],
        instructions__comp__interval=timing[1] / 8,
        instructions__mem__latency=timing[2],
        instructions__mem__interval=timing[3] / 8,
    )
    shares = []
    if alphas[0]:
        shares.append(oracle.Share(alphas[0], timing[1] / 8, timing[0], "compute"))
    if alphas[1]:
        shares.append(oracle.Share(alphas[1], timing[3] / 8, timing[2], "memory"))
    assert terms["WPC"] == pytest.approx(oracle.transit(shares, warps), rel=1e-12)


def test_a_handful_of_computing_warps_among_many_accesses_is_not_lost_to_rounding():
    """ω - k rounds to 0 where nearly all warps wait; the warps that compute are found directly."""
    workload = with_mix({"comp": 1, "mem": 1e17}, {"warps_per_sm": 20})
    machine = gpu("lemeire-example", issue_width=1000, instructions__mem__interval=0)
    assert run("transit", workload, machine).cycles == pytest.approx(
        run("volkov", workload, machine).cycles, rel=1e-12
    )


def test_a_memory_that_serves_several_warps_a_cycle():
    sides = {"compute_latency": 5.0, "memory_latency": 10.0, "compute_roof": 4.0, "memory_roof": 2.0}
    k, warps_per_cycle = steady_state(np.array([100.0]), **{name: np.array([each]) for name, each in sides.items()})
    assert (k.tolist(), warps_per_cycle.tolist()) == ([90.0], [2.0])
