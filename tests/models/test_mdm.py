"""MDM, its first version and the ablations of Table V: every branch of M-2 … M-10."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import Interval, gpu, oracle_machine, run, with_profile
from reference import interval_models as oracle
from warplens.errors import MissingInputError


def one(*, reads=0.0, writes=0.0, ratio=1.0, warps=4, stall=340.0):
    """A workload of one interval with one memory instruction."""
    return with_profile(Interval(4, stall, 1, reads, writes, ratio), warps_per_sm=warps)


# One request of 128 bytes takes 1 cycle in the NoC and 2 in the DRAM; 10 SMs, 16 MSHRs, 100 + 200 cycles.
PLAIN = {
    "sms": 10,
    "clock": 1e9,
    "l1.mshrs": 16,
    "llc.latency": 100,
    "dram.latency": 200,
    "noc.bandwidth": 128e9,
    "dram.bandwidth": 64e9,
}


def plain(**changes):
    # The DRAM part of a latency keeps its seconds: at another clock it is not 200 cycles any more.
    values = PLAIN | {"dram.latency": 200 * 1.4} | {key.replace("__", "."): value for key, value in changes.items()}
    return gpu(**{key.replace(".", "__"): value for key, value in values.items()})


def test_the_plain_machine_is_what_its_comment_says():
    machine = plain()
    assert machine.service_cycles_now("noc", "test") == 1
    assert machine.service_cycles_now("dram", "test") == 2
    assert machine.dram_latency_cycles_now("test") == pytest.approx(200)


# -- divergence and saturation -------------------------------------------------------------


def test_divergent_and_saturated():
    """M-2: 5·4 > 16. M-10: 10·16·1 = 160 is not above 300, so take 40 SMs: 640 is."""
    terms = run("mdm", one(reads=5), plain(sms=40)).terms
    assert terms["M"] == 16
    assert (terms["MD_intervals"], terms["saturated_intervals"]) == (1, 1)
    assert terms["S_NoC"] == 40 * 16 * 1
    assert terms["S_DRAM"] == 40 * 16 * 2
    assert terms["S_Mem"] == pytest.approx(100 + 200 + 640 + 1280)
    assert terms["batches"] == 2
    assert terms["S_MSHR"] == pytest.approx(1 * terms["S_Mem"])


def test_divergent_but_not_saturated_stalls_for_half_of_the_queues():
    terms = run("mdm", one(reads=5), plain()).terms
    assert (terms["MD_intervals"], terms["saturated_intervals"]) == (1, 0)
    assert terms["S_NoC"] == 0.5 * 10 * 16 * 1
    assert terms["S_DRAM"] == 0.5 * 10 * 16 * 2
    assert terms["S_MSHR"] == pytest.approx(300 + 80 + 160)


def test_not_divergent_but_saturated_stalls_for_half_and_has_no_batches():
    terms = run("mdm", one(reads=4), plain(sms=40)).terms
    assert terms["M"] == 16  # as many reads as MSHRs: not divergent (M-2 is strict)
    assert (terms["MD_intervals"], terms["saturated_intervals"]) == (0, 1)
    assert terms["S_NoC"] == 0.5 * 40 * 16 * 1
    assert terms["S_MSHR"] == 0


def test_neither_divergent_nor_saturated():
    terms = run("mdm", one(reads=1), plain()).terms
    assert (terms["MD_intervals"], terms["saturated_intervals"]) == (0, 0)
    assert terms["S_NoC"] == 0.5 * 10 * 4 * 1
    assert terms["S_MSHR"] == 0


def test_saturation_begins_above_the_unloaded_latency():
    """M-10 is strict: a queue of exactly the latency is not saturated."""
    machine = plain(dram__latency=0, llc__latency=160)
    assert run("mdm", one(reads=5), machine).terms["saturated_intervals"] == 0
    machine = plain(dram__latency=0, llc__latency=159)
    assert run("mdm", one(reads=5), machine).terms["saturated_intervals"] == 1


def test_the_noc_decides_on_saturation_for_the_dram_too():
    """Its own queue is far beyond the latency, but the DRAM is exposed only when the NoC saturates."""
    terms = run("mdm", one(reads=5), plain(dram__bandwidth=1e9)).terms
    assert terms["saturated_intervals"] == 0
    assert terms["S_DRAM"] == 0.5 * 10 * 16 * 128


def test_the_first_mdm_has_no_saturation_test():
    """C-5: every divergent interval is exposed to the whole queues."""
    now, then = (run(model, one(reads=5), plain()).terms for model in ("mdm", "mdm-cal2019"))
    assert then["S_NoC"] == 2 * now["S_NoC"] == 160
    assert then["S_DRAM"] == 2 * now["S_DRAM"] == 320
    calm_now, calm_then = (run(model, one(reads=4), plain()).terms for model in ("mdm", "mdm-cal2019"))
    assert calm_now == calm_then


# -- requests ------------------------------------------------------------------------------


def test_writes_are_not_limited_by_the_mshrs():
    """M-3: reads are capped, writes come on top."""
    assert run("mdm", one(reads=100, writes=3), plain()).terms["M"] == 16 + 3 * 4
    assert run("mdm", one(writes=100), plain()).terms["M"] == 400
    assert run("mdm", one(writes=100), plain()).terms["S_MSHR"] == 0


@pytest.mark.parametrize(("reads", "batches"), [(4, 1), (4.25, 2), (8, 2), (8.25, 3), (64, 16)])
def test_batches_are_rounded_up(reads, batches):
    terms = run("mdm", one(reads=reads), plain()).terms
    assert terms["batches"] == batches
    assert terms["S_MSHR"] == (batches - 1) * terms["S_Mem"]


def test_llc_hits_load_neither_the_dram_queue_nor_its_latency():
    terms = run("mdm", one(reads=5, ratio=0.0), plain(sms=40)).terms
    assert terms["S_DRAM"] == 0
    assert terms["S_Mem"] == 100 + 640


def test_the_llc_miss_ratio_scales_the_dram():
    """M-4 and M-8"""
    terms = run("mdm", one(reads=5, ratio=0.25), plain(sms=40)).terms
    assert terms["S_DRAM"] == 40 * 16 * (0.25 * 2)
    assert terms["S_Mem"] == pytest.approx(100 + 0.25 * 200 + 640 + 320)


def test_sums_go_over_the_intervals():
    single = run("mdm", one(reads=5), plain()).terms
    workload = with_profile(*[Interval(4, 340, 1, 5, 0, 1.0)] * 3, Interval(9, 5), warps_per_sm=4)
    several = run("mdm", workload, plain()).terms
    for term in ("S_NoC", "S_DRAM", "S_MSHR", "MD_intervals"):
        assert several[term] == pytest.approx(3 * single[term])


def test_only_active_sms_load_the_memory_system():
    small = with_profile(Interval(4, 340, 1, 8, 0, 1.0), blocks=3, threads_per_block=64)
    prediction = run("mdm", small, plain())
    assert prediction.terms["S_NoC"] == 0.5 * 3 * 16 * 1
    assert prediction.terms["W"] == 2


def test_sectors_are_what_a_miss_moves():
    whole, sectored = (run("mdm", one(reads=5), machine).terms for machine in (plain(), plain(l1__sector=32)))
    assert sectored["L_NoC"] == whole["L_NoC"] / 4
    assert sectored["S_DRAM"] == whole["S_DRAM"] / 4


# -- streaming L1 --------------------------------------------------------------------------


def test_a_streaming_l1_is_limited_by_the_noc_queue():
    """Footnote 2: the size of the SM's NoC queue replaces #MSHRs."""
    machine = plain(l1__streaming=True, noc__queue=8, l1__mshrs=4096)
    terms = run("mdm", one(reads=5), machine).terms
    assert (terms["M"], terms["batches"]) == (8, 3)


