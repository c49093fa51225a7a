"""GPUPerf: numbers worked out by hand from S-1 … S-17."""

from __future__ import annotations

import pytest

from making import complete_gpu, gpu, run, with_graph, with_mix


def found(entries, warps, machine=None, **options):
    return run("gpuperf", with_mix(entries, {"warps_per_sm": warps}), machine or gpu("lemeire-example"), **options)


def test_an_example_by_hand():
    """λ, Λ of Lemeire's example: 1 and 4 for computation, 2 and 6 for memory; two warps."""
    terms = found({"comp": 4, "mem": 2}, 2).terms
    assert terms["ITILP_max"] == 4
    assert terms["ITILP"] == 2
    assert terms["W_parallel"] == 12 * 4 / 2
    assert (terms["MWP"], terms["CWP"]) == (2, 2)
    assert terms["ITMLP"] == 1
    assert terms["T_mem"] == 2 * 2 * 6
    assert terms["T_overlap"] == 24 / 2
    assert found({"comp": 4, "mem": 2}, 2).cycles == 24 + 24 - 12


def test_benefits_are_what_the_launch_would_save():
    terms = found({"comp": 4, "mem": 2}, 2).terms
    assert terms["B_itilp"] == 36 - (12 + 24 - 6)
    assert terms["B_memlp"] == pytest.approx(36 - 24)
    assert terms["B_serial"] == 0


def test_independent_instructions_hide_latency():
    """ILP 4 / (4 − 2) = 2 doubles ITILP, MLP 2 / (2 − 1) = 2 doubles ITMLP."""
    terms = found({"comp": (4, 2), "mem": (2, 1)}, 2).terms
    assert terms["ITILP"] == 4
    assert terms["ITMLP"] == 2


def test_computation_alone_takes_its_issue_slots():
    prediction = found({"comp": 100}, 8)
    assert prediction.cycles == 800
    assert "T_mem_min" not in prediction.terms


def test_special_functions_beyond_the_units_share_are_serial():
    """20 of 40 instructions on a unit of a quarter of the rate: half less a quarter of them wait. S-9, S-10"""
    machine = gpu("lemeire-example", instructions__sfu__interval=4, instructions__comp__interval=1)
    terms = found({"comp": 20, "sfu": 20}, 4, machine).terms
    assert terms["W_serial"] == pytest.approx(4 * 20 * 4 * (20 / 40 - 1 / 4))
    assert found({"comp": 30, "sfu": 10}, 4, machine).terms["W_serial"] == 0


def test_barriers_count_with_a_factor_of_the_machine():
    work = with_mix({"comp": 20, "load_global": 2}, {"warps_per_sm": 4}, synchronizations=3)
    without, counted = (run("gpuperf", work, complete_gpu(), sync_factor=factor) for factor in (0.0, 2.0))
    assert without.terms["W_serial"] == 0
    latency = complete_gpu().memory_latency_cycles_now("")
    assert counted.terms["W_serial"] == pytest.approx(4 * 3 * 2.0 * latency * 2 / 22)


def test_in_order_a_warp_waits_at_each_first_use():
    """Two turns of load and use, then both loads first: MLP 1 and 2, where the longest chain has one load of both."""
    turns = with_graph("mem", ("comp", (0,)), "mem", ("comp", (2,)), warps_per_sm=1)
    ahead = with_graph("mem", "mem", ("comp", (0,)), ("comp", (1,)), warps_per_sm=1)
    chain, in_order, both = (
        run("gpuperf", graph, gpu("lemeire-example"), parallelism=kind).terms["ITMLP"]
        for graph, kind in ((turns, "chain"), (turns, "in-order"), (ahead, "in-order"))
    )
    assert (chain, in_order, both) == (2, 1, 2)


def test_coalescing_saves_the_transactions_of_an_access():
    """Four transactions of an access come Δ apart (S-13): one warp alone waits for them, and then for none."""
    machine = complete_gpu(dram__departure_coalesced=4, dram__departure_uncoalesced=4)
    alone = {"warps_per_sm": 1}
    spread = run(
        "gpuperf", with_mix({"comp": 10, "load_global": (2, 0, 2)}, alone, uncoalesced_transactions=4), machine
    ).terms
    whole = found({"comp": 10, "load_global": 2}, 1, machine).terms
    assert spread["B_coalesced"] > 0 == whole["B_coalesced"]
    assert spread["AMAT"] - whole["AMAT"] == 3 * 4


def test_what_computes_no_floating_point_is_overhead():
    """30 of 40 instructions steer: with them an SM computes four times as long."""
    machine = gpu("lemeire-example")
    assert found({"int32": 30, "fp32": 10}, 8, machine).terms["B_fp"] == 8 * 30
    assert found({"fp32": 10}, 8, machine).terms["B_fp"] == found({"int32": 10}, 8, machine).terms["B_fp"] == 0
