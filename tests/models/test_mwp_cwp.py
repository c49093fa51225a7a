"""MWP-CWP: the three cases in the printed order, Lemeire's restatement and its correction."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import gpu, run, with_mix
from reference.mwp_cwp import HongKim, Lemeire
from warplens.errors import InputError, MissingInputError

# A machine of the paper's kind, whose numbers the tests change one by one.
BASE = {
    "clock": 1e9,
    "sms": 16,
    "issue_width": 0.25,
    "dram.latency": 420,
    "dram.departure_coalesced": 4,
    "dram.departure_uncoalesced": 10,
    "dram.uncoalesced_transactions": 32,
    "dram.bandwidth": 80e9,
    "instructions.comp.interval": 4,
    "max_warps": 64,
}


def machine(**changes):
    values = BASE | {key.replace("__", "."): value for key, value in changes.items()}
    return gpu("hong-kim-example", **{key.replace(".", "__"): value for key, value in values.items()})


def hong_kim(comp, coalesced, uncoalesced, *, warps=20, synch=0, blocks_per_sm=None, **changes):
    """(a call that predicts, the oracle) for one launch that fills every SM once."""
    launch = {"warps_per_sm": warps}
    if blocks_per_sm is not None:
        launch["blocks_per_sm"] = blocks_per_sm
    workload = with_mix(
        {"comp": comp, "load_global": (coalesced + uncoalesced, 0.0, uncoalesced)}, launch, synchronizations=synch
    )
    seen = machine(**changes)
    oracle = HongKim(
        mem_ld=seen.dram.latency_cycles,
        departure_del_uncoal=seen.dram.departure_uncoalesced_cycles,
        departure_del_coal=seen.dram.departure_coalesced_cycles,
        uncoal_per_mw=seen.dram.uncoalesced_transactions,
        freq=seen.clock_hz,
        mem_bandwidth=seen.dram.bandwidth_bytes_per_s,
        load_bytes_per_warp=seen.l1.line_bytes,
        issue_cycles=4,
        active_sms=seen.sms,
        comp_insts=comp,
        uncoal_mem_insts=uncoalesced,
        coal_mem_insts=coalesced,
        synch_insts=synch,
        active_warps_per_sm=warps,
        active_blocks_per_sm=blocks_per_sm or 1,
        rep=1,
    )
    return partial(run, "mwp-cwp", workload, seen), oracle


def predicted(*counts, **changes):
    """(prediction, oracle)"""
    predict, oracle = hong_kim(*counts, **changes)
    return predict(), oracle


# -- Hong & Kim --------------------------------------------------------------------------------


@given(
    comp=st.integers(1, 500),
    coalesced=st.integers(0, 20),
    uncoalesced=st.integers(0, 20),
    warps=st.integers(1, 64),
    synch=st.integers(0, 4),
    blocks_per_sm=st.integers(1, 4),
    latency=st.integers(1, 900),
    departure=st.integers(1, 100),
    bandwidth=st.integers(10, 2000),
)
def test_prediction_is_the_oracles(
    comp, coalesced, uncoalesced, warps, synch, blocks_per_sm, latency, departure, bandwidth
):
    if coalesced + uncoalesced == 0:
        coalesced = 1
    predict, oracle = hong_kim(
        comp,
        coalesced,
        uncoalesced,
        warps=warps,
        synch=synch,
        blocks_per_sm=blocks_per_sm,
        dram__latency=latency,
        dram__departure_coalesced=departure,
        dram__bandwidth=bandwidth * 1e9,
    )
    cycles, equation = oracle.exec_cycles_app()
    if cycles + max(oracle.synch_cost(), 0.0) <= 0:  # MWP < 1, see the test of H-23 below
        with pytest.raises(InputError, match="gives no finite time above 0"):
            predict()
        return
    ours = predict()
    assert ours.terms["equation"] == equation
    assert ours.terms["MWP"] == pytest.approx(oracle.mwp, rel=1e-12)
    assert ours.terms["CWP"] == pytest.approx(oracle.cwp, rel=1e-12)
    assert ours.terms["Exec_cycles_app"] == pytest.approx(cycles, rel=1e-12)
    # A barrier never saves time: where MWP < 1, H-26 as printed would.
    assert ours.terms["Synch_cost"] == pytest.approx(max(oracle.synch_cost(), 0.0), rel=1e-9, abs=1e-9)
    assert ours.cycles == pytest.approx(cycles + max(oracle.synch_cost(), 0.0), rel=1e-12)
    issuing = oracle.comp_cycles * warps
    if cycles != pytest.approx(issuing, rel=1e-9):  # the warning leaves rounding errors alone
        assert any("fewer cycles than issuing" in text for text in ours.warnings) == (cycles < issuing)


def test_few_warps_take_h22():
    ours, oracle = predicted(4, 2, 0, warps=2)
    assert oracle.mwp == oracle.cwp == 2
    assert ours.terms["equation"] == 22
    assert ours.cycles == (840 + 24) + 12 * (2 - 1)


def test_one_warp_is_serial():
    """Case 6 of the paper"""
    ours, _ = predicted(4, 2, 0, warps=1)
    assert ours.terms["equation"] == 22
    assert ours.cycles == 840 + 24


def test_memory_bound_takes_h23():
    ours, oracle = predicted(4, 0, 2, warps=20)
    assert oracle.cwp > oracle.mwp
    assert ours.terms["equation"] == 23
    assert ours.cycles == pytest.approx(1460 * 20 / 2.28125 + 12 * 1.28125)


def test_compute_bound_takes_h24():
    """Enough bandwidth that MWP > CWP, while memory still takes longer than the computation of one warp."""
    ours, oracle = predicted(20, 2, 0, warps=20, dram__bandwidth=1e12)
    assert oracle.mwp > oracle.cwp
    assert oracle.comp_cycles < oracle.mem_cycles
    assert ours.terms["equation"] == 24
    assert ours.cycles == 420 + 88 * 20


def test_equal_mwp_and_cwp_take_h23():
    """CWP >= MWP: the case with equality is the memory-bound one."""
    ours, oracle = predicted(20, 1, 0, warps=20, dram__departure_coalesced=70, dram__bandwidth=1e15)
    assert oracle.mwp == oracle.cwp == 6
    assert ours.terms["equation"] == 23


def test_the_printed_order_prefers_h23_when_computation_dominates():
    """§3.2.2 describes Case 5 (Comp_cycles > Mem_cycles) by H-3, but the printed condition sends it to H-23.

    That can be less than issuing takes: a warning says so, and the corrected model takes the maximum.
    """
    ours, oracle = predicted(200, 1, 0, warps=20, dram__bandwidth=1e12)
    assert oracle.mwp > oracle.cwp
    assert oracle.comp_cycles > oracle.mem_cycles
    assert ours.terms["equation"] == 23
    issue_alone = 4 * 201 * 20
    assert ours.cycles < issue_alone
    assert any("H-23" in text for text in ours.warnings)
    workload = with_mix({"comp": 200, "load_global": 1}, {"warps_per_sm": 20})
    corrected = run("mwp-cwp-corrected", workload, machine(dram__bandwidth=1e12))
    assert corrected.cycles >= 4 * 200 * 20 + 420


def test_the_printed_order_is_not_warned_about_where_memory_takes_longer():
    assert not predicted(4, 0, 2)[0].warnings


def test_mwp_is_limited_by_departure_bandwidth_or_warps():
    assert predicted(4, 0, 2)[0].terms["MWP"] == 730 / 320
    by_bandwidth = predicted(4, 2, 0, dram__bandwidth=16e9)[0].terms
    assert by_bandwidth["MWP"] == by_bandwidth["MWP_peak_BW"] == pytest.approx(420 / 128)
    assert predicted(4, 2, 0, warps=3, dram__bandwidth=1e15)[0].terms["MWP"] == 3


def test_coalesced_and_uncoalesced_accesses_are_weighed():
    """H-10 … H-15"""
    terms = predicted(4, 1, 3)[0].terms
    assert terms["Mem_L"] == 0.75 * 730 + 0.25 * 420
    assert terms["Departure_delay"] == 0.75 * 320 + 0.25 * 4
    assert terms["Mem_cycles"] == 3 * 730 + 420


def test_fewer_active_sms_leave_more_bandwidth_to_each():
    """H-6 counts active SMs."""
    full, small = (
        run(
            "mwp-cwp",
            with_mix({"comp": 4, "load_global": 2}, {"blocks": blocks, "threads_per_block": 64, "blocks_per_sm": 1}),
            machine(),
        )
        for blocks in (16, 4)
    )
    assert small.terms["MWP_peak_BW"] == 4 * full.terms["MWP_peak_BW"]


@pytest.mark.parametrize(("blocks", "rep"), [(16, 0.5), (32, 1), (80, 2.5)])
def test_rep_counts_how_often_an_sm_is_filled(blocks, rep):
    """H-21"""
    launch = {"blocks": blocks, "threads_per_block": 64, "blocks_per_sm": 2}
    ours = run("mwp-cwp", with_mix({"comp": 4, "load_global": 2}, launch), machine())
    assert ours.terms["Rep"] == rep
    once = run("mwp-cwp", with_mix({"comp": 4, "load_global": 2}, launch | {"blocks": 32}), machine())
    assert ours.cycles == rep * once.cycles


def test_without_memory_instructions_only_issuing_takes_time():
    """Mb1: Exec = Comp_cycles·N·#Rep."""
    launch = {"blocks": 64, "threads_per_block": 64, "blocks_per_sm": 2}
    for model in ("mwp-cwp", "mwp-cwp-corrected"):
        assert run(model, with_mix({"comp": 23}, launch), machine()).cycles == 4 * 23 * 4 * 2


