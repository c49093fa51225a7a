"""What must hold whatever the numbers are: equivalences, monotonicity and limits.

Where more hardware raises predicted cycles, that is in the paper's equations: such
cases are written down as tests of their own, with the equation that does it.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import COMPLETE, Interval, complete_gpu, gpu, run, with_graph, with_mix, with_profile
from warplens.errors import InputError
from warplens.machine import find_parameter
from warplens.models import MODELS as REGISTERED
from warplens.models import Aspect

#: The papers' closed forms. Simulations have waves, tails and whole cycles, and tests of their own.
MODELS = {name: model for name, model in REGISTERED.items() if name not in ("pipeline", "crisp", "warplens")}

# -- inputs -----------------------------------------------------------------------------------

intervals = st.builds(
    Interval,
    instructions=st.integers(1, 40),
    stall=st.integers(0, 500),
    memory_instructions=st.integers(1, 3),
    reads=st.sampled_from([0, 1, 2, 5, 8, 16, 32]),
    writes=st.sampled_from([0, 0, 1, 4]),
    miss_ratio=st.sampled_from([0.0, 0.3, 1.0]),
)


@st.composite
def graphs(draw):
    """A dependence graph, so that every model can read it; at least one instruction that takes time."""
    classes = st.sampled_from(["comp", "comp", "comp", "sfu", "load_global", "store_global", "load_shared"])
    instructions = []
    for position in range(draw(st.integers(1, 10))):
        depends = draw(st.sets(st.integers(0, position - 1), max_size=2)) if position else set()
        instructions.append((draw(classes), tuple(sorted(depends))))
    return instructions


#: Every SM is filled alike however many there are, so that occupancy does not change with the machine.
launches = st.fixed_dictionaries(
    {
        "blocks": st.just(10_000),
        "threads_per_block": st.sampled_from([32, 64, 128, 256]),
        "blocks_per_sm": st.sampled_from([1, 2, 4, 8]),
    }
)
machines = st.fixed_dictionaries(
    {
        "sms": st.sampled_from([1, 4, 16, 28]),
        "l1.mshrs": st.sampled_from([4, 16, 64, 128]),
        "scheduler": st.sampled_from(["rr", "gto"]),
        "dram.bandwidth": st.sampled_from([50e9, 480e9, 4e12]),
        "noc.bandwidth": st.sampled_from([100e9, 1050e9, 9e12]),
    }
)
factors = st.sampled_from([1.01, 1.5, 2.0, 3.0, 10.0])


def cycles_before_and_after(model, workload, machine, key, factor):
    """Predicted cycles on the machine, and with more of one parameter."""

    def on(values):
        return run(model, workload, complete_gpu(**{k.replace(".", "__"): v for k, v in values.items()})).cycles

    more = machine[key] * factor
    if find_parameter(key).kind is int:
        more = max(machine[key] + 1, int(more))
    return on(machine), on(machine | {key: more})


def assert_never_slower(model, workload, machine, key, factor):
    before, after = cycles_before_and_after(model, workload, machine, key, factor)
    assert after <= before * (1 + 1e-12)


# -- equivalences -----------------------------------------------------------------------------


@given(
    alphas=st.tuples(st.integers(0, 60), st.integers(0, 20)).filter(any),
    timing=st.tuples(st.floats(0.5, 40), st.floats(0.125, 4), st.floats(0.5, 900), st.floats(0.125, 90)),
    warps=st.integers(1, 64),
)
def test_transit_is_volkov_without_ilp_and_issue_limit(alphas, timing, warps):
    """Theorem 1 of Lemeire et al."""
    entries = {name: count for name, count in zip(("comp", "mem"), alphas, strict=True) if count}
    machine = gpu(
        "lemeire-example",
        issue_width=1000,  # never binds
        instructions__comp__latency=timing[0],
        instructions__comp__interval=timing[1],
        instructions__mem__latency=timing[2],
        instructions__mem__interval=timing[3],
    )
    workload = with_mix(entries, {"warps_per_sm": warps})
    assert run("transit", workload, machine).cycles == pytest.approx(
        run("volkov", workload, machine).cycles, rel=1e-12
    )


def test_transit_is_not_volkov_with_ilp_or_a_binding_issue_limit():
    """The conditions of the theorem are needed."""
    free = with_mix({"comp": (4, 2), "mem": 2}, {"warps_per_sm": 2})
    assert run("transit", free, "lemeire-example").cycles > run("volkov", free, "lemeire-example").cycles
    busy = with_mix({"comp": 4, "mem": 2}, {"warps_per_sm": 64})
    slow = gpu("lemeire-example", schedulers=1)
    assert run("transit", busy, slow).cycles < run("volkov", busy, slow).cycles


@given(graph=graphs(), launch=launches, machine=machines)
def test_volkov_never_predicts_more_than_the_roofline(graph, launch, machine):
    workload, seen = (
        with_graph(*graph, **launch),
        complete_gpu(**{k.replace(".", "__"): v for k, v in machine.items()}),
    )
    assert run("volkov", workload, seen).cycles >= run("roofline", workload, seen).cycles * (1 - 1e-12)


@given(profile=st.lists(intervals, min_size=1, max_size=3), launch=launches, machine=machines)
def test_every_further_term_of_gpumech_adds_cycles(profile, launch, machine):
    """Naive ≤ MT ≤ MT_MSHR ≤ MT_MSHR_BAND ≤ GPUMech+, as GPUMech's Fig. 4 builds them up."""
    workload = with_profile(*profile, **launch)
    seen = complete_gpu(**{k.replace(".", "__"): v for k, v in machine.items()})
    ladder = ["naive-interval", "gpumech-mt", "gpumech-mt-mshr", "gpumech", "gpumech-plus"]
    cycles = [run(model, workload, seen).cycles for model in ladder]
    assert all(more >= less * (1 - 1e-12) for less, more in pairwise(cycles))


