"""The compiled interval kernels against the oracles, on random intervals and machines.

Whole numbers and issue rates that are powers of two make every sum exact, so that
equality holds wherever kernel and paper multiply and divide in the same order. The
closed form of G-19 and the square of G-21 are the exceptions: 1e-12.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reference import interval_models as oracle
from reference import markov
from warplens.models import _interval_kernels as kernels
from warplens.models import _interval_records as k

POLICIES = {
    "optimistic": k.OPTIMISTIC,
    "rr": k.ROUND_ROBIN,
    "rr-corrected": k.ROUND_ROBIN_CORRECTED,
    "gto": k.GREEDY_THEN_OLDEST,
}
MSHR_TERMS = {
    None: k.NO_MSHR,
    "gpumech": k.GPUMECH_MSHR,
    "gpumech with queues": k.GPUMECH_MSHR_WITH_QUEUES,
    "mdm": k.MDM_MSHR,
}
QUEUE_TERMS = {
    None: k.NO_QUEUE,
    "gpumech": k.GPUMECH_DRAM,
    "gpumech with noc": k.GPUMECH_NOC_AND_DRAM,
    "mdm": k.MDM_QUEUE,
    "mdm without test": k.MDM_QUEUE_CAL2019,
}
REQUESTS = {"l2-misses": k.ALL_REQUESTS, "mshr-capped": k.MSHR_CAPPED}

whole_intervals = st.builds(
    oracle.Interval,
    instructions=st.integers(1, 50),
    stall=st.integers(0, 500),
    memory_instructions=st.integers(1, 4),
    reads=st.integers(0, 40),
    writes=st.integers(0, 8),
    miss_ratio=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)
machines = st.builds(
    oracle.Machine,
    warps=st.integers(1, 64),
    sms=st.integers(1, 100),
    issue_rate=st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]),
    mshrs=st.integers(1, 256),
    llc_latency=st.integers(0, 300),
    dram_latency=st.integers(0, 600),
    noc_service=st.floats(0, 4, allow_subnormal=False),
    dram_service=st.floats(0, 4, allow_subnormal=False),
    miss_latency=st.integers(0, 600),
)


def records(intervals):
    rows = [(i.instructions, i.stall, i.memory_instructions, i.reads, i.writes, i.miss_ratio) for i in intervals]
    return np.array(rows, dtype=k.INTERVAL)


def machine_records(several):
    return np.array([tuple(getattr(machine, name) for name in k.MACHINE.names) for machine in several], k.MACHINE)


def evaluate(intervals, machine, policy, mshr_term, queue_term, dram_requests):
    """The kernel on one machine: a record of results."""
    result = np.zeros(1, k.RESULT)
    terms = k.Terms(POLICIES[policy], MSHR_TERMS[mshr_term], QUEUE_TERMS[queue_term], REQUESTS[dram_requests])
    kernels.evaluate(records(intervals), machine_records([machine]), terms, result)
    return result[0]


# -- parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@given(intervals=st.lists(whole_intervals, min_size=1, max_size=6), machine=machines)
def test_nonoverlapped_instructions_are_the_oracles(policy, intervals, machine):
    average = sum(i.instructions for i in intervals) / len(intervals)
    probability = oracle.issue_probability(intervals, machine.issue_rate)
    for i in intervals:
        ours = kernels.nonoverlapped.py_func(
            POLICIES[policy],
            float(i.instructions),
            float(i.stall),
            float(machine.warps),
            machine.issue_rate,
            probability,
            average,
        )
        assert ours == oracle.nonoverlapped(policy, i, intervals, machine)


@pytest.mark.parametrize("policy", POLICIES)
@given(
    intervals=st.lists(whole_intervals, min_size=1, max_size=6),
    machine=machines,
    rate=st.sampled_from([0.5, 1, 2, 3, 4, 8]) | st.floats(0.1, 32),
)
def test_no_more_instructions_fail_to_overlap_than_there_are(policy, intervals, machine, rate):
    """The other warps have (W-1)·Σinsts instructions, at any issue rate; greedy ones have as many on average."""
    found = evaluate(intervals, replace(machine, issue_rate=rate), policy, None, None, "l2-misses")
    instructions = sum(i.instructions for i in intervals)
    assert 0.0 <= found["nonoverlapped"] <= (machine.warps - 1) * instructions * (1 + 1e-12)


@given(requests=st.integers(1, 3000), mshrs=st.integers(1, 300), latency=st.floats(1, 1000))
def test_closed_form_of_the_mshr_sum_is_the_literal_sum(requests, mshrs, latency):
    literal = oracle.expected_queueing_delay(requests, mshrs, latency)
    # The latency itself is subtracted in the end, so that is what the error is relative to.
    assert kernels.mshr_wait.py_func(float(requests), float(mshrs), latency) == pytest.approx(
        literal, rel=1e-12, abs=1e-12 * latency * math.ceil(requests / mshrs)
    )


@given(requests=st.floats(1e-3, 1e6), cycles=st.floats(1, 1e6), service=st.floats(0, 10, allow_subnormal=False))
def test_md1_delay_is_the_oracles(requests, cycles, service):
    ours = kernels.md1_wait.py_func(requests, cycles, service)
    assert ours == pytest.approx(oracle.md1_delay(requests, cycles, service), rel=1e-12)


@given(threads=st.integers(1, 5), p=st.fractions(0, 1, max_denominator=20), m=st.integers(1, 30))
def test_markov_chain_is_the_exact_solution(threads, p, m):
    assume(p > 0)
    exact = markov.all_suspended_exact(threads, p, Fraction(1, m))
    assert kernels.all_suspended(threads, float(p), 1 / m) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 8, 31, 64])
@pytest.mark.parametrize(("p", "q"), [(0.25, 1 / 340), (0.05, 0.02), (1.0, 0.5), (0.7, 0.9)])
def test_markov_chain_is_what_the_iterated_matrix_tends_to(threads, p, q):
    iterated = markov.all_suspended_by_iteration(threads, p, q)
    assert kernels.all_suspended(threads, p, q) == pytest.approx(iterated, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize(("threads", "p", "q"), [(16, 0.7, 0.9), (24, 0.7, 0.9), (31, 0.5, 0.5)])
def test_markov_chain_keeps_its_digits_where_all_are_hardly_ever_suspended(threads, p, q):
    iterated = markov.all_suspended_by_iteration(threads, p, q)
    assert 0.0 < iterated < 1e-100
    assert kernels.all_suspended(threads, p, q) == pytest.approx(iterated, rel=1e-8, abs=0.0)


@pytest.mark.parametrize("asleep", [1e-5, 1e-6, 1e-17, 0.0])
@pytest.mark.parametrize("p", [1.0, 0.5, 1e-18])
def test_markov_chain_where_threads_wake_nearly_at_once_does_not_overflow(p, asleep):
    """All 64 suspended at the same time has a probability below what floats can hold: it is 0, not NaN."""
    assert kernels.all_suspended(64, p, 1.0 - asleep) == pytest.approx(0.0, abs=1e-200)


@pytest.mark.parametrize("warps", [1, 2, 64])
def test_markov_chain_at_its_edges(warps):
    assert kernels.all_suspended(warps, 0.0, 0.5) == 0.0  # nothing ever stalls
    assert kernels.all_suspended(warps, 0.5, 0.0) == 1.0  # nothing ever wakes


# -- whole evaluation --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", ["mdm", "mdm-cal2019"])
@given(intervals=st.lists(whole_intervals, min_size=1, max_size=5), machine=machines)
def test_mdm_is_the_oracle_exactly(model, policy, intervals, machine):
    terms = oracle.TERMS[model]
    ours = evaluate(intervals, machine, policy, *terms, "l2-misses")
    expected = oracle.predict(model, intervals, machine, policy)
    assert ours["nonoverlapped"] == expected.nonoverlapped
    assert ours["noc"] == expected.S_NoC
    assert ours["dram"] == expected.S_DRAM
    assert ours["mshr"] == expected.S_MSHR


@pytest.mark.parametrize("dram_requests", REQUESTS)
@pytest.mark.parametrize("model", [name for name, terms in oracle.TERMS.items() if terms != ("mdm", "mdm")])
@given(
    intervals=st.lists(whole_intervals, min_size=1, max_size=5),
    machine=machines,
    policy=st.sampled_from(["rr", "gto"]),
)
def test_every_variant_is_the_oracle(model, dram_requests, intervals, machine, policy):
    ours = evaluate(intervals, machine, oracle.FIXED_POLICY.get(model, policy), *oracle.TERMS[model], dram_requests)
    expected = oracle.predict(model, intervals, machine, policy, dram_requests=dram_requests)
    assert ours["nonoverlapped"] == expected.nonoverlapped
    assert ours["noc"] == pytest.approx(expected.S_NoC, rel=1e-12)
    assert ours["dram"] == pytest.approx(expected.S_DRAM, rel=1e-12)
    assert ours["mshr"] == pytest.approx(expected.S_MSHR, rel=1e-12)


@pytest.mark.parametrize("queue_term", QUEUE_TERMS)
@given(intervals=st.lists(whole_intervals, min_size=1, max_size=5), machine=machines)
def test_without_a_term_for_mshrs_nothing_waits_for_them(queue_term, intervals, machine):
    """And queues are as long as with one."""
    without, with_one = (
        evaluate(intervals, machine, "gto", term, queue_term, "l2-misses") for term in (None, "gpumech")
    )
    assert without["mshr"] == without["queue_wait"] == 0.0
    assert without[["noc", "dram"]] == with_one[["noc", "dram"]]


@given(intervals=st.lists(whole_intervals, min_size=1, max_size=5), machine=machines)
def test_terms_of_the_heaviest_interval(intervals, machine):
    """M, S_Mem and batches belong to the first interval with the most concurrent misses."""
    busy = [i for i in intervals if i.reads + i.writes > 0]
    assume(busy)
    ours = evaluate(intervals, machine, "gto", "mdm", "mdm", "l2-misses")
    heaviest = max(busy, key=lambda i: oracle.concurrent_misses(i, machine))
    noc, dram = oracle.mdm_queues(heaviest, machine, saturation_test=True)
    assert ours["concurrent"] == oracle.concurrent_misses(heaviest, machine)
    assert ours["batches"] == math.ceil(heaviest.reads * machine.warps / machine.mshrs)
    stall = machine.llc_latency + heaviest.miss_ratio * machine.dram_latency + noc + dram
    assert ours["memory_stall"] == stall
    assert ours["divergent"] == sum(i.reads * machine.warps > machine.mshrs for i in busy)
    assert ours["saturated"] == sum(oracle.noc_saturated(i, machine) for i in busy)


@given(
    intervals=st.lists(whole_intervals, min_size=1, max_size=4), several=st.lists(machines, min_size=2, max_size=4)
)
def test_machines_of_a_table_do_not_touch_each_other(intervals, several):
    """The kernel fills one row per machine: together is the same as one by one."""
    result = np.zeros(len(several), k.RESULT)
    terms = k.Terms(k.GREEDY_THEN_OLDEST, k.MDM_MSHR, k.MDM_QUEUE, k.ALL_REQUESTS)
    kernels.evaluate(records(intervals), machine_records(several), terms, result)
    for machine, row in zip(several, result, strict=True):
        assert row == evaluate(intervals, machine, "gto", "mdm", "mdm", "l2-misses")


@given(
    intervals=st.lists(
        st.builds(
            oracle.Interval,
            instructions=st.floats(1, 1e4),
            stall=st.floats(0, 1e5),
            memory_instructions=st.floats(0.1, 10),
            reads=st.floats(0, 100),
            writes=st.floats(0, 100),
            miss_ratio=st.floats(0, 1),
        ),
        min_size=1,
        max_size=5,
    ),
    machine=machines,
    policy=st.sampled_from(list(POLICIES)),
)
def test_fractions_agree_to_twelve_digits(intervals, machine, policy):
    """With numbers that are not whole, sums round in another order; M-6's ceiling is kept away from its steps."""
    for i in intervals:
        per_mshr = i.reads * machine.warps / machine.mshrs
        assume(abs(per_mshr - round(per_mshr)) > 1e-9 or i.reads == 0)
    ours = evaluate(intervals, machine, policy, "mdm", "mdm", "l2-misses")
    expected = oracle.predict("mdm", intervals, machine, policy)
    scale = machine.warps * sum(i.instructions + i.stall * machine.issue_rate for i in intervals)
    assert ours["nonoverlapped"] == pytest.approx(expected.nonoverlapped, rel=1e-12, abs=1e-12 * scale)
    assert ours["noc"] == pytest.approx(expected.S_NoC, rel=1e-12)
    assert ours["dram"] == pytest.approx(expected.S_DRAM, rel=1e-12)
    assert ours["mshr"] == pytest.approx(expected.S_MSHR, rel=1e-12)