def test_without_memory_instructions_the_issue_limit_still_holds():
    """H-19 multiplies by #Issue_cycles: a pipeline faster than the issue does not issue faster."""
    workload = with_mix({"comp": 23}, {"warps_per_sm": 4})
    fast = machine(instructions__comp__interval=1)
    assert run("mwp-cwp", workload, fast).cycles == 4 * 23 * 4


def test_without_computation_every_access_is_still_issued():
    ours = run("mwp-cwp", with_mix({"load_global": 2}, {"warps_per_sm": 2}), machine())
    assert ours.terms["Comp_cycles"] == 4 * 2


def test_issue_cycles_are_at_least_those_of_the_slowest_pipeline():
    workload = with_mix({"comp": 6, "load_global": 2}, {"warps_per_sm": 2})
    assert run("mwp-cwp", workload, machine(instructions__comp__interval=8)).terms["Comp_cycles"] == 8 * 8
    assert run("mwp-cwp", workload, machine(instructions__comp__interval=1)).terms["Comp_cycles"] == 4 * 8


def test_barriers_cost_departures_of_the_other_memory_warps():
    """H-26"""
    without = predicted(4, 0, 2, blocks_per_sm=5)[0]
    with_two = predicted(4, 0, 2, blocks_per_sm=5, synch=2)[0]
    assert with_two.cycles - without.cycles == pytest.approx(320 * 1.28125 * 2 * 5)


