"""Every golden number of docs/conventions.md §1 to §5, one test each, from bundled workloads where there are any."""

from __future__ import annotations

import pytest

from making import Interval, gpu, run, with_mix, with_profile
from reference import mwp_cwp
from reference.interval_models import average_memory_access_time
from warplens import load_workload, predict


def example(name: str, model: str, *, warps: float | None = None, options: dict | None = None, **overrides):
    """A model on a bundled workload, at another occupancy where `warps` is given."""
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    if warps is not None:
        changes["launch.warps_per_sm"] = warps
    return predict(name, model=model, overrides=changes, options=options)


# -- §1 global-view models ----------------------------------------------------------------


def test_example_kernel_app_latency_is_25():
    assert example("lemeire-example", "volkov").terms["Lambda_app"] == 25


def test_example_kernel_runs_one_warp_in_25_cycles():
    alone = example("lemeire-example", "volkov", warps=1)
    assert alone.terms["WPC"] == 1 / 25
    assert alone.cycles == 25


def test_example_kernel_roof_is_a_quarter_warp_per_cycle():
    assert example("lemeire-example", "roofline").terms["WPC_roof"] == 1 / 4
    assert example("lemeire-example", "volkov").terms["WPC_roof"] == 1 / 4


def test_example_kernel_reaches_the_roof_with_seven_warps():
    assert example("lemeire-example", "volkov", warps=6).terms["WPC"] < 1 / 4
    assert example("lemeire-example", "volkov", warps=7).terms["WPC"] == 1 / 4


# -- §2 MWP-CWP ---------------------------------------------------------------------------

#: Table 2 of Hong & Kim, unrounded where the paper prints rounded values.
TABLE_2 = {
    "W": 20,
    "Departure_delay": 320,
    "Mem_L": 730,
    "MWP_without_BW": 2.28125,
    "MWP": 2.28125,
    "MWP_peak_BW": 80e9 / (1e9 * 128 / 730 * 16),
    "Comp_cycles": 132,
    "Mem_cycles": 4380,
    "CWP_full": 4512 / 132,
    "CWP": 20,
    "Rep": 1,
    "equation": 23,
}


@pytest.mark.parametrize("term", TABLE_2)
def test_table_2_term(term):
    assert example("hong-kim-table2", "mwp-cwp").terms[term] == pytest.approx(TABLE_2[term], rel=1e-14)


@pytest.mark.parametrize(
    ("term", "printed", "digits"), [("MWP", 2.28, 2), ("MWP_peak_BW", 28.57, 1), ("CWP_full", 34.18, 2)]
)
def test_table_2_terms_round_to_what_the_paper_prints(term, printed, digits):
    """The paper's 28.57 comes from BW_per_warp rounded to 0.175 GB/s: one digit remains."""
    ours = example("hong-kim-table2", "mwp-cwp").terms[term]
    assert abs(ours - printed) <= 0.6 * 10**-digits


def test_table_2_exec_cycles_unrounded():
    assert example("hong-kim-table2", "mwp-cwp").terms["Exec_cycles_app"] == pytest.approx(38_428.19, abs=0.005)


def test_table_2_synch_cost_unrounded():
    assert example("hong-kim-table2", "mwp-cwp").terms["Synch_cost"] == 12_300.0


def test_table_2_total_unrounded():
    assert example("hong-kim-table2", "mwp-cwp").cycles == pytest.approx(50_728.19, abs=0.005)


TABLE_2_INPUT = mwp_cwp.HongKim(
    mem_ld=420,
    departure_del_uncoal=10,
    departure_del_coal=4,
    uncoal_per_mw=32,
    freq=1e9,
    mem_bandwidth=80e9,
    load_bytes_per_warp=128,
    issue_cycles=4,
    active_sms=16,
    comp_insts=27,
    uncoal_mem_insts=6,
    coal_mem_insts=0,
    synch_insts=6,
    active_warps_per_sm=20,
    active_blocks_per_sm=5,
    rep=1,
)