@given(profile=st.lists(intervals, min_size=1, max_size=3), launch=launches, machine=machines)
def test_the_first_mdm_is_never_faster_than_the_second(profile, launch, machine):
    """The saturation test of M-10 only takes delays away."""
    workload = with_profile(*profile, **launch)
    seen = complete_gpu(**{k.replace(".", "__"): v for k, v in machine.items()})
    assert run("mdm-cal2019", workload, seen).cycles >= run("mdm", workload, seen).cycles * (1 - 1e-12)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "gcom"])  # whose warps each end with a stall
@given(graph=graphs(), warps=st.integers(1, 64), repeat=st.integers(2, 5))
def test_twice_the_blocks_take_twice_the_time(model, graph, warps, repeat):
    """docs/conventions.md §0: paper models predict a steady state, without waves and tails."""
    once, several = (
        run(
            model,
            with_graph(*graph, blocks=28 * n, threads_per_block=32 * warps, blocks_per_sm=1),
            complete_gpu(),
        ).cycles
        for n in (1, repeat)
    )
    assert several == pytest.approx(repeat * once, rel=1e-12)


# -- more hardware ----------------------------------------------------------------------------

#: All but MWP-CWP, whose cases do not join up (see the tests of its own below).
WITHOUT_MWP = [model for model in MODELS if not model.startswith(("mwp-cwp", "gpuperf"))]


@pytest.mark.parametrize("key", ["dram.bandwidth", "noc.bandwidth"])
@pytest.mark.parametrize("model", WITHOUT_MWP)
@given(graph=graphs(), launch=launches, machine=machines, factor=factors)
def test_more_bandwidth_never_takes_longer(model, key, graph, launch, machine, factor):
    assert_never_slower(model, with_graph(*graph, **launch), machine, key, factor)


@pytest.mark.parametrize("key", ["dram.bandwidth", "noc.bandwidth"])
@pytest.mark.parametrize("model", [name for name in WITHOUT_MWP if MODELS[name].needs == "interval_profile"])
@given(profile=st.lists(intervals, min_size=1, max_size=3), launch=launches, machine=machines, factor=factors)
def test_more_bandwidth_never_takes_longer_with_given_intervals(model, key, profile, launch, machine, factor):
    assert_never_slower(model, with_profile(*profile, **launch), machine, key, factor)


@given(comp=st.integers(0, 200), loads=st.integers(1, 8), launch=launches, machine=machines, factor=factors)
def test_more_bandwidth_never_takes_longer_in_the_corrected_mwp_cwp(comp, loads, launch, machine, factor):
    """The largest of the three cases falls with λ_mem, where there are no barriers."""
    entries = {"load_global": loads} | ({"comp": comp} if comp else {})
    assert_never_slower("mwp-cwp-corrected", with_mix(entries, launch), machine, "dram.bandwidth", factor)