@pytest.mark.parametrize("model", ["mdm", "mdm-cal2019"])
@pytest.mark.parametrize(
    ("machine_streams", "option", "limit"),
    [(True, None, 8), (False, None, 16), (None, None, 16), (True, False, 16), (False, True, 8)],
)
def test_the_streaming_option_overrides_the_machine(model, machine_streams, option, limit):
    changes = {} if machine_streams is None else {"l1__streaming": machine_streams}
    machine = plain(noc__queue=8, **changes)
    assert run(model, one(reads=50), machine, streaming=option).terms["M"] == limit


def test_a_streaming_l1_needs_the_queue_but_no_mshrs():
    machine = plain(l1__streaming=True)
    with pytest.raises(MissingInputError, match=r"model 'mdm' needs noc\.queue_entries.*--set noc\.queue=VALUE"):
        run("mdm", one(reads=5), machine)


# -- Table V -------------------------------------------------------------------------------


def test_gpumech_plus_has_a_noc_queue_and_queues_inside_its_mshr_term():
    workload = one(reads=5, stall=496.0)  # 4 + 496 = 500 cycles
    plus = run("gpumech-plus", workload, plain()).terms
    requests = 10 * 20
    assert plus["Bandwidth_delay"] == pytest.approx((requests / 500 * 2**2) / (2 * (1 - requests / 500 * 2)))
    noc = (requests / 500) / (2 * (1 - requests / 500))
    waits = (300 + noc + plus["Bandwidth_delay"]) * (16 * 1 + 4 * 2 - 20) / 20
    assert plus["exp_queuing_delay"] == pytest.approx(waits)
    original = run("gpumech", workload, plain()).terms
    assert original["exp_queuing_delay"] == pytest.approx(300 * 4 / 20)


