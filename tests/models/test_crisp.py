"""CRISP: the parts of a run, and how they follow the clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.recorded import ARRAY, FFMA, ROWS, STG128
from making import gpu
from reference.traces import Step, evenly, memory_trace
from warplens.api import compare, load_workload, predict, simulate
from warplens.errors import MissingInputError, WorkloadError
from warplens.machine import load_gpu
from warplens.models import get_model
from warplens.models.crisp import measured_run, time_at
from warplens.workload import Launch, MeasuredRun, Results, Workload, workload_of_trace
from warplens_studies.validate import accelsim

KERNEL = "compute_ilp4_lowocc"


@pytest.fixture(scope="module")
def traced():
    return load_workload(accelsim.trace_path(KERNEL))


@pytest.fixture(scope="module")
def run():
    return simulate(accelsim.trace_path(KERNEL), accelsim.GPU, "detailed")


def given_run(**parts: float) -> Workload:
    return Workload("measured", Launch(blocks=28.0, threads_per_block=256), run=MeasuredRun(1e9, **parts))


@pytest.mark.parametrize(
    ("load", "under", "outside", "store", "seconds"),
    [
        (1.0, 0.4, 0.0, 0.0, 1.0),  # hidden under loads: keeps its seconds
        (1.0, 0.8, 0.5, 0.0, 2.6),  # more computation than loads at half the clock
        (0.0, 0.0, 2.0, 0.0, 4.0),  # computation alone: keeps its cycles
        (1.0, 0.0, 0.2, 0.7, 1.7),  # stores hold up more than computation outside takes
    ],
)
def test_parts_follow_the_clock_as_they_should(load, under, outside, store, seconds):
    made = predict(
        given_run(load_seconds=load, overlapped_seconds=under, outside_seconds=outside, store_seconds=store),
        gpu(),
        "crisp",
        overrides={"clock": "0.5GHz"},
    )
    assert made.seconds == pytest.approx(seconds)
    assert made.cycles == pytest.approx(seconds * 0.5e9)


@given(*[st.floats(0, 10)] * 4, st.floats(1e8, 1e10), st.floats(1.01, 10))
def test_a_lower_clock_is_never_faster_nor_slower_than_its_ratio(load, under, outside, store, f0, factor):
    under = min(under, load)
    own, slower = (float(time_at(np.array(f), f0, load, under, outside, store)) for f in (f0, f0 / factor))
    assert own * (1 - 1e-12) <= slower <= own * factor * (1 + 1e-12)


def test_a_run_of_the_simulator_is_itself_at_its_own_clock(run):
    found = measured_run(run)
    at_own = time_at(
        run.cycles / run.seconds,
        found.clock_hz,
        found.load_seconds,
        found.overlapped_seconds,
        found.outside_seconds,
        found.store_seconds,
    )
    assert at_own == pytest.approx(run.seconds)
    assert 0 < found.overlapped_seconds <= found.load_seconds < run.seconds


def test_without_loads_all_is_computation_and_with_them_everywhere_all_is_load(run):
    silent = measured_run(replace(run, load_share=0.0))
    assert (silent.load_seconds, silent.overlapped_seconds) == (0.0, 0.0)
    assert silent.outside_seconds == run.seconds
    busy = measured_run(replace(run, load_share=1.0))
    assert (busy.load_seconds, busy.outside_seconds) == (run.seconds, 0.0)


def storing(computations):
    """Warps that only compute and store, more than the network takes: no load is ever outstanding."""
    blocks = [
        [
            [
                step
                for turn in range(6)
                for step in (
                    *(Step(FFMA) for _ in range(computations)),
                    Step(STG128, evenly(ARRAY + 512 * (turn + 6 * (4 * block + warp)), 16)),
                )
            ]
            for warp in range(4)
        ]
        for block in range(24)
    ]
    return workload_of_trace(memory_trace(ROWS, blocks, kernel="storing"))


def test_stores_that_hold_warps_keep_their_seconds():
    machine = load_gpu(accelsim.GPU, {"sms": 2, "noc.bandwidth": "20GB/s"})
    held = measured_run(simulate(storing(1), machine, "detailed"))
    assert held.load_seconds == 0.0
    assert held.outside_seconds < 0.5 * held.store_seconds
    free = measured_run(simulate(storing(200), load_gpu(accelsim.GPU), "detailed"))
    assert free.load_seconds == 0.0
    assert free.outside_seconds > 0.9 * max(free.store_seconds, free.outside_seconds)


@pytest.mark.parametrize("computations", [1, 30, 200])
def test_it_is_near_the_simulator_where_stores_hold_warps(computations):
    machine, workload = load_gpu(accelsim.GPU, {"sms": 2, "noc.bandwidth": "20GB/s"}), storing(computations)
    slower = simulate(workload, machine, "detailed", overrides={"clock": "1GHz"})
    made = predict(workload, machine, "crisp", overrides={"clock": "1GHz"}, options={"simulate": True})
    assert made.seconds == pytest.approx(slower.seconds, rel=0.1)


def test_a_trace_is_simulated_once_for_all_clocks(traced, run, monkeypatch):
    from warplens.simulators import detailed

    simulated = []
    original = detailed.simulate_detailed
    monkeypatch.setattr(
        detailed, "simulate_detailed", lambda *given: simulated.append(given[1].clock_hz) or original(*given)
    )
    fresh = replace(traced, results=Results())
    clocks = np.array([0.7e9, 1.4e9, 2e9])
    made = predict(fresh, accelsim.GPU, "crisp", overrides={"clock": clocks}, options={"simulate": True})
    assert simulated == [1.4e9]
    assert made.seconds[1] == pytest.approx(run.seconds)
    assert made.ipc[1] == pytest.approx(run.ipc)
    again = predict(fresh, accelsim.GPU, "crisp", overrides={"clock": 2e9}, options={"simulate": "true"})
    assert again.seconds == made.seconds[2]
    assert len(simulated) == 1
    other = {"clock": clocks[:2], "sms": np.array([14, 28])}
    predict(fresh, accelsim.GPU, "crisp", overrides=other, options={"simulate": True, "clock_hz": 1e9})
    assert simulated[1:] == [1e9, 1e9]


def test_it_is_near_the_simulator_at_another_clock(traced):
    slower = simulate(traced, accelsim.GPU, "detailed", overrides={"clock": "1GHz"})
    made = predict(traced, accelsim.GPU, "crisp", overrides={"clock": "1GHz"}, options={"simulate": True})
    assert made.seconds == pytest.approx(slower.seconds, rel=0.1)


def test_without_a_run_it_is_left_out_with_the_remedy(traced):
    found = compare(traced, [accelsim.GPU])
    (reason,) = [item.reason for item in found.skipped if item.model == "crisp"]
    assert "--option crisp.simulate=true" in reason
    with pytest.raises(MissingInputError, match=r"\[measured_run\]"):
        predict(traced, accelsim.GPU, "crisp")
    with pytest.raises(MissingInputError):  # what was not traced cannot be simulated either
        predict("mdm-baseline", None, "crisp", options={"simulate": True})
    assert not get_model("crisp", {"simulate": True}).missing(traced, gpu())


def test_changes_that_a_measured_run_cannot_show_are_told():
    workload = given_run(load_seconds=1.0, overlapped_seconds=0.4, outside_seconds=0.2)
    assert predict(workload, gpu(), "crisp", overrides={"clock": 2e9}).warnings == []
    assert (
        "only a changed clock has an effect" in predict(workload, gpu(), "crisp", overrides={"sms": 14}).warnings[0]
    )


FILE = """
[machine]
name = "mdm2020"
[launch]
blocks = 28
threads_per_block = 256
[measured_run]
clock_hz = 2e9
instructions_per_warp = 1000
load_seconds = 3e-4
overlapped_seconds = 1e-4
outside_seconds = 5e-5
"""


def test_a_run_in_a_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    made = predict(path, None, "crisp", overrides={"clock": "2GHz"})
    assert made.seconds == pytest.approx(3.5e-4)
    assert made.ipc == pytest.approx(28 * 8 * 1000 / (3.5e-4 * 2e9))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("clock_hz = 2e9", ""), "clock_hz: is missing"),
        (("clock_hz = 2e9", "clock_hz = 0"), "clock_hz: 0 must be above 0"),
        (("instructions_per_warp = 1000", ""), "instructions_per_warp: is missing"),
        (("overlapped_seconds = 1e-4", "overlapped_seconds = 4e-4"), "overlapped_seconds: .* at most 0.0003"),
        (("outside_seconds", "outsid_seconds"), "did you mean .*outside_seconds"),
        (("[machine]", "store_seconds = 1\n[machine]"), "unknown key 'store_seconds'"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, change, message):
    path = tmp_path / "run.toml"
    path.write_text(FILE.replace(*change))
    with pytest.raises(WorkloadError, match=message):
        load_workload(path)


def test_a_run_without_time_is_refused(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[measured_run]\nclock_hz = 1e9\ninstructions_per_warp = 1\n")
    with pytest.raises(WorkloadError, match="has no time in it"):
        load_workload(path)