#: Models in which the MSHRs do not limit what is in the queues: batches and waits only shrink.
MSHR_MONOTONE = [
    model
    for model in MODELS
    if model not in ("mdm", "mdm-cal2019", "mdm-queue", "gcom") and not model.startswith("mwp-cwp")
]


@pytest.mark.parametrize("model", [name for name in MSHR_MONOTONE if MODELS[name].needs == "interval_profile"])
@given(profile=st.lists(intervals, min_size=1, max_size=3), launch=launches, machine=machines, factor=factors)
def test_more_mshrs_never_take_longer(model, profile, launch, machine, factor):
    assert_never_slower(model, with_profile(*profile, **launch), machine, "l1.mshrs", factor)


@given(profile=st.lists(intervals, min_size=1, max_size=3), launch=launches, machine=machines)
def test_enough_mshrs_leave_no_batches(profile, launch, machine):
    """MDM: more MSHRs do help in the end. S_MSHR vanishes once all reads of all warps fit (M-2)."""
    plenty = machine | {"l1.mshrs": 64 * 32}
    seen = complete_gpu(**{k.replace(".", "__"): v for k, v in plenty.items()})
    assert run("mdm", with_profile(*profile, **launch), seen).terms["S_MSHR"] == 0


#: Queues grow with the SMs in these; the delay jumps at ρ → 1 (G-21) or at saturation (M-10).
SM_JUMPS = {"gpumech", "gpumech-rr-corrected", "gpumech-plus", "mdm-mshr", "mdm-queue", "mdm"}


@pytest.mark.parametrize("model", [name for name in MODELS if name not in SM_JUMPS | {"mwp-cwp"}])
@given(graph=graphs(), launch=launches, machine=machines, factor=factors)
def test_more_sms_never_take_longer(model, graph, launch, machine, factor):
    """A launch that fills every SM: the work is shared by more, and memory is no slower for all together."""
    assert_never_slower(model, with_graph(*graph, **launch), machine, "sms", factor)


@given(profile=st.lists(intervals, min_size=1, max_size=3), launch=launches, machine=machines, factor=factors)
def test_more_sms_never_take_longer_in_the_first_mdm_with_given_intervals(profile, launch, machine, factor):
    """C-5 has no threshold that SMs could cross: (C + a·SMs) / SMs falls."""
    assert_never_slower("mdm-cal2019", with_profile(*profile, **launch), machine, "sms", factor)


# -- where more hardware takes longer, by the papers' equations -------------------------------------


def fixed(**launch):
    return {"blocks": 10_000, "threads_per_block": 32, "blocks_per_sm": 16} | launch


def test_mdm_with_one_more_mshr_can_take_longer():
    """M-3 and M-6: one more MSHR puts more requests into the queues while the ceiling keeps the batches."""
    workload = with_profile(Interval(4, 340, 1, 32, 0, 1.0), **fixed())
    batches = {n: run("mdm", workload, gpu(l1__mshrs=n)).terms["batches"] for n in (128, 129)}
    assert batches == {128: 4, 129: 4}
    assert run("mdm", workload, gpu(l1__mshrs=129)).cycles > run("mdm", workload, gpu(l1__mshrs=128)).cycles
    # With the next step of the ceiling it pays off.
    assert run("mdm", workload, gpu(l1__mshrs=171)).cycles < run("mdm", workload, gpu(l1__mshrs=170)).cycles


def test_mdm_with_twice_the_mshrs_can_take_longer():
    """M-10: the larger M saturates the NoC, which doubles both queues at once."""
    workload = with_profile(Interval(4, 340, 1, 32, 0, 1.0), **fixed())
    few, many = (run("mdm", workload, gpu(l1__mshrs=n)) for n in (64, 96))
    assert (few.terms["saturated_intervals"], many.terms["saturated_intervals"]) == (0, 1)
    assert many.cycles > 1.1 * few.cycles


def test_mdm_with_more_sms_can_take_longer():
    """M-10 again: one more SM saturates the NoC."""
    workload = with_profile(Interval(4, 340, 1, 32, 0, 1.0), **fixed())
    before, after = (run("mdm", workload, gpu(sms=n)) for n in (15, 16))
    assert (before.terms["saturated_intervals"], after.terms["saturated_intervals"]) == (0, 1)
    assert after.cycles > 1.5 * before.cycles


