"""GCoM: sub-cores, functional units and idle SMs, against equations written out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from making import Interval, complete_gpu, run, with_graph, with_profile
from reference import gcom as oracle


def machine(scheduler="gto", **changes):
    return complete_gpu(scheduler=scheduler, llc__write_policy="through", **changes)


def by_hand(intervals, gpu, blocks, resident, warps):
    numbers = oracle.Machine(
        sub_cores=int(gpu.schedulers),
        active_sms=min(blocks, int(gpu.sms)),
        mshrs=int(gpu.l1.mshrs),
        llc_latency=gpu.llc.latency_cycles,
        dram_latency=gpu.dram_latency_cycles_now(""),
        noc_service=gpu.service_cycles_now("noc", ""),
        dram_service=gpu.service_cycles_now("dram", ""),
        greedy=gpu.scheduler == "gto",
    )
    rows = [oracle.Interval(i.instructions, i.stall, i.reads, i.writes, i.miss_ratio) for i in intervals]
    return oracle.launch_cycles(rows, numbers, blocks, resident, warps)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(1, 40),
            st.integers(0, 400),
            st.integers(0, 40),
            st.integers(0, 9),
            st.sampled_from([0.0, 0.4, 1.0]),
        ),
        min_size=1,
        max_size=4,
    ),
    scheduler=st.sampled_from(["gto", "lrr"]),
    blocks=st.integers(1, 90),
    resident=st.integers(1, 6),
    warps=st.integers(1, 5),
    sub_cores=st.sampled_from([1, 2, 4]),
)
def test_follows_the_equations(rows, scheduler, blocks, resident, warps, sub_cores):
    intervals = [Interval(i, s, min(r, 1), r, w, m) for i, s, r, w, m in rows]
    gpu = machine(scheduler, schedulers=sub_cores, issue_width=1)
    launch = {"blocks": blocks, "threads_per_block": 32 * warps, "blocks_per_sm": resident}
    found = run("gcom", with_profile(*intervals, **launch), gpu)
    assert found.cycles == pytest.approx(by_hand(intervals, gpu, blocks, resident, warps), rel=1e-9)
    assert sum(found.stack.values()) == pytest.approx(found.cpi, rel=1e-12)


def test_one_warp_pays_for_every_stall():
    """A warp alone: 4 + 20 + 6 cycles, the last interval's issue again, and one."""
    work = with_profile(Interval(4, 20), Interval(6, 0), warps_per_sm=1)
    assert run("gcom", work, machine(schedulers=1, issue_width=1)).cycles == 4 + 20 + 6 + 6 + 1


def test_warps_hide_stalls_of_their_own_sub_core_only():
    """Four warps on four sub-cores hide nothing; on one they do."""
    work = with_profile(Interval(10, 30), Interval(10, 0), warps_per_sm=4)
    apart, together = (run("gcom", work, machine(schedulers=count, issue_width=1)) for count in (4, 1))
    assert apart.stack["DEP"] * apart.cycles / apart.cpi == pytest.approx(30 + 10)
    assert together.stack["DEP"] * together.cycles / together.cpi < 30 + 40


def test_a_busy_unit_stalls_issue_beyond_what_its_queue_holds():
    """Eight special functions of 16 warps on one sub-core: the unit takes 8 cycles each."""
    gpu = machine(schedulers=1, issue_width=1, instructions__sfu__interval=8, instructions__sfu__subsystem="sfu")
    work = with_graph(*["sfu"] * 8, warps_per_sm=16)
    found = run("gcom", work, gpu)
    issue, busy = 8 * 16, 8 * 8 * 16
    stall = run("gcom", with_graph(*["comp"] * 8, warps_per_sm=16), gpu)
    assert stall.terms["S_units"] == 0
    own = gpu.timing("sfu", "").latency_cycles
    expected = oracle.structural_stall([busy], issue, own, 2 * 1 + 8, 8 * 16)
    assert found.terms["S_units"] == pytest.approx(expected)
    assert found.terms["S_l1"] == 0


def test_sub_cores_and_sms_without_warps_are_idle():
    found = run(
        "gcom", with_profile(Interval(8, 0), blocks=3, threads_per_block=32), machine(schedulers=4, issue_width=1)
    )
    # One warp on one of four sub-cores: three quarters of the SM's time.
    assert found.terms["S_idle"] == pytest.approx(0.75 * (found.cycles - 1))


def test_an_unknown_mix_is_said():
    found = run("gcom", with_profile(Interval(8, 0), warps_per_sm=4), machine())
    assert any("which units" in text for text in found.warnings)
    assert math.isfinite(found.cycles)
