"""GPUMech and its ablations: every branch of G-1 … G-23, options, and whole predictions against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import Interval, complete_gpu, gpu, oracle_machine, run, with_graph, with_profile
from reference import interval_models as oracle
from warplens.machine import load_gpu
from warplens.models import MODELS

INTERVAL_MODELS = list(oracle.TERMS)


def expected_ipc(model, workload, machine, policy, **options):
    """The oracle's IPC of the whole GPU, at the workload's occupancy."""
    intervals = [Interval(*row) for row in workload.profile.matrix]
    seen = oracle_machine(machine, workload.launch.warps_per_sm)
    accesses = sum(i.memory_instructions for i in intervals)
    to_dram = sum(i.memory_instructions * i.miss_ratio for i in intervals) / accesses if accesses else 0.0
    latency = workload.profile.average_miss_latency_cycles
    if latency is None:
        latency = seen.llc_latency + to_dram * seen.dram_latency
    seen = oracle.Machine(**{**vars(seen), "miss_latency": latency})
    return machine.sms * oracle.predict(model, intervals, seen, policy, **options).ipc_sm


# -- whole predictions ---------------------------------------------------------------------

intervals = st.builds(
    Interval,
    instructions=st.integers(1, 40),
    stall=st.integers(0, 400),
    memory_instructions=st.integers(1, 3),
    reads=st.integers(0, 32),
    writes=st.integers(0, 8),
    miss_ratio=st.sampled_from([0.0, 0.3, 1.0]),
)


@pytest.mark.parametrize("policy", ["rr", "gto"])
@pytest.mark.parametrize("model", INTERVAL_MODELS)
@given(
    intervals=st.lists(intervals, min_size=1, max_size=4),
    warps=st.integers(1, 64),
    mshrs=st.integers(1, 300),
    sms=st.integers(1, 100),
    schedulers=st.integers(1, 4),
    latency=st.one_of(st.none(), st.integers(1, 900)),
)
def test_prediction_is_the_oracles(model, policy, intervals, warps, mshrs, sms, schedulers, latency):
    workload = with_profile(*intervals, latency=latency, warps_per_sm=warps)
    machine = gpu(l1__mshrs=mshrs, sms=sms, schedulers=schedulers, scheduler=policy)
    ours = run(model, workload, machine, clamp=False)
    assert ours.ipc == pytest.approx(expected_ipc(model, workload, machine, policy), rel=1e-12)
    assert ours.cycles == pytest.approx(workload.profile.total_instructions * warps * sms / ours.ipc, rel=1e-12)


@pytest.mark.parametrize("rule", ["l2-misses", "mshr-capped"])
@pytest.mark.parametrize("normalization", ["shared", "literal"])
@pytest.mark.parametrize("model", ["gpumech", "gpumech-rr-corrected", "gpumech-plus", "mdm-mshr"])
@given(intervals=st.lists(intervals, min_size=1, max_size=3), warps=st.integers(1, 64))
def test_options_of_the_contention_are_the_oracles(model, normalization, rule, intervals, warps):
    workload = with_profile(*intervals, warps_per_sm=warps)
    machine = gpu(scheduler="rr")
    ours = run(model, workload, machine, clamp=False, normalization=normalization, dram_requests=rule)
    expected = expected_ipc(model, workload, machine, "rr", dram_requests=rule, literal=normalization == "literal")
    assert ours.ipc == pytest.approx(expected, rel=1e-12)


# -- multithreading ------------------------------------------------------------------------


def test_naive_interval_multiplies_one_warps_ipc_by_the_warps():
    workload = with_profile(Interval(5, 20), Interval(3, 22), warps_per_sm=4)
    assert run("naive-interval", workload, gpu(sms=1)).ipc == 4 * 8 / 50


def test_round_robin_hides_nothing_in_the_waiting_slots():
    """G-10, G-11: an interval of one instruction has no waiting slot, one of n has n - 1."""
    one = run("gpumech-mt", with_profile(Interval(1, 9), warps_per_sm=8), gpu(scheduler="rr"))
    assert one.terms["nonoverlapped_insts"] == 0
    five = run("gpumech-mt", with_profile(Interval(5, 5), warps_per_sm=8), gpu(scheduler="rr"))
    assert five.terms["nonoverlapped_insts"] == 0.5 * 7 * 4


def test_round_robin_has_no_negative_waiting_slots():
    """An interval of half an instruction (an average of several) has none, rather than minus a half."""
    half = run("gpumech-mt", with_profile(Interval(0.5, 9.5), warps_per_sm=8), gpu(scheduler="rr"))
    assert half.terms["nonoverlapped_insts"] == 0


@pytest.mark.parametrize(
    ("stall", "warps", "expected"),
    [
        (6, 4, 3 * 3 - 3),  # more stall cycles than other warps: one instruction of each overlaps
        (2, 4, 3 * 3 - 2),  # fewer: the stall cycles limit
        (0, 4, 3 * 3),  # nothing to hide
        (6, 1, 0),  # nobody to hide it
    ],
)
def test_corrected_round_robin(stall, warps, expected):
    prediction = run("gpumech-rr-corrected", with_profile(Interval(3, stall), warps_per_sm=warps), "gpumech2014")
    assert prediction.terms["nonoverlapped_insts"] == expected


@pytest.mark.parametrize(
    ("interval", "warps", "expected"),
    [
        (Interval(3, 6), 4, 3),  # G-15 at its cap of 1, G-16 positive
        (Interval(3, 60), 4, 0),  # G-16 at its floor of 0
        (Interval(1, 0), 4, 0),  # no stall: probability 0
        (Interval(1, 0.25), 9, 1 * (0.8 * 0.25) * 8 - 0.25),  # G-15 below its cap
    ],
)
def test_greedy_then_oldest(interval, warps, expected):
    prediction = run("gpumech-mt", with_profile(interval, warps_per_sm=warps), gpu(scheduler="gto"), clamp=False)
    assert prediction.terms["nonoverlapped_insts"] == pytest.approx(expected, rel=1e-15)


def test_greedy_then_oldest_uses_the_average_interval_of_the_other_warps():
    """G-13: a long interval elsewhere makes the others issue more in this stall."""
    workload = with_profile(Interval(2, 8), Interval(18, 8), warps_per_sm=3)
    assert run("gpumech-mt", workload, gpu(scheduler="gto")).terms["nonoverlapped_insts"] == 2 * (10 * 2 - 8)


@pytest.mark.parametrize(
    ("scheduler", "same_as"), [("rr", "rr"), ("lrr", "rr"), ("two-level", "rr"), ("gto", "gto"), ("oldest", "gto")]
)
def test_the_machines_policy_picks_the_equations_and_the_option_overrides_it(scheduler, same_as):
    workload = with_profile(Interval(4, 6), Interval(9, 2), warps_per_sm=6)
    automatic = run("gpumech-mt", workload, gpu(scheduler=scheduler)).terms["nonoverlapped_insts"]
    assert (
        automatic
        == run("gpumech-mt", workload, gpu(scheduler="two-level"), policy=same_as).terms["nonoverlapped_insts"]
    )
    other = "gto" if same_as == "rr" else "rr"
    assert (
        automatic != run("gpumech-mt", workload, gpu(scheduler=scheduler), policy=other).terms["nonoverlapped_insts"]
    )


def test_the_issue_rate_is_that_of_the_whole_sm():
    """G-7, G-9 and G-16 with two schedulers: instructions take half a cycle, stalls offer two slots a cycle."""
    workload = with_profile(Interval(4, 6), warps_per_sm=5)
    prediction = run("gpumech-mt", workload, gpu(schedulers=2, scheduler="gto"), clamp=False)
    nonoverlapped = 4 * 1 * 4 - 6 * 2
    assert prediction.terms["nonoverlapped_insts"] == nonoverlapped
    assert prediction.terms["C"] == 4 / 2 + 6 + nonoverlapped / 2


@pytest.mark.parametrize(("machine", "policy"), [("mdm2019", None), ("h200", "rr")])
def test_round_robin_without_stalls_issues_at_the_full_rate_of_several_schedulers(machine, policy):
    """G-9 is a probability: the other warps wait for their turn once, not once per issue slot of a cycle."""
    seen = load_gpu(machine)
    prediction = run("gpumech-mt", with_profile(Interval(100, 0), warps_per_sm=64), seen, policy=policy)
    assert prediction.ipc / seen.sms == pytest.approx(seen.issue_rate)
    two = with_profile(Interval(100, 0), Interval(100, 4), warps_per_sm=64)
    assert run("gpumech-mt", two, seen, policy=policy).terms["nonoverlapped_insts"] <= 63 * 200


@pytest.mark.parametrize("model", INTERVAL_MODELS)
@pytest.mark.parametrize("rate", [1, 2, 8])
def test_a_warp_alone_issues_one_instruction_per_cycle_at_most(model, rate):
    alone = run(model, with_profile(Interval(100, 2), warps_per_sm=1), complete_gpu(sms=1, schedulers=rate))
    assert alone.ipc <= 1.0
    assert (alone.terms["IPC_raw"] > 1.0) == (rate > 1) == any("cycle and warp" in text for text in alone.warnings)


# -- clamp ---------------------------------------------------------------------------------


@pytest.mark.parametrize("clamp", [True, False])
def test_below_the_issue_rate_the_clamp_changes_nothing(clamp):
    prediction = run("gpumech-mt", with_profile(Interval(2, 98), warps_per_sm=4), gpu(sms=1), clamp=clamp)
    assert prediction.ipc == prediction.terms["IPC_raw"] == 0.08
    assert prediction.warnings == ([] if clamp else ["option clamp=false changes nothing here"])


def test_the_clamp_is_at_the_issue_rate_of_all_active_sms():
    prediction = run("naive-interval", with_profile(Interval(1, 1), warps_per_sm=64), gpu(schedulers=2))
    assert prediction.ipc == 28 * 2
    assert prediction.terms["IPC_raw"] == 28 * 64 / 1.5
    assert prediction.warnings == ["the equations exceed the issue rate; the prediction is clamped to it"]


@pytest.mark.parametrize(("stall", "exceeds"), [(9.0, False), (1.0, True)])
def test_the_warning_knows_that_two_schedulers_issue_two_instructions(stall, exceeds):
    """16 warps of one instruction in 9.5 or 1.5 cycles, where two a cycle are possible."""
    prediction = run("naive-interval", with_profile(Interval(1, stall), warps_per_sm=16), gpu(sms=1, schedulers=2))
    assert prediction.terms["IPC_raw"] == pytest.approx(16 / (stall + 0.5))
    assert bool(prediction.warnings) == exceeds


def test_what_the_clamp_adds_is_base():
    pure = with_profile(Interval(1, 1), warps_per_sm=64)
    clamped = run("gpumech-mt", pure, gpu(scheduler="gto")).stack
    printed = run("gpumech-mt", pure, gpu(scheduler="gto"), clamp=False).stack
    assert clamped["BASE"] > printed["BASE"]
    assert clamped["DEP"] == printed["DEP"]


# -- MSHRs ---------------------------------------------------------------------------------


def mshr_terms(mshrs, *, reads=2, warps=4, memory_instructions=1, **more):
    workload = with_profile(Interval(3, 120, memory_instructions, reads, 0, 0.0), warps_per_sm=warps, **more)
    return run("gpumech-mt-mshr", workload, gpu("gpumech2014", l1__mshrs=mshrs)).terms


def test_as_many_requests_as_mshrs_wait_for_none():
    assert mshr_terms(8)["MSHR_delay"] == 0
    assert mshr_terms(9)["MSHR_delay"] == 0


def test_one_request_too_many_waits_a_round():
    assert mshr_terms(7)["MSHR_delay"] == pytest.approx(120 / 8)


def test_the_delay_counts_per_memory_instruction_not_per_request():
    assert mshr_terms(6, memory_instructions=3)["MSHR_delay"] == 3 * mshr_terms(6)["MSHR_delay"] == 90


def test_writes_allocate_no_mshr():
    workload = with_profile(Interval(3, 120, 1, 0, 64, 1.0), warps_per_sm=32)
    assert run("gpumech-mt-mshr", workload, "gpumech2014").terms["MSHR_delay"] == 0


def test_a_given_average_miss_latency_is_used():
    assert mshr_terms(6, latency=1000)["exp_queuing_delay"] == 250


def test_the_average_miss_latency_weighs_memory_instructions():
    """Three of four memory instructions hit L2: 120 + 300/4."""
    workload = with_profile(Interval(3, 9, 3, 2, 0, 0.0), Interval(3, 9, 1, 2, 0, 1.0), warps_per_sm=4)
    terms = run("gpumech-mt-mshr", workload, gpu("gpumech2014", l1__mshrs=6)).terms
    assert terms["exp_queuing_delay"] == 0.25 * (120 + 300 / 4)


# -- DRAM bandwidth ------------------------------------------------------------------------


def bandwidth_terms(reads=1, writes=0, ratio=1.0, stall=997, **options):
    """One warp of one SM with a service time of one cycle: ρ = requests / 1000."""
    workload = with_profile(Interval(3, stall, 1, reads, writes, ratio), warps_per_sm=1)
    machine = gpu("gpumech2014", sms=1, dram__bandwidth=128e9, l1__mshrs=4096)
    return run("gpumech", workload, machine, **options)


def test_md1_delay_below_saturation():
    prediction = bandwidth_terms(reads=500)
    assert prediction.terms["rho"] == 0.5
    assert prediction.terms["Bandwidth_delay"] == 0.5 / (2 * 0.5)
    assert not prediction.warnings


def test_close_to_saturation_the_cap_is_smaller_than_md1():
    prediction = bandwidth_terms(reads=999)
    assert prediction.terms["rho"] < 1
    assert pytest.approx(499.5) == 0.999 / (2 * 0.001)
    assert prediction.terms["Bandwidth_delay"] == pytest.approx(999 / 2)
    nearer = bandwidth_terms(reads=999.9)
    assert nearer.terms["Bandwidth_delay"] == 999.9 / 2 < 0.9999 / (2 * 0.0001)


@pytest.mark.parametrize("reads", [1000, 1001, 4000])
def test_at_and_beyond_saturation_the_cap_holds_and_a_warning_says_so(reads):
    prediction = bandwidth_terms(reads=reads)
    assert prediction.terms["Bandwidth_delay"] == reads / 2
    assert any("ρ ≥ 1" in text for text in prediction.warnings)


def test_only_requests_that_miss_l2_reach_dram():
    assert bandwidth_terms(reads=500, ratio=0.5).terms["rho"] == 0.25
    assert bandwidth_terms(reads=500, ratio=0.0).terms["Bandwidth_delay"] == 0


def test_writes_load_the_dram():
    assert bandwidth_terms(reads=200, writes=300).terms["rho"] == 0.5


def test_requests_of_all_active_cores_share_the_dram():
    workload = with_profile(Interval(3, 997, 1, 100, 0, 1.0), blocks=3, threads_per_block=32)
    machine = gpu("gpumech2014", sms=16, dram__bandwidth=128e9, l1__mshrs=4096)
    assert run("gpumech", workload, machine).terms["rho"] == pytest.approx(0.3)


@pytest.mark.parametrize(("rule", "rho"), [("l2-misses", 0.5), ("mshr-capped", 0.23)])
def test_dram_requests_may_be_capped_by_the_mshrs(rule, rho):
    workload = with_profile(Interval(3, 997, 1, 400, 100, 1.0), warps_per_sm=1)
    machine = gpu("gpumech2014", sms=1, dram__bandwidth=128e9, l1__mshrs=130)
    assert run("gpumech", workload, machine, dram_requests=rule).terms["rho"] == pytest.approx(rho)


def test_contention_is_shared_by_the_warps_or_as_g17_prints_it():
    workload = with_profile(Interval(3, 120, 1, 2, 0, 0.0), warps_per_sm=4)
    machine = gpu("gpumech2014", l1__mshrs=6)
    shared = run("gpumech-mt-mshr", workload, machine)
    literal = run("gpumech-mt-mshr", workload, machine, normalization="literal")
    assert shared.stack["MSHR"] == pytest.approx(30 / (4 * 3))
    assert literal.stack["MSHR"] == pytest.approx(30 / 3)


# -- intervals from a dependence graph --------------------------------------------------------

CHAIN = (("comp", ()), ("comp", (0,)), ("mem", (1,)), ("comp", (2,)))


def test_compute_latencies_can_be_left_out():
    """Lemeire §2.5 does not consider them: only the memory access stalls then."""
    workload = with_graph(*CHAIN, warps_per_sm=1)
    machine = gpu("lemeire-example", schedulers=1)
    with_them = run("gpumech-mt", workload, machine)
    without = run("gpumech-mt", workload, machine, compute_latency=False)
    assert with_them.terms["C"] == 4 + (4 + 4 + 6 + 4)
    assert without.terms["C"] == 4 + 6


@pytest.mark.parametrize(("min_gap", "intervals"), [(1.0, 4), (4.0, 4), (4.5, 2), (6.0, 2), (7.0, 1)])
def test_intervals_close_at_stalls_of_at_least_min_gap(min_gap, intervals):
    """p of the Markov chain counts the intervals: stalls of 4, 4, 6, and the drain of 4 after four instructions."""
    prediction = run("markov-chain", with_graph(*CHAIN, warps_per_sm=1), "lemeire-example", min_gap=min_gap)
    assert prediction.terms["p"] == intervals / 4


def test_min_gap_keeps_the_cycles_of_one_warp():
    workload = with_graph(*CHAIN, warps_per_sm=1)
    cycles = [run("gpumech-mt", workload, "lemeire-example", min_gap=gap).cycles for gap in (1.0, 5.0, 100.0)]
    assert len(set(cycles)) == 1


# -- Markov chain ----------------------------------------------------------------------------


def test_markov_chain_of_one_warp_is_its_own_share_of_time():
    """One thread: issues 1/p times a suspension of M slots on average, so IPC = 1 / (1 + pM)."""
    prediction = run("markov-chain", with_profile(Interval(4, 16), warps_per_sm=1), gpu(sms=1))
    assert prediction.terms["p"] == 0.25
    assert prediction.terms["M"] == 16
    assert prediction.ipc == pytest.approx(1 / (1 + 0.25 * 16), rel=1e-14)


def test_markov_chain_without_stalls_issues_every_cycle():
    prediction = run("markov-chain", with_profile(Interval(7, 0), warps_per_sm=3), gpu(sms=2))
    assert prediction.terms["P_all_suspended"] == 0
    assert prediction.ipc == 2


def test_markov_chain_averages_over_the_stalls_that_start():
    workload = with_profile(Interval(2, 10), Interval(2, 0), Interval(4, 30), warps_per_sm=2)
    terms = run("markov-chain", workload, "gpumech2014").terms
    assert (terms["p"], terms["M"]) == (2 / 8, 20)


def test_markov_chain_stalls_start_at_most_once_per_instruction():
    workload = with_profile(*[Interval(0.5, 10)] * 4, warps_per_sm=2)
    assert run("markov-chain", workload, "gpumech2014").terms["p"] == 1


def test_markov_chain_counts_suspensions_in_issue_slots():
    workload = with_profile(Interval(4, 16), warps_per_sm=2)
    assert run("markov-chain", workload, gpu(schedulers=2)).terms["M"] == 32
    assert run("markov-chain", workload, gpu(issue_width=0.25)).terms["M"] == 4
    assert run("markov-chain", workload, gpu(issue_width=0.01)).terms["M"] == 1  # asleep for a slot at least


def test_markov_chain_says_that_it_leaves_out_a_fraction_of_a_warp():
    workload = with_profile(Interval(4, 16), warps_per_sm=2.5)
    prediction = run("markov-chain", workload, "mdm2020")
    assert prediction.warnings == ["the chain rounds the number of warps down"]
    whole = run("markov-chain", with_profile(Interval(4, 16), warps_per_sm=2), "mdm2020")
    assert prediction.ipc == whole.ipc
    assert not whole.warnings


def test_markov_chain_where_every_instruction_stalls_briefly():
    """p = 1 and M = 2 with 64 warps: one is practically always ready.

    A chain eliminated from the top down loses state 0 to underflow here and calls every warp suspended.
    """
    prediction = run("markov-chain", with_profile(Interval(1, 2), warps_per_sm=64), gpu(sms=1))
    assert prediction.ipc == pytest.approx(1.0, rel=1e-12)


# -- stacks ----------------------------------------------------------------------------------


def test_the_representative_warps_stack_is_shrunk_by_multithreading():
    """GPUMech §VII: all categories, BASE included, shrink by CPI_mt / CPI_warp."""
    workload = with_profile(Interval(2, 8), Interval(2, 28, 1, 1, 0, 0.25), warps_per_sm=2)
    prediction = run("gpumech-mt", workload, gpu(sms=1, scheduler="rr"))
    probability = 4 / 40
    cycles = 40 + probability * 1 * 2
    share = cycles / 40 / (2 * 4)
    expected = {"BASE": 4, "DEP": 8, "L1": 0, "L2": 21, "DRAM": 7}
    assert prediction.stack == pytest.approx({name: part * share for name, part in expected.items()}, rel=1e-12)


def test_given_stall_causes_are_followed():
    profile = with_profile(Interval(1, 9, 1, 1, 0, 0.5), warps_per_sm=1)
    profile.profile.causes[:] = [[0.0, 1.0, 0.0, 0.0]]
    stack = run("gpumech-mt", profile, gpu(sms=1)).stack
    assert stack == pytest.approx({"BASE": 1, "DEP": 0, "L1": 9, "L2": 0, "DRAM": 0})


@pytest.mark.parametrize("model", INTERVAL_MODELS)
def test_categories_are_those_that_the_model_has_terms_for(model):
    mshr, queue = oracle.TERMS[model]
    base = ["BASE", "DEP", "L1", "L2", "DRAM"]
    expected = base + ["MSHR"] * (mshr is not None) + ["NOC"] * (queue not in (None, "gpumech"))
    expected += ["QUEUE"] * (queue is not None)
    prediction = run(model, with_profile(Interval(3, 100, 1, 8, 1, 0.5), warps_per_sm=8), "mdm2020")
    if model == "naive-interval":
        assert prediction.stack is None  # the paper defines no stack for it
    else:
        assert list(prediction.stack) == expected == list(MODELS[model].categories)


@pytest.mark.parametrize("key", ["dram.latency", "llc.latency", "clock"])
def test_given_stalls_do_not_follow_latencies_and_a_warning_says_so(key):
    workload = with_profile(Interval(3, 100, 1, 8, 1, 0.5), warps_per_sm=8)
    changed = run("mdm", workload, gpu(**{key.replace(".", "__"): 1.5e9 if key == "clock" else 300}))
    assert any(f"do not follow {key}" in text for text in changed.warnings)
    derived = run("mdm", with_graph(*CHAIN, warps_per_sm=8), gpu(dram__latency=300))
    assert not any("do not follow" in text for text in derived.warnings)


def test_profiles_derived_per_machine_follow_latencies_in_a_batch():
    latencies = np.array([10.0, 50.0, 10.0])
    machine = gpu("lemeire-example", instructions__mem__latency=latencies)
    batch = run("gpumech-mt", with_graph(*CHAIN, warps_per_sm=1), machine)
    assert list(batch.terms["C"] - batch.terms["C"][0]) == [0, 40, 0]


# -- functional units ------------------------------------------------------------------------


def special_functions(warps, count=40):
    return with_graph(*["sfu"] * count, ("mem", (count - 1,)), warps_per_sm=warps)


def test_warps_queue_for_a_slow_unit_as_they_do_for_dram():
    """§IV-B1 leaves it to future work. G-21 with λ as service time; where demand exceeds it, half of the requests."""
    machine = complete_gpu(instructions__sfu__interval=8, instructions__sfu__subsystem="special")
    for warps in (1, 8, 32):
        workload = special_functions(warps)
        usual, queued = (run("gpumech", workload, machine, unit_contention=on) for on in (False, True))
        wait = queued.terms["Unit_delay"]
        held = 40 * 8 / 41  # cycles of the unit for an average instruction
        assert 0 < wait <= held * 41 * warps / 2 * (1 + 1e-12)
        assert queued.stack["DEP"] > usual.stack["DEP"] and queued.cycles > usual.cycles
    assert wait > 0.95 * held * 41 * 32 / 2


def test_a_unit_as_fast_as_issue_is_not_waited_for():
    machine = complete_gpu(instructions__sfu__interval=0.5)
    usual, queued = (run("gpumech", special_functions(32), machine, unit_contention=on) for on in (False, True))
    assert queued.cycles == usual.cycles
    assert "option unit_contention=true changes nothing here" in queued.warnings
