"""Energy of a launch: every part by hand, clocks, and the power limit."""

from __future__ import annotations

import numpy as np
import pytest

from contract import recorded
from making import gpu, run, with_mix, with_profile
from warplens.api import place
from warplens.errors import MachineError, OverrideError
from warplens.explanation import explain, words
from warplens.machine import load_gpu, with_overrides
from warplens.models import get_model
from warplens.models.energy import Energy, energy_of
from warplens.workload import Needs, analyse

POWER = {
    "power.idle_watts": 50.0,
    "power.active_watts": 150.0,
    "power.comp_picojoules": 100.0,
    "power.fp64_picojoules": 400.0,
    "power.mem_picojoules": 1000.0,
    "power.l1_picojoules_per_byte": 2.0,
    "power.llc_picojoules_per_byte": 20.0,
    "power.llc_picojoules_per_request": 1000.0,
    "power.dram_picojoules_per_byte": 60.0,
}
LAUNCH = {"blocks": 280, "threads_per_block": 256, "blocks_per_sm": 4}
MIX = {"int32": 6, "fp64": 2, "load_global": 2}


def energy(workload, machine, model="volkov"):
    return energy_of(workload, machine, get_model(model), run(model, workload, machine))


def test_static_power_and_instructions():
    """A class without a number has that of its ancestor; without addresses nothing is known of bytes."""
    machine = gpu(**{key.replace(".", "__"): value for key, value in POWER.items()})
    found = energy(with_mix(MIX, LAUNCH), machine)
    seconds = run("volkov", with_mix(MIX, LAUNCH), machine).seconds
    per_warp = 6 * 100 + 2 * 400 + 2 * 1000
    assert found.parts["instructions"] == pytest.approx(280 * 8 * per_warp * 1e-12)
    assert found.parts["static"] == pytest.approx(150.0 * seconds)
    assert [found.parts[name] for name in ("L1", "L2", "DRAM")] == [0.0, 0.0, 0.0]
    assert found.joules == pytest.approx(sum(found.parts.values()))
    assert found.watts == pytest.approx(found.joules / seconds)


def test_bytes_of_a_trace():
    setting = recorded.SETTINGS["h200-small"]
    workload = recorded.placed("streaming", setting)
    machine = with_overrides(gpu("h200", **{k.replace(".", "__"): v for k, v in setting.overrides.items()}), POWER)
    found = energy(workload, machine, "mdm")
    assert min(found.parts.values()) > 0
    twice = energy(workload, with_overrides(machine, {"power.dram_picojoules_per_byte": 120.0}), "mdm")
    assert twice.parts["DRAM"] == pytest.approx(2 * found.parts["DRAM"])
    assert {**twice.parts, "DRAM": 0} == {**found.parts, "DRAM": 0}
    misses = analyse(workload, machine, get_model("mdm").requirements, "a test").traced.misses
    bytes_of = misses.transfer_bytes
    dram = misses.dram_read_bytes + misses.dram_write_bytes + misses.dirty_left * bytes_of
    assert found.parts["DRAM"] == pytest.approx(60e-12 * float(dram))
    assert found.parts["L1"] == pytest.approx(2e-12 * float(misses.l1_accesses * bytes_of))


def test_voltage_follows_the_clock():
    """At half the clock and a slope of 0.4 the voltage is 0.8 of the nominal one: energies fall to 0.64."""
    machine = gpu(**{key.replace(".", "__"): value for key, value in POWER.items()}, power__voltage_slope=0.4)
    whole = energy(with_mix({"int32": 10}, LAUNCH), machine)
    slow = with_overrides(machine, {"clock": machine.clock_hz / 2})
    half = energy(with_mix({"int32": 10}, LAUNCH), slow)
    assert half.parts["instructions"] == pytest.approx(0.64 * whole.parts["instructions"])
    seconds = run("volkov", with_mix({"int32": 10}, LAUNCH), slow).seconds
    assert half.parts["static"] == pytest.approx(seconds * (50 + 100 * 0.5 * 0.64))


def test_clocks():
    machine = gpu(**{key.replace(".", "__"): value for key, value in POWER.items()}, power__voltage_slope=0.8)
    found = energy(with_mix(MIX, LAUNCH), machine)
    assert found.limited_hz is None
    assert found.clock_hz[-1] == machine.clock_hz and found.over_clocks[-1] == pytest.approx(found.joules)
    product = found.over_clocks * found.seconds
    assert found.least_energy_hz == found.clock_hz[np.argmin(found.over_clocks)]
    assert found.least_product_hz == found.clock_hz[np.argmin(product)] >= found.least_energy_hz
    watts = found.over_clocks / found.seconds
    limit = float(watts[5] + watts[6]) / 2
    limited = energy(with_mix(MIX, LAUNCH), with_overrides(machine, {"power.limit_watts": limit}))
    assert limited.limited_hz == pytest.approx((found.clock_hz[5] + found.clock_hz[6]) / 2)
    too_low = energy(with_mix(MIX, LAUNCH), with_overrides(machine, {"power.limit_watts": 1.0}))
    assert too_low.limited_hz == found.clock_hz[0]


