"""Volkov's occupancy roofline, L-2 and L-3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import gpu, run, with_graph, with_mix
from reference import occupancy_roofline as oracle


def volkov(entries, warps, **changes):
    return run("volkov", with_mix(entries, {"warps_per_sm": warps}), gpu("lemeire-example", **changes))


def test_latency_bound_below_the_roof():
    prediction = volkov({"comp": 4, "mem": 2}, 2)
    assert prediction.terms["Lambda_app"] == 4 * 4 + 2 * 6
    assert prediction.terms["WPC"] == 2 / 28


def test_throughput_bound_at_the_roof():
    prediction = volkov({"comp": 4, "mem": 2}, 20)
    assert prediction.terms["WPC"] == prediction.terms["WPC_roof"] == 1 / 4


def test_the_roof_is_reached_exactly_where_the_term_says():
    terms = volkov({"comp": 4, "mem": 2}, 7).terms
    assert terms["warps_to_saturate"] == 7
    assert terms["WPC"] == 1 / 4


def test_independent_instructions_count_their_interval():
    """Set J of L-2: λ in place of Λ, for computations and for memory accesses."""
    assert volkov({"comp": (4, 1), "mem": 2}, 1).terms["Lambda_app"] == 3 * 4 + 1 * 1 + 2 * 6
    assert volkov({"comp": 4, "mem": (2, 1)}, 1).terms["Lambda_app"] == 4 * 4 + 6 + 2
    assert volkov({"comp": (4, 4), "mem": (2, 2)}, 1).terms["Lambda_app"] == 4 * 1 + 2 * 2


def test_the_issue_limit_is_one_more_roof():
    assert volkov({"comp": 4, "mem": 2}, 64, schedulers=1).terms["WPC"] == 1 / 6


def test_in_a_graph_what_is_not_on_the_longest_chain_is_independent():
    workload = with_graph("comp", "comp", ("mem", (0,)), warps_per_sm=1)
    assert run("volkov", workload, "lemeire-example").terms["Lambda_app"] == 4 + 6 + 1


@given(
    comp=st.tuples(st.integers(1, 100), st.integers(0, 100)),
    mem=st.tuples(st.integers(1, 20), st.integers(0, 20)),
    timing=st.tuples(st.integers(0, 40), st.integers(1, 32), st.integers(0, 900), st.integers(1, 90)),
    warps=st.integers(1, 64),
    issue=st.sampled_from([0.5, 1, 2, 4]),
)
def test_prediction_is_the_oracles(comp, mem, timing, warps, issue):
    comp, mem = (comp[0], min(comp)), (mem[0], min(mem))
    prediction = volkov(
        {"comp": comp, "mem": mem},
        warps,
        schedulers=1,
        issue_width=issue,
        instructions__comp__latency=timing[0],
        instructions__comp__interval=timing[1] / 8,
        instructions__mem__latency=timing[2],
        instructions__mem__interval=timing[3] / 8,
    )
    shares = [
        oracle.Share(comp[0], timing[1] / 8, timing[0], "compute", comp[1]),
        oracle.Share(mem[0], timing[3] / 8, timing[2], "memory", mem[1]),
    ]
    assert prediction.terms["WPC"] == pytest.approx(oracle.volkov(shares, warps, issue), rel=1e-14)
    assert prediction.terms["Lambda_app"] == oracle.app_latency(shares)
    assert prediction.ipc == pytest.approx(prediction.terms["WPC"] * (comp[0] + mem[0]), rel=1e-14)


@pytest.mark.parametrize(("alpha", "warps"), [(0, 30), (48.8, 54), (1e9, 24)])
def test_the_cusp_of_the_thesis(alpha, warps):
    """Volkov (2016) §4.3, §4.5, on Maxwell: arithmetic needs 24 warps, memory 30, and both at once 54."""
    machine = gpu(
        "lemeire-example",
        issue_width=1000,
        max_warps=64,
        instructions__comp__latency=6,
        instructions__comp__interval=1 / 4,
        instructions__mem__latency=368,
        instructions__mem__interval=1 / 0.082,
    )
    found = run("volkov", with_mix({"mem": 1, "comp": alpha}, {"warps_per_sm": 8}), machine)
    assert found.terms["warps_to_saturate"] == pytest.approx(warps, abs=0.3)


def test_concurrent_instructions_are_not_concurrent_warps():
    """Volkov (2016) Fig. 4.7: latencies 3 and 12, four additions per access; six warps fill the adder."""
    machine = gpu(
        "lemeire-example",
        issue_width=1000,
        instructions__comp__latency=3,
        instructions__comp__interval=1,
        instructions__mem__latency=12,
        instructions__mem__interval=0.5,
    )
    six, five = (run("volkov", with_mix({"mem": 1, "comp": 4}, {"warps_per_sm": n}), machine) for n in (6, 5))
    assert six.terms["WPC"] == six.terms["WPC_roof"] == 1 / 4
    assert five.terms["WPC"] < 1 / 4