def test_table_2_exec_cycles_with_the_papers_rounded_mwp():
    """The paper rounds MWP to 2.28 and then prints 38450; its own arithmetic gives 38449.2."""
    cycles, equation = TABLE_2_INPUT.exec_cycles_app(mwp=2.28)
    assert equation == 23
    assert cycles == pytest.approx(38_449.2, abs=0.05)
    assert cycles == pytest.approx(38_450, abs=1)


def test_table_2_synch_cost_with_the_papers_rounded_mwp():
    assert TABLE_2_INPUT.synch_cost(mwp=2.28) == pytest.approx(12_288)


def test_table_2_total_with_the_papers_rounded_mwp():
    total = TABLE_2_INPUT.exec_cycles_app(mwp=2.28)[0] + TABLE_2_INPUT.synch_cost(mwp=2.28)
    assert total == pytest.approx(50_738, abs=1)


def test_example_kernel_mwp_is_3_and_cwp_is_4():
    terms = example("lemeire-example", "mwp-cwp", options={"form": "lemeire"}).terms
    assert (terms["MWP"], terms["CWP"]) == (3, 4)


@pytest.mark.parametrize("omega", [1, 2, 3])
def test_example_kernel_cpr_with_up_to_three_warps(omega):
    terms = example("lemeire-example", "mwp-cwp", warps=omega, options={"form": "lemeire"}).terms
    assert terms["CPR"] == 16 + 2 * (omega - 1)


@pytest.mark.parametrize("omega", [4, 5, 7, 10, 64])
def test_example_kernel_cpr_with_more_than_three_warps(omega):
    terms = example("lemeire-example", "mwp-cwp", warps=omega, options={"form": "lemeire"}).terms
    assert terms["CPR"] == 4 * omega + 6


def test_40_blocks_run_five_times():
    """40 blocks on 4 SMs with 2 blocks each (§3.4.1)."""
    launch = {"blocks": 40, "threads_per_block": 128, "blocks_per_sm": 2}
    assert run("mwp-cwp", with_mix({"int32": 10, "load_global": 2}, launch), gpu("fx5600", sms=4)).terms["Rep"] == 5


# -- §3 WFG -------------------------------------------------------------------------------

WFG_CASES = ("wfg-case1", "wfg-case2", "wfg-case3")


@pytest.mark.parametrize("case", WFG_CASES)
@pytest.mark.parametrize("model", ["wfg", "wfg-corrected"])
def test_wfg_one_warp_takes_14_cycles(case, model):
    assert example(case, model, warps=1).terms["CPR"] == 14


@pytest.mark.parametrize(("case", "cycles"), list(zip(WFG_CASES, (16, 11.5, 23.5), strict=True)))
def test_wfg_original_two_warps(case, cycles):
    assert example(case, "wfg", warps=2).terms["CPR"] == cycles


@pytest.mark.parametrize("case", WFG_CASES)
def test_wfg_corrected_two_warps_take_14_cycles(case):
    assert example(case, "wfg-corrected", warps=2).terms["CPR"] == 14


def test_wfg_original_warns_where_two_warps_are_faster_than_one():
    assert any("before one warp alone would" in text for text in example("wfg-case2", "wfg", warps=2).warnings)
    assert not example("wfg-case1", "wfg", warps=2).warnings
    assert not example("wfg-case3", "wfg", warps=2).warnings


# -- §4 GPUMech ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options", "instructions"),
    [
        ("gpumech-mt", {"policy": "rr"}, 2),
        ("gpumech-rr-corrected", {}, 6),
        ("gpumech-mt", {"policy": "gto"}, 3),
    ],
    ids=["rr", "rr-corrected", "gto"],
)
def test_figure_8_nonoverlapped_instructions(model, options, instructions):
    assert example("gpumech-fig8", model, options=options).terms["nonoverlapped_insts"] == instructions