def test_a_barrier_never_saves_time():
    """Where a departure takes longer than a latency, MWP is below 1 and H-26 as printed negative."""
    ours, oracle = predicted(4, 2, 0, synch=3, dram__departure_coalesced=1000)
    assert oracle.synch_cost() < 0
    assert ours.terms["Synch_cost"] == 0


def test_mwp_below_one_makes_h23_negative_and_is_refused():
    """As printed, H-23 subtracts a computation period where not even one memory warp fits into a latency."""
    predict, oracle = hong_kim(51, 1, 0, warps=1, dram__latency=1, dram__bandwidth=10e9)
    assert oracle.mwp < 1
    assert oracle.exec_cycles_app()[0] < 0
    with pytest.raises(InputError, match="model 'mwp-cwp' gives no finite time above 0 for workload 'mix'"):
        predict()


# -- where the machine has no departure delays ----------------------------------------------------


def test_departure_delays_are_derived_from_bandwidth_where_the_machine_gives_none():
    workload = with_mix({"comp": 4, "load_global": 2}, {"warps_per_sm": 8})
    ours = run("mwp-cwp", workload, gpu("mdm2020"))
    assert ours.terms["Departure_delay"] == pytest.approx(1.4 * 128 / 1050 * 28)  # an SM's share of the NoC
    assert any("gives no departure delays" in text for text in ours.warnings)
    on_dram = run("mwp-cwp", workload, gpu("gpumech2014"))
    assert on_dram.terms["Departure_delay"] == pytest.approx(1.0 * 128 / 192 * 16)