def test_gpumech_plus_counts_the_noc_queue_itself_too():
    stack = run("gpumech-plus", one(reads=5, stall=496.0), plain()).stack
    assert stack["NOC"] == pytest.approx(0.4 / 1.2 / (4 * 4))


def test_mdm_queue_has_mdms_queues_and_gpumechs_mshrs():
    ours, mdm = (run(model, one(reads=5), plain()).terms for model in ("mdm-queue", "mdm"))
    assert (ours["S_NoC"], ours["S_DRAM"]) == (mdm["S_NoC"], mdm["S_DRAM"])
    assert ours["S_MSHR"] == pytest.approx((300 + 80 + 160) * 4 / 20)


def test_mdm_mshr_has_gpumechs_queues_and_mdms_batches():
    workload = one(reads=5, stall=496.0)
    ours, plus = (run(model, workload, plain()) for model in ("mdm-mshr", "gpumech-plus"))
    assert (ours.stack["NOC"], ours.stack["QUEUE"]) == (plus.stack["NOC"], plus.stack["QUEUE"])
    terms = ours.terms
    assert terms["S_MSHR"] == pytest.approx(1 * (300 + terms["S_NoC"] + terms["S_DRAM"]))


@given(
    reads=st.integers(1, 64),
    writes=st.integers(0, 8),
    warps=st.integers(1, 64),
    ratio=st.floats(0, 1),
    streaming=st.booleans(),
    queue=st.integers(1, 512),
)
def test_streaming_is_the_oracle_with_the_queue_for_the_mshrs(reads, writes, warps, ratio, streaming, queue):
    machine = gpu(l1__streaming=streaming, noc__queue=queue)
    seen = oracle_machine(machine, warps)
    limit = queue if streaming else seen.mshrs
    interval = Interval(4, 340, 1, reads, writes, ratio)
    expected = oracle.predict("mdm", [interval], oracle.Machine(**{**vars(seen), "mshrs": limit}), "gto")
    ours = run("mdm", with_profile(interval, warps_per_sm=warps), machine)
    assert (ours.terms["S_NoC"], ours.terms["S_DRAM"]) == (expected.S_NoC, expected.S_DRAM)
    assert ours.terms["S_MSHR"] == expected.S_MSHR


def test_at_another_clock_bandwidth_and_dram_keep_their_seconds_and_the_llc_its_cycles():
    """docs/conventions.md §0: twice the clock, service and DRAM take twice the cycles, the LLC its 100."""
    slow, fast = (run("mdm", one(reads=5), plain(clock=clock, sms=40)).terms for clock in (1e9, 2e9))
    assert fast["L_NoC"] == 2 * slow["L_NoC"]
    assert fast["L_DRAM"] == 2 * slow["L_DRAM"]
    no_contention = [terms["S_Mem"] - terms["S_NoC"] - terms["S_DRAM"] for terms in (slow, fast)]
    assert no_contention == [pytest.approx(100 + 200), pytest.approx(100 + 400)]
