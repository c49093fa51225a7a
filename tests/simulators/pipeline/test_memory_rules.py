"""λ and Λ of memory from counters (Lemeire et al., §6.3)."""

from __future__ import annotations

import pytest

from making import gpu, with_graph
from warplens.analysis.banks import with_conflicts
from warplens.errors import MissingInputError
from warplens.machine import InstructionTiming
from warplens.simulators.pipeline import simulate_pipeline
from warplens.simulators.pipeline.memory_rules import (
    Lambdas,
    dram_ratio,
    global_lambdas,
    l2_lambdas,
    timing_from_counters,
)

DRAM, L2 = Lambdas(12, 345), Lambdas(4, 200)


def test_ratio():
    assert dram_ratio(300, 400) == 0.75


def test_as_much_as_is_accessed():
    assert global_lambdas(1.0, DRAM, L2) == DRAM
    assert global_lambdas(1.0, DRAM) == DRAM


def test_less_comes_from_l2():
    assert global_lambdas(0.25, DRAM, L2) == Lambdas(0.25 * 12 + 0.75 * 4, 0.25 * 345 + 0.75 * 200)
    assert global_lambdas(0.0, DRAM, L2) == L2
    with pytest.raises(MissingInputError, match="L2"):
        global_lambdas(0.5, DRAM)


def test_more_follows_at_the_rate_of_dram():
    assert global_lambdas(2.5, DRAM) == Lambdas(2.5 * 12, 345 + 1.5 * 12)


def test_all_three_meet_at_one():
    for ratio in (1 - 1e-9, 1 + 1e-9):
        found = global_lambdas(ratio, DRAM, L2)
        assert found.interval == pytest.approx(12, rel=1e-7)
        assert found.latency == pytest.approx(345, rel=1e-7)


def test_bank_conflicts():
    local = InstructionTiming(25, 1)
    assert with_conflicts(local, 0) == local
    assert with_conflicts(local, 3) == InstructionTiming(28, 4)
    assert with_conflicts(local, 0.5) == InstructionTiming(25.5, 1.5)


class TestOnAMachine:
    def test_only_memory_changes(self):
        machine = gpu("gtx1060")
        for name in ("fp32", "sfu", "barrier", "load_constant"):
            assert timing_from_counters(machine, name, "test", ratio=3, conflict_degree=5) == machine.timing(name)
        assert timing_from_counters(machine, "load_global", "test", ratio=3).interval_cycles == 36
        assert timing_from_counters(machine, "load_shared", "test", conflict_degree=2).interval_cycles == 3

    def test_l2_is_the_llc_behind_the_share_of_the_noc(self):
        machine = gpu("mdm2020")
        found = l2_lambdas(machine, "test")
        assert found.latency == machine.llc.latency_cycles
        per_sm = machine.noc.bandwidth_bytes_per_s / machine.sms
        assert found.interval == pytest.approx(128 / per_sm * machine.clock_hz)

    def test_a_machine_without_l2_says_what_it_lacks(self):
        with pytest.raises(MissingInputError, match=r"noc\.bandwidth"):
            timing_from_counters(gpu("k620"), "load_global", "test", ratio=0.5)
        timing_from_counters(gpu("k620"), "load_shared", "test", ratio=0.5, conflict_degree=1)

    def test_the_simulator_uses_them(self):
        workload = with_graph("load_global", "load_global", "load_shared", "load_shared", warps_per_sm=1)
        machine = gpu("gtx1060")
        plain = simulate_pipeline(workload, machine)
        more = simulate_pipeline(workload, machine, dram_ratio=2.0, bank_conflicts=1.0)
        assert plain.pipelines["memory"].busy_cycles == 24
        assert more.pipelines["memory"].busy_cycles == 48
        assert more.pipelines["shared"].busy_cycles == 2 * plain.pipelines["shared"].busy_cycles
        assert more.cycles == 24 + 345 + 12