def test_gpumech_with_more_sms_can_take_longer():
    """G-21: the M/D/1 delay grows faster than the SMs share the work as ρ approaches 1."""
    workload = with_profile(Interval(10, 190, 1, 1, 0, 1.0), **fixed())
    before, after = (run("gpumech", workload, gpu(sms=n, dram__bandwidth=96e9)) for n in (6, 7))
    assert before.terms["rho"] < after.terms["rho"] < 1.1
    assert after.cycles > before.cycles


def test_gpumech_with_capped_requests_and_more_mshrs_can_take_longer():
    """`dram_requests=mshr-capped`: more MSHRs send more requests to the DRAM queue."""
    # Short misses, so that what the MSHRs save does not matter beside the queue.
    workload = with_profile(Interval(4, 340, 1, 32, 0, 1.0), latency=1, **fixed(blocks_per_sm=8))
    few, many = (run("gpumech", workload, gpu(l1__mshrs=n), dram_requests="mshr-capped") for n in (64, 128))
    assert many.cycles > few.cycles


def test_mwp_cwp_with_more_bandwidth_can_take_longer():
    """H-23 and H-24 do not join: more bandwidth lifts MWP above CWP, and the compute-bound case costs more."""
    workload = with_mix({"comp": 138, "load_global": 1}, fixed(blocks_per_sm=4))
    slow, fast = (run("mwp-cwp", workload, complete_gpu(dram__bandwidth=b)) for b in (50e9, 150e9))
    assert (slow.terms["equation"], fast.terms["equation"]) == (23, 24)
    assert fast.cycles > 1.2 * slow.cycles


@pytest.mark.parametrize("model", ["mwp-cwp", "mwp-cwp-corrected"])
def test_barriers_cost_more_with_more_bandwidth(model):
    """H-26 charges a departure for each of MWP - 1 other memory warps, and MWP grows with bandwidth."""
    workload = with_mix({"comp": 10, "load_global": 1}, fixed(), synchronizations=3)
    slow, fast = (run(model, workload, complete_gpu(dram__bandwidth=b)) for b in (50e9, 480e9))
    assert fast.terms["Synch_cost"] > slow.terms["Synch_cost"]


def test_more_sms_can_leave_fewer_residents_and_take_longer():
    """100 blocks fill 33 SMs with 4 each, but 34 SMs with 3: a steady state does not see that none is full."""
    workload = with_profile(Interval(1, 99), blocks=100, threads_per_block=32)
    before, after = (run("naive-interval", workload, gpu(sms=n)) for n in (33, 34))
    assert (before.terms["W"], after.terms["W"]) == (4, 3)
    assert after.cycles > before.cycles


def test_sms_without_a_block_take_bandwidth_from_those_with_one():
    """A machine without λ of memory gets one SM's share of the DRAM, idle SMs included (`Gpu.timing`).

    So one block is predicted to be slower on a larger GPU by the global-view models.
    """
    workload = with_mix({"load_global": 4}, {"blocks": 1, "threads_per_block": 1024})
    small, large = (run("roofline", workload, gpu(sms=n)) for n in (10, 100))
    assert large.cycles == pytest.approx(10 * small.cycles)


# -- limits -----------------------------------------------------------------------------------


@given(profile=st.lists(intervals, min_size=1, max_size=4))
def test_one_warp_alone_takes_its_own_time_under_every_policy(profile):
    """W = 1: nobody else's instructions, so Σ instructions / issue rate + Σ stalls."""
    alone = sum(i.instructions + i.stall for i in profile)
    workload = with_profile(*profile, warps_per_sm=1)
    for policy in ("rr", "gto"):
        for model in ("naive-interval", "gpumech-mt"):
            assert run(model, workload, gpu(scheduler=policy)).cycles == pytest.approx(alone, rel=1e-12)
    assert run("gpumech-rr-corrected", workload, gpu()).terms["nonoverlapped_insts"] == 0


@pytest.mark.parametrize(
    "model", [name for name in MODELS if MODELS[name].needs == "interval_profile" and name != "gcom"]
)
@given(instructions=st.integers(1, 100), warps=st.integers(1, 64), intervals=st.integers(1, 4))
def test_without_stalls_and_memory_every_slot_is_used(model, instructions, warps, intervals):
    """Zero stalls, no requests: the issue rate, for every policy and every contention term."""
    workload = with_profile(*[Interval(instructions, 0)] * intervals, warps_per_sm=warps)
    for policy in ("rr", "gto"):
        prediction = run(model, workload, gpu(scheduler=policy))
        assert prediction.ipc == pytest.approx(28, rel=1e-12)
        if prediction.stack is not None:
            assert prediction.stack["BASE"] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_a_kernel_without_memory_needs_nothing_of_the_memory_system(model):
    """No memory: only computation takes time, also on a machine that says nothing about its memory."""
    workload = with_graph("comp", ("comp", (0,)), ("comp", (1,)), warps_per_sm=64)
    bare = gpu("lemeire-example", schedulers=1)
    assert run(model, workload, bare).cycles >= 3 * 64 * (1 - 1e-12)