def test_lambdas_of_memory_stand_for_departures_where_the_machine_gives_them():
    workload = with_mix({"comp": 4, "mem": 2}, {"warps_per_sm": 5})
    terms = run("mwp-cwp", workload, "lemeire-example").terms
    assert (terms["Mem_L"], terms["Departure_delay"], terms["MWP_without_BW"]) == (6, 2, 3)
    assert terms["MWP_peak_BW"] == np.inf


def test_uncoalesced_transactions_come_from_the_mix_then_the_machine():
    launch = {"warps_per_sm": 8}
    entries = {"comp": 4, "load_global": (2, 0.0, 2)}
    of_machine = run("mwp-cwp", with_mix(entries, launch), machine()).terms["Departure_delay"]
    of_mix = run("mwp-cwp", with_mix(entries, launch, uncoalesced_transactions=8), machine()).terms
    assert (of_machine, of_mix["Departure_delay"]) == (320, 80)
    with pytest.raises(MissingInputError, match=r"--set dram\.uncoalesced_transactions=VALUE"):
        run("mwp-cwp", with_mix(entries, launch), gpu("mdm2020"))


def test_bytes_per_request_come_from_the_mix_then_the_line():
    launch = {"warps_per_sm": 8}
    entries = {"comp": 4, "load_global": 2}
    line = run("mwp-cwp", with_mix(entries, launch), machine()).terms["MWP_peak_BW"]
    half = run("mwp-cwp", with_mix(entries, launch, bytes_per_request=64), machine()).terms["MWP_peak_BW"]
    assert half == pytest.approx(2 * line)


# -- Lemeire's form --------------------------------------------------------------------------------


def lemeire(alpha_comp, alpha_mem, free_comp=0, free_mem=0, **timing):
    """(machine, mix entries, oracle) of a kernel in Lemeire's notation."""
    values = {"comp.latency": 4, "comp.interval": 1, "mem.latency": 6, "mem.interval": 2} | {
        key.replace("__", "."): value for key, value in timing.items()
    }
    seen = gpu("lemeire-example", **{f"instructions__{k.replace('.', '__')}": v for k, v in values.items()})
    entries = {"comp": (alpha_comp, free_comp), "mem": (alpha_mem, free_mem)}
    oracle = Lemeire(
        lambda_comp=values["comp.interval"],
        latency_comp=values["comp.latency"],
        lambda_mem=values["mem.interval"],
        latency_mem=values["mem.latency"],
        alpha_comp=alpha_comp,
        alpha_mem=alpha_mem,
        independent_comp=free_comp,
        independent_mem=free_mem,
    )
    return seen, entries, oracle


