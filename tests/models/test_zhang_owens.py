"""Throughput model of Zhang & Owens, Z-1 and Z-2."""

from __future__ import annotations

import pytest

from making import gpu, run, with_mix


def zhang_owens(entries, warps, **changes):
    return run("zhang-owens", with_mix(entries, {"warps_per_sm": warps}), gpu("lemeire-example", **changes))


@pytest.mark.parametrize(("warps", "computing", "loading"), [(1, 4 * 4, 2 * 6), (2, 4 * 2, 2 * 3), (8, 4 * 1, 2 * 2)])
def test_each_component_is_bound_by_latency_over_warps_or_by_throughput(warps, computing, loading):
    """λ = 1 and Λ = 4 of computation, λ = 2 and Λ = 6 of memory."""
    terms = zhang_owens({"comp": 4, "mem": 2}, warps).terms
    assert terms["T_instruction"] == pytest.approx(computing)
    assert terms["T_global"] == pytest.approx(loading)


def test_the_slowest_component_counts_and_the_others_overlap():
    assert zhang_owens({"comp": 4, "mem": 1}, 4).ipc == pytest.approx(5 / 4)
    assert zhang_owens({"comp": 1, "mem": 4}, 4).ipc == pytest.approx(5 / 8)


def test_with_few_warps_it_is_above_volkov_whose_latencies_add_up():
    workload = with_mix({"comp": 4, "mem": 2}, {"warps_per_sm": 1})
    assert run("zhang-owens", workload, "lemeire-example").ipc == pytest.approx(6 / 16)
    assert run("volkov", workload, "lemeire-example").ipc == pytest.approx(6 / 28)


def test_no_instruction_takes_less_than_an_issue_slot():
    assert zhang_owens({"comp": 4, "mem": 1}, 64, schedulers=1, issue_width=0.25).terms["T_instruction"] == 16
