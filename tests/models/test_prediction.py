"""Predictions: of one machine, of a batch, of several launches together, and as plain data."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import Interval, complete_gpu, gpu, run, with_graph, with_mix, with_profile
from warplens.errors import MissingInputError
from warplens.models import Condition, Prediction
from warplens.models.prediction import combine

WORKLOAD = with_profile(Interval(5, 100, 1, 8, 2, 0.5), Interval(3, 20), warps_per_sm=16)


def batch(sms=(7.0, 28.0, 14.0)) -> Prediction:
    return run("mdm", WORKLOAD, gpu(sms=np.array(sms)))


# -- a batch --------------------------------------------------------------------------------------------


def test_a_batch_has_a_length_rows_and_an_order():
    found = batch()
    assert found.is_batch
    assert len(found) == 3
    assert [row.overrides["sms"] for row in found] == [7, 28, 14]
    assert [row.cycles for row in found] == found.cycles.tolist()
    assert not found.row(1).is_batch


def test_a_single_prediction_is_a_sequence_of_itself():
    single = run("mdm", WORKLOAD, gpu())
    assert list(single) == [single]


def test_negative_rows_count_from_the_end():
    assert batch().row(-1).cycles == batch().row(2).cycles


def test_warnings_hold_per_machine():
    """ρ ≥ 1 on the large machine only."""
    workload = with_profile(Interval(5, 500, 1, 2, 0, 1.0), warps_per_sm=16)
    found = run("gpumech", workload, gpu(sms=np.array([1.0, 100.0])))
    assert [len(row.warnings) for row in found] == [0, 1]
    assert len(found.warnings) == 1


def test_conditions_of_a_batch_and_of_all():
    assert Condition("always").holds(5)
    assert Condition("there", np.array([False, True])).holds(1)
    assert not Condition("there", np.array([False, True])).holds(0)
    assert Condition("single", np.array([True])).holds(3)


def test_warnings_are_said_once():
    prediction = run("mdm", WORKLOAD, gpu())
    from dataclasses import replace

    twice = replace(prediction, conditions=(Condition("a"), Condition("a"), Condition("b", np.array([False]))))
    assert twice.warnings == ["a"]


# -- plain data -----------------------------------------------------------------------------------------


def test_a_batch_as_plain_data_has_lists():
    document = batch().to_dict()
    assert document["overrides"] == {"sms": [7, 28, 14]}
    assert len(document["stack"]["MSHR"]) == 3
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_what_is_not_finite_becomes_null():
    prediction = run("mwp-cwp", with_mix({"comp": 4, "mem": 2}, {"warps_per_sm": 5}), "lemeire-example")
    assert math.isinf(prediction.terms["MWP_peak_BW"])
    assert prediction.to_dict()["terms"]["MWP_peak_BW"] is None


# -- active SMs and stacks --------------------------------------------------------------------------------


def test_cpi_counts_idle_sms_and_so_does_the_stack():
    """docs/conventions.md §0: cpi = all SMs of the GPU / ipc."""
    few = with_profile(Interval(5, 100, 1, 8, 2, 0.5), blocks=7, threads_per_block=64)
    prediction = run("mdm", few, gpu())
    alone = run("mdm", few, gpu(sms=7))
    assert prediction.cycles == pytest.approx(alone.cycles, rel=1e-14)
    assert prediction.cpi == pytest.approx(4 * alone.cpi, rel=1e-14)
    assert prediction.stack == pytest.approx({name: 4 * part for name, part in alone.stack.items()}, rel=1e-12)


@given(
    intervals=st.lists(
        st.builds(
            Interval,
            instructions=st.floats(1, 1e6),
            stall=st.floats(0, 1e6),
            memory_instructions=st.floats(0.5, 9),
            reads=st.floats(0, 1e4),
            writes=st.floats(0, 1e4),
            miss_ratio=st.floats(0, 1),
        ),
        min_size=1,
        max_size=4,
    ),
    warps=st.floats(1, 64),
    model=st.sampled_from(["gpumech-mt", "gpumech", "gpumech-plus", "mdm", "mdm-queue"]),
)
def test_stacks_add_up_to_the_last_digit(intervals, warps, model):
    prediction = run(model, with_profile(*intervals, warps_per_sm=warps), complete_gpu())
    assert sum(prediction.stack.values()) == pytest.approx(prediction.cpi, rel=1e-15)
    assert all(part >= 0 for part in prediction.stack.values())


# -- several launches ---------------------------------------------------------------------------------------


def test_launches_together_are_the_sum_of_instructions_over_the_sum_of_cycles():
    """docs/conventions.md §5, multi-kernel applications."""
    one = run("mdm", WORKLOAD, gpu())
    other = run("mdm", with_profile(Interval(50, 10), warps_per_sm=8), gpu())
    both = combine([one, other])
    instructions = one.ipc * one.cycles + other.ipc * other.cycles
    assert both.cycles == one.cycles + other.cycles
    assert both.seconds == one.seconds + other.seconds
    assert both.ipc == pytest.approx(instructions / both.cycles, rel=1e-15)
    assert both.cpi == pytest.approx(28 / both.ipc, rel=1e-14)
    assert sum(both.stack.values()) == pytest.approx(both.cpi, rel=1e-14)
    assert both.terms == {"launches": 2}
    assert both.launch is None


def test_launches_together_have_a_stack_only_if_all_have():
    one = run("naive-interval", WORKLOAD, gpu())
    assert combine([one, one]).stack is None


# -- launch overhead ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["roofline", "mdm", "pipeline"])
def test_launch_overhead_is_added_where_asked_for(model):
    workload = with_graph("comp", ("load_global", (0,)), blocks=40, threads_per_block=64, warps_per_sm=4)
    machine = complete_gpu(launch_overhead=1000, block_launch=0)
    plain, more = run(model, workload, machine), run(model, workload, machine, launch_overhead=True)
    assert more.cycles == plain.cycles + 1000
    if plain.stack:
        assert "IDLE" not in plain.stack
        assert sum(more.stack.values()) == pytest.approx(more.cpi, rel=1e-15)
        assert more.stack["IDLE"] * more.ipc * more.cycles / machine.sms == pytest.approx(1000)


def test_blocks_start_no_faster_than_the_machine_can():
    workload = with_mix({"comp": 1}, {"blocks": 4000, "threads_per_block": 32, "warps_per_sm": 8})
    machine = complete_gpu(launch_overhead=1000, block_launch=np.array([0.0, 100.0]))
    found = run("roofline", workload, machine, launch_overhead=True)
    assert found.cycles[1] == 100 * 4000 + 1000 > found.cycles[0]


def test_launch_overhead_needs_a_machine_that_has_one():
    with pytest.raises(MissingInputError, match="launch_overhead_cycles"):
        run("mdm", WORKLOAD, gpu(), launch_overhead=True)


@pytest.mark.parametrize(
    ("model", "part", "missing"),
    [
        ("gpumech-mt-mshr", "l1", "mshrs"),
        ("mdm-queue", "l1", "mshrs"),
        ("gpumech", "dram", "bandwidth_bytes_per_s"),
    ],
)
def test_contention_needs_what_its_terms_read(model, part, missing):
    machine = gpu()
    without = replace(machine, **{part: replace(getattr(machine, part), **{missing: None})})
    with pytest.raises(MissingInputError, match=f"{part}.{missing}"):
        run(model, WORKLOAD, without)