def test_what_is_unknown():
    from making import Interval

    assert energy(with_mix(MIX, LAUNCH), gpu()) is None
    machine = gpu(power__active_watts=100.0)
    assert energy(with_profile(Interval(10, 5), warps_per_sm=4), machine, "gpumech-mt") is None


def test_the_answer_has_it():
    machine = gpu(**{key.replace(".", "__"): value for key, value in POWER.items()}, power__limit_watts=120.0)
    answer = explain(with_mix(MIX, LAUNCH), machine)
    assert answer.to_dict()["energy"]["joules"] == answer.energy.joules
    assert explain(with_mix(MIX, LAUNCH), gpu()).to_dict()["energy"] is None


def test_a_clock_that_the_power_limit_sustains():
    setting = recorded.SETTINGS["h200-small"]
    workload = recorded.placed("streaming", setting)
    machine = with_overrides(gpu("h200", **{k.replace(".", "__"): v for k, v in setting.overrides.items()}), POWER)
    free = energy(workload, machine, "warplens")
    _, same = place(workload, with_overrides(machine, {"power.limit_watts": 1e4}), {"clock": "power"})
    assert same.clock_hz == machine.nominal_clock_hz
    limit = 0.5 * float(free.over_clocks[0] / free.seconds[0] + free.watts)
    _, slower = place(workload, with_overrides(machine, {"power.limit_watts": limit}), {"clock": "power"})
    assert machine.nominal_clock_hz > slower.clock_hz > 0.4 * machine.nominal_clock_hz
    assert energy(workload, slower, "warplens").watts == pytest.approx(limit, rel=0.02)
    with pytest.raises(MachineError, match="needs its energies and its power limit"):
        place(workload, load_gpu("rtx3090"), {"clock": "power"})
    with pytest.raises(OverrideError, match="depends on the kernel"):
        with_overrides(machine, {"clock": "power"})


def test_words_speak_of_a_power_limit_only_where_it_holds_the_clock():
    def said(limit_watts):
        clocks, seconds = np.array([1e9, 2e9]), np.array([2e-3, 1e-3])
        return words.energy(Energy(0.3, 300.0, {}, clocks, seconds, np.array([0.2, 0.3]), limit_watts, False))

    assert said(None) == said(700.0) == "300 mJ at 300 W"
    assert said(150.0) == "300 mJ at 300 W; the power limit of 150 W holds the clock at 1.25 GHz"


def test_what_is_left_dirty_is_written_at_the_expense_of_the_launch():
    """The caches of this machine hold all that the launch stores: nothing is written before it ends."""
    setting = recorded.SETTINGS["h200-small"]
    workload = recorded.placed("streaming", setting)
    machine = with_overrides(gpu("h200", **{k.replace(".", "__"): v for k, v in setting.overrides.items()}), POWER)
    misses = analyse(workload, machine, Needs("instruction_mix"), "this test").traced.misses
    assert misses.dirty_left > 0
    moved = misses.dram_read_bytes + misses.dram_write_bytes + misses.dirty_left * misses.transfer_bytes
    assert energy(workload, machine, "mdm").parts["DRAM"] == pytest.approx(moved * 60e-12)


def test_the_l2_takes_energy_for_requests_and_for_bytes():
    """Sectors of a line share a request: a gather of as many bytes takes more than a coalesced load."""
    setting = recorded.SETTINGS["h200-small"]
    machine = with_overrides(gpu("h200", **{k.replace(".", "__"): v for k, v in setting.overrides.items()}), POWER)
    per_byte = {}
    for name in ("streaming", "scattered"):
        workload = recorded.placed(name, setting)
        misses = analyse(workload, machine, Needs("instruction_mix"), "this test").traced.misses
        moved, requests = misses.llc_accesses * misses.transfer_bytes, misses.packets_per_execution @ misses.executed
        found = energy(workload, machine, "mdm").parts["L2"]
        assert found == pytest.approx((20 * moved + 1000 * requests) * 1e-12)
        per_byte[name] = found / moved
    assert per_byte["scattered"] > per_byte["streaming"]
