"""Fronts, costs, heat maps, rank correlations, sensitivities, saturation and clocks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.api import predict
from warplens.errors import InputError
from warplens.sweeps import (
    dvfs,
    fastest,
    heat_map,
    limits,
    pareto_front,
    parse_cost,
    ranking_agreement,
    run_sweep,
    saturation_point,
    sensitivity,
)
from warplens.sweeps.questions import _not_dominated, kendall_tau, performance, spearman_rho


@pytest.fixture(scope="module")
def table():
    vary = {"sms": [7, 14, 28], "dram.bandwidth": "200GB/s:800GB/s:200GB/s", "l1.mshrs": [0, 64]}
    return run_sweep(["mdm-baseline", "gpumech-fig8"], "mdm2020", vary, models=["mdm", "gpumech"]).table


@pytest.mark.parametrize(
    ("text", "weights", "constant"),
    [
        ("sms", {"sms": 1}, 0),
        ("3*sms + dram.bandwidth/100GB/s - 2", {"sms": 3, "dram.bandwidth": 1e-11}, -2),
        ("-sms+2 * sms + 1e3", {"sms": 1}, 1000),
        ("2*l1.size/16KiB - 0.5*l1.mshrs", {"l1.size": 2 / 16384, "l1.mshrs": -0.5}, 0),
        ("clock_hz/1GHz", {"clock": 1e-9}, 0),
    ],
)
def test_costs(text, weights, constant):
    cost = parse_cost(text)
    assert cost.weights == pytest.approx(weights)
    assert cost.constant == constant


@pytest.mark.parametrize(
    "text",
    ["", "3", "sms*sms", "sms sms", "__import__('os')", "2*", "sms/0", "smss", "sms/1GB", "(sms)", "sms+", "1/sms"],
)
def test_what_is_no_cost(text):
    with pytest.raises(InputError):
        parse_cost(text)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=25))
def test_a_front_is_what_nothing_dominates(points):
    kept = _not_dominated(np.array(points, dtype=float))

    def dominates(one, other):
        return all(a <= b for a, b in zip(one, other, strict=True)) and one != other

    expected = {p for p in points if not any(dominates(q, p) for q in points)}
    assert {points[index] for index in kept} == expected
    assert len(kept) == len(expected)  # of equals one stays


def test_a_front_of_a_sweep(table):
    front = pareto_front(table, ["sms", "dram.bandwidth/1GB/s"], "mdm")
    rows, speed = performance(table, "mdm")
    assert rows.num_rows == 12  # configurations with errors are left out
    speeds = {}
    for row in table.to_pylist():
        if row["model"] == "mdm" and row["error"] is None:
            speeds.setdefault(row["configuration"], []).append(row["ipc"] * row["clock"])
    for number, found in zip(rows.column("configuration").to_pylist(), speed, strict=True):
        assert found == pytest.approx(math.sqrt(math.prod(speeds[number])))
    assert 0 < front.num_rows <= 12
    assert front.column("cost: sms").to_pylist() == sorted(front.column("cost: sms").to_pylist())
    assert max(front.column("performance").to_pylist()) == speed.max()
    with pytest.raises(InputError, match="no rows of model 'wfg'"):
        pareto_front(table, ["sms"], "wfg")
    with pytest.raises(InputError, match="no column"):
        pareto_front(table, ["launch.warps_per_sm"], "mdm")


def test_the_fastest(table):
    for line in fastest(table):
        rows = [r for r in table.to_pylist() if (r["kernel"], r["model"]) == (line["kernel"], line["model"])]
        speeds = [row["ipc"] * row["clock"] for row in rows if row["error"] is None]
        assert line["speed"] == pytest.approx(max(speeds))
        assert line["least_speed"] == pytest.approx(min(speeds))
        assert line["ipc"] * line["clock"] == pytest.approx(max(speeds))


def test_a_heat_map(table):
    found = heat_map(table, "sms", "dram.bandwidth", "mdm-baseline", "mdm")
    assert found.values.shape == (4, 3)
    expected = predict(
        "mdm-baseline", "mdm2020", "mdm", overrides={"sms": 14, "dram.bandwidth": 6e11, "l1.mshrs": 64}
    ).ipc
    assert found.values[2, 1] == expected
    with pytest.raises(InputError, match="no rows"):
        heat_map(table, "sms", "dram.bandwidth", "nothing", "mdm")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_rank_correlations_are_those_of_their_definitions(pairs):
    a, b = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    score = tied_a = tied_b = 0
    for (x, y), (u, v) in itertools.combinations(pairs, 2):
        score += np.sign(x - u) * np.sign(y - v)
        tied_a += x != u
        tied_b += y != v
    if tied_a and tied_b:
        assert kendall_tau(a, b) == pytest.approx(score / math.sqrt(tied_a * tied_b))
    else:
        assert math.isnan(kendall_tau(a, b))

    def rank(values):
        return [(sum(w < v for w in values) + sum(w <= v for w in values) + 1) / 2 for v in values]

    if tied_a and tied_b:
        assert spearman_rho(a, b) == pytest.approx(np.corrcoef(rank(a), rank(b))[0, 1])


def test_models_that_lead_to_different_designs(table):
    found = {(each.one, each.other): each for each in ranking_agreement(table)}
    assert set(found) == {("mdm", "gpumech"), ("gpumech", "mdm")}
    for each in found.values():
        assert each.regret >= 1
        assert -1 <= each.kendall <= 1
        assert each.configurations == 12


def test_sensitivities_are_slopes_of_the_model():
    found = {each.key: each for each in sensitivity("mdm-baseline", "mdm2020")}
    assert [each.swing for each in found.values()] == sorted((each.swing for each in found.values()), reverse=True)
    noc = found["noc.bandwidth"]
    twice = predict("mdm-baseline", "mdm2020", "mdm", overrides={"noc.bandwidth": 2 * noc.value})
    assert noc.at_double == pytest.approx(predict("mdm-baseline", "mdm2020", "mdm").seconds / twice.seconds)
    assert found["dram.bandwidth"].elasticity > 0 > found["dram.latency"].elasticity
    (clock,) = sensitivity("mdm-baseline", "mdm2020", "mdm", keys=["clock_hz"])
    assert clock.key == "clock"
    with pytest.raises(InputError, match="no number above 0"):
        sensitivity("mdm-baseline", "mdm2020", keys=["scheduler"])


def test_a_compute_bound_kernel_follows_the_clock():
    (clock,) = sensitivity("mdm-baseline", "mdm2020", "naive-interval", keys=["clock"])
    assert clock.elasticity == pytest.approx(1.0)  # given stalls are cycles
    assert clock.at_half == pytest.approx(0.5)


def test_limits_get_better_step_by_step():
    found = limits("mdm-baseline", "mdm2020")
    assert found
    assert all(step.gain >= 1.01 for step in found)
    assert found[-1].speed == pytest.approx(math.prod(step.gain for step in found))
    assert found[0].category == "MSHR"


def test_saturation_is_where_more_warps_stop_helping():
    found = saturation_point("gpumech-fig8", model="gpumech")
    reached = found.ipc[found.warps >= found.point]
    assert reached[0] >= 0.95 * found.ipc.max()
    before = found.ipc[found.warps < found.point]
    assert not len(before) or before[-1] < 0.95 * found.ipc.max()


def test_clocks_by_factor_and_by_value():
    hertz, seconds = dvfs("mdm-baseline", "mdm2020", "0.5,1", models=["mdm"])
    again, same = dvfs("mdm-baseline", "mdm2020", hertz.tolist(), models=["mdm"])
    assert hertz.tolist() == again.tolist()
    assert seconds["mdm"].tolist() == same["mdm"].tolist()
    _, every = dvfs("mdm-baseline", "mdm2020", "1")
    assert "mdm" in every
    assert "roofline" not in every


def test_a_heat_map_over_clocks_shows_speed():
    """IPC would say that a slow clock is best."""
    vary = {"clock": [1e9, 2e9], "sms": [14, 28]}
    swept = run_sweep(["mdm-baseline"], "mdm2020", vary, models=["mdm"]).table
    found = heat_map(swept, "sms", "clock", "mdm-baseline", "mdm")
    assert found.measure == "10⁹ warp instructions/s"
    ipc = swept.column("ipc").to_numpy().reshape(2, 2)
    assert found.values == pytest.approx(ipc * np.array([[1.0], [2.0]]))
    assert (ipc[0] > ipc[1]).all() and found.values[1, 1] > found.values[0, 1]