@given(
    alpha_comp=st.integers(1, 50),
    alpha_mem=st.integers(1, 10),
    free=st.data(),
    omega=st.integers(1, 64),
    comp=st.tuples(st.integers(1, 30), st.integers(1, 8)),
    mem=st.tuples(st.integers(1, 500), st.integers(1, 50)),
)
def test_both_forms_are_the_oracles(alpha_comp, alpha_mem, free, omega, comp, mem):
    free_comp, free_mem = free.draw(st.integers(0, alpha_comp)), free.draw(st.integers(0, alpha_mem))
    seen, entries, oracle = lemeire(
        alpha_comp,
        alpha_mem,
        free_comp,
        free_mem,
        comp__latency=comp[0],
        comp__interval=comp[1],
        mem__latency=mem[0],
        mem__interval=mem[1],
    )
    workload = with_mix(entries, {"warps_per_sm": omega})
    restated = run("mwp-cwp", workload, seen, form="lemeire")
    corrected = run("mwp-cwp-corrected", workload, seen)
    assert restated.terms["CPR"] == pytest.approx(oracle.cpr(omega), rel=1e-12)
    assert corrected.terms["CPR"] == pytest.approx(oracle.cpr_corrected(omega), rel=1e-12)
    assert corrected.cycles == pytest.approx(oracle.cpr_corrected(omega), rel=1e-12)


@pytest.mark.parametrize(
    ("alpha_comp", "omega", "case"),
    [(4, 10, "memory_bound"), (40, 10, "compute_bound"), (4, 2, "few"), (4, 3, "few")],
)
def test_each_case_of_the_restated_form(alpha_comp, omega, case):
    seen, entries, oracle = lemeire(alpha_comp, 2)
    cycles = run("mwp-cwp", with_mix(entries, {"warps_per_sm": omega}), seen, form="lemeire").cycles
    expected = {
        "memory_bound": oracle.memory_bound(omega),
        "compute_bound": oracle.compute_bound(omega),
        "few": oracle.occupancy_bound(omega, 2 * 6 + alpha_comp),
    }
    assert cycles == expected[case]


def test_the_corrected_form_counts_compute_latencies_and_independent_instructions():
    """Example kernel alone: Λ_app = 25, not Λ*_app = 16."""
    seen, entries, _ = lemeire(4, 2, 1)
    assert run("mwp-cwp-corrected", with_mix(entries, {"warps_per_sm": 1}), seen).cycles == 25
    assert run("mwp-cwp", with_mix(entries, {"warps_per_sm": 1}), seen, form="lemeire").cycles == 16


def test_the_corrected_form_is_never_below_any_case():
    seen, entries, oracle = lemeire(6, 2)
    for omega in range(1, 65):
        cycles = run("mwp-cwp-corrected", with_mix(entries, {"warps_per_sm": omega}), seen).cycles
        assert cycles >= oracle.memory_bound(omega)
        assert cycles >= oracle.compute_bound(omega)


def test_without_computation_cwp_is_unlimited():
    ours = run("mwp-cwp", with_mix({"mem": 2}, {"warps_per_sm": 9}), "lemeire-example", form="lemeire")
    assert ours.terms["CWP"] == np.inf
    assert ours.cycles == 2 * 9 * 2


def test_barriers_add_h26_per_run_in_lemeires_form_too():
    seen, entries, _ = lemeire(4, 2)
    launch = {"warps_per_sm": 8, "blocks_per_sm": 2}
    for model, options in (("mwp-cwp", {"form": "lemeire"}), ("mwp-cwp-corrected", {})):
        without = run(model, with_mix(entries, launch), seen, **options).cycles
        barriers = run(model, with_mix(entries, launch, synchronizations=3), seen, **options).cycles
        assert barriers - without == 2 * (3 - 1) * 3 * 2


def test_several_memory_classes_are_weighed_by_their_counts():
    """Λ and λ of the memory warps are the mean over the accesses, as H-12 and H-15 weigh theirs."""
    seen = gpu(
        "lemeire-example",
        instructions__load_global__latency=100,
        instructions__load_global__interval=2,
        instructions__store_global__latency=20,
        instructions__store_global__interval=6,
    )
    one_way = with_mix({"comp": 4, "load_global": 3, "store_global": 1}, {"warps_per_sm": 4})
    other_way = with_mix({"comp": 4, "store_global": 1, "load_global": 3}, {"warps_per_sm": 4})
    terms = run("mwp-cwp", one_way, seen).terms
    assert terms == run("mwp-cwp", other_way, seen).terms
    assert (terms["Mem_L"], terms["Departure_delay"]) == (80, 3)
