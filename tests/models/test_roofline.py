"""Roofline, L-1, over any number of pipelines and the issue limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import gpu, run, with_mix
from reference import occupancy_roofline as oracle


def roofline(entries, **changes):
    return run("roofline", with_mix(entries, {"warps_per_sm": 5}), gpu("lemeire-example", **changes))


def test_memory_bound():
    assert roofline({"comp": 2, "mem": 2}).terms["WPC_roof"] == 1 / 4


def test_compute_bound():
    assert roofline({"comp": 6, "mem": 2}).terms["WPC_roof"] == 1 / 6


def test_issue_bound():
    assert roofline({"comp": 6, "mem": 2}, schedulers=1).terms["WPC_roof"] == 1 / 8


def test_a_third_pipeline_has_a_roof_of_its_own():
    entries = {"comp": 4, "sfu": 2, "mem": 1}
    timing = {"instructions__sfu__latency": 9, "instructions__sfu__interval": 4}
    alone = roofline(entries, **timing, instructions__sfu__subsystem="special")
    shared = roofline(entries, **timing, instructions__sfu__subsystem="compute")
    assert alone.terms["WPC_roof"] == 1 / 8
    assert shared.terms["WPC_roof"] == 1 / 12
    assert alone.terms["busy_special"] == 8


def test_instructions_per_cycle_follow_from_warps_per_cycle():
    prediction = roofline({"comp": 6, "mem": 2})
    assert prediction.ipc == pytest.approx(8 / 6)
    assert prediction.cycles == pytest.approx(5 * 6)


def test_compute_intensity_is_a_term_where_there_is_memory():
    assert roofline({"comp": 6, "mem": 2}).terms["CI"] == 3
    assert "CI" not in roofline({"comp": 6}).terms


def test_occupancy_does_not_matter_but_is_warned_about():
    few, many = (
        run("roofline", with_mix({"comp": 6, "mem": 2}, {"warps_per_sm": w}), "lemeire-example") for w in (1, 64)
    )
    assert few.ipc == many.ipc
    assert any("cannot hide" in text for text in few.warnings)
    assert not many.warnings


def test_no_computation_and_no_memory_are_fine():
    assert roofline({"mem": 3}).terms["WPC_roof"] == 1 / 6
    assert roofline({"comp": 3}).terms["WPC_roof"] == 1 / 3


classes = {"comp": "compute", "sfu": "special", "load_shared": "shared", "mem": "memory"}


@given(
    mix=st.dictionaries(st.sampled_from(list(classes)), st.integers(1, 40), min_size=1),
    lambdas=st.lists(st.integers(1, 64), min_size=4, max_size=4),
    issue=st.sampled_from([0.5, 1, 2, 4]),
)
def test_roof_is_the_oracles(mix, lambdas, issue):
    intervals = dict(zip(classes, lambdas, strict=True))
    timing = {}
    for name, value in intervals.items():
        timing |= {
            f"instructions__{name}__interval": value / 8,
            f"instructions__{name}__latency": 10,
            f"instructions__{name}__subsystem": classes[name],
        }
    ours = roofline(mix, schedulers=1, issue_width=issue, **timing).terms["WPC_roof"]
    shares = [oracle.Share(count, intervals[name] / 8, 10, classes[name]) for name, count in mix.items()]
    assert ours == pytest.approx(oracle.warps_per_cycle_roof(shares, issue), rel=1e-14)