@pytest.mark.parametrize("model", [name for name in MODELS if "roofline" not in name])  # they hide all latency
def test_a_kernel_without_computation_takes_at_least_its_memory_time(model):
    workload = with_graph("load_global", ("load_global", (0,)), warps_per_sm=1)
    assert run(model, workload, complete_gpu(sms=1)).cycles >= 2 * 340


@pytest.mark.parametrize(
    # MWP-CWP declares the issue limit, but its printed case order can go below it: test_mwp_cwp.py.
    # Zhang & Owens limit each component; all of them together may issue more.
    "model",
    [
        name
        for name in MODELS
        if Aspect.ISSUE_LIMIT in MODELS[name].aspects and name not in ("mwp-cwp", "zhang-owens")
    ],
)
@given(graph=graphs())
def test_at_huge_occupancy_nothing_exceeds_what_the_machine_issues(model, graph):
    """W → ∞: of all bounds only throughput remains."""
    workload = with_graph(*graph, warps_per_sm=512)
    assert run(model, workload, complete_gpu(max_warps=512)).ipc <= 28 * (1 + 1e-12)


@pytest.mark.parametrize("side", [-1, 1])
def test_the_bandwidth_delay_is_continuous_where_the_cap_sets_in(side):
    """G-21: min(M/D/1, cap) meets the cap before ρ = 1, so that nothing jumps there, from either side."""

    def delay(reads):
        workload = with_profile(Interval(3, 997, 1, reads, 0, 1.0), warps_per_sm=1)
        machine = gpu("gpumech2014", sms=1, dram__bandwidth=128e9, l1__mshrs=100_000)
        return run("gpumech", workload, machine).terms["Bandwidth_delay"]

    at_one = delay(1000)
    assert at_one == 500
    for step in (1.0, 1e-3, 1e-6):
        assert delay(1000 + side * step) == pytest.approx(at_one, rel=2e-3 * step)


@given(utilisation=st.floats(0.01, 5.0))
def test_the_bandwidth_delay_grows_with_the_utilisation(utilisation):
    def delay(rho):
        workload = with_profile(Interval(3, 997, 1, 1000 * rho, 0, 1.0), warps_per_sm=1)
        machine = gpu("gpumech2014", sms=1, dram__bandwidth=128e9, l1__mshrs=100_000)
        return run("gpumech", workload, machine).terms["Bandwidth_delay"]

    assert delay(utilisation) < delay(1.01 * utilisation)


def test_huge_numbers_stay_finite():
    """The largest magnitude that files accept, 1e18, in every place."""
    workload = with_profile(Interval(1e18, 1e18, 1e18, 1e18, 1e18, 1.0), warps_per_sm=64)
    for model in (name for name in MODELS if MODELS[name].needs == "interval_profile"):
        prediction = run(model, workload, "mdm2020")
        assert prediction.cycles < float("inf")


@pytest.mark.parametrize("entries", [{"comp": 1e18, "mem": 1e-300}, {"comp": 1e-300, "mem": 1e18}, {"comp": 1e-300}])
@pytest.mark.parametrize("model", [name for name in MODELS if MODELS[name].needs == "instruction_mix"])
def test_absurd_mixes_are_predicted_or_refused_without_numerical_warnings(model, entries):
    """Warnings of NumPy are errors in this suite: none may reach the user."""
    workload = with_mix(entries, {"warps_per_sm": 20})
    try:
        assert 0 < run(model, workload, "lemeire-example").cycles < float("inf")
    except InputError as error:
        assert "gives no finite time above 0" in str(error)


def test_the_complete_machine_covers_every_override_of_this_module():
    """Guards the tests above against a key that `complete_gpu` would set back."""
    assert not set(COMPLETE) & {"sms", "l1.mshrs", "dram.bandwidth", "noc.bandwidth", "scheduler"}