def test_figure_2_first_interval_has_naive_ipc_3_over_11():
    alone = with_profile(Interval(1, 10), warps_per_sm=3)
    assert run("naive-interval", alone, gpu("gpumech2014", sms=1)).ipc == pytest.approx(3 / 11, rel=1e-15)


def test_figure_2_first_interval_is_that_of_the_bundled_workload():
    first = load_workload("gpumech-fig2").profile.matrix[0]
    assert list(first[:2]) == [1, 10]


def test_figure_9_queueing_delay_is_a_quarter_of_the_miss_latency():
    terms = example("gpumech-fig9", "gpumech-mt-mshr").terms
    assert terms["exp_queuing_delay"] == 0.25 * 120
    assert terms["core_reqs"] == 8


def test_amat_of_90_percent_l2_hits_is_150_cycles():
    """The average miss latency shows in the expected queueing delay, a quarter of it in Fig. 9's situation.

    Ten load instructions, nine of which hit L2 (120 cycles) and one of which goes on to DRAM (120 + 300).
    """
    hits = [Interval(3, 120, 1, 2, 0, 0.0)] * 9
    misses = [Interval(3, 420, 1, 2, 0, 1.0)]
    workload = with_profile(*hits, *misses, warps_per_sm=4)
    delay = run("gpumech-mt-mshr", workload, gpu("gpumech2014", l1__mshrs=6)).terms["exp_queuing_delay"]
    assert average_memory_access_time([(0.9, 120), (0.1, 420)]) == pytest.approx(150)
    assert delay / 0.25 == pytest.approx(150)


def test_100_stall_cycles_are_divided_by_where_loads_end():
    stack = run("gpumech-mt", with_profile(Interval(1, 100, 1, 1, 0, 0.9), warps_per_sm=1), gpu("gpumech2014")).stack
    assert (stack["L2"], stack["DRAM"]) == pytest.approx((10, 90))


# -- §5 MDM -------------------------------------------------------------------------------

MDM_TERMS = {
    "L_NoC": (0.170667, 5e-7),
    "L_DRAM": (0.373333, 5e-7),
    "M": (128, 0),
    "S_NoC": (611.669, 5e-4),
    "S_DRAM": (1338.027, 5e-4),
    "S_Mem": (2289.696, 5e-4),
    "batches": (16, 0),
    "S_MSHR": (34_345.44, 5e-3),
}


@pytest.mark.parametrize("term", MDM_TERMS)
def test_table_3_machine_with_all_reads_missing_the_llc(term):
    printed, half_a_digit = MDM_TERMS[term]
    prediction = example("mdm-baseline", "mdm")
    assert prediction.terms["W"] == 64
    assert prediction.terms[term] == pytest.approx(printed, abs=half_a_digit, rel=0)


# -- §0 rules -----------------------------------------------------------------------------


def test_pure_compute_under_gto_exceeds_the_issue_rate_as_printed_and_is_clamped():
    """docs/conventions.md §0: the raw value is a term and a warning, `clamp=false` shows the print."""
    pure = with_profile(Interval(100, 0), warps_per_sm=64)
    clamped = run("gpumech-mt", pure, "mdm2020")
    printed = run("gpumech-mt", pure, "mdm2020", clamp=False)
    assert clamped.ipc == 28  # one instruction a cycle on each of 28 SMs
    assert printed.ipc == clamped.terms["IPC_raw"] == 64 * 28
    assert any("clamped" in text for text in clamped.warnings)
    assert any("exceed the issue rate" in text for text in printed.warnings)


def test_cycles_are_the_instructions_of_the_launch_over_the_ipc():
    workload = with_mix({"comp": 10}, {"blocks": 1000, "threads_per_block": 100})  # 4 warps a block, one partial
    prediction = run("volkov", workload, "mdm2020")
    assert prediction.cycles == pytest.approx(1000 * 4 * 10 / prediction.ipc, rel=1e-15)
    assert prediction.cpi == 28 / prediction.ipc
