"""Grids, ranges, lists, zipped and sampled spaces."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.errors import InputError, OverrideError
from warplens.sweeps import make_axis, make_space, parse_axis


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("l1.mshrs=32,64,128", "l1.mshrs", [32, 64, 128]),
        ("l1.mshrs = 32 , 64", "l1.mshrs", [32, 64]),
        ("sms=14:56:14", "sms", [14, 28, 42, 56]),
        ("sms=14:50:14", "sms", [14, 28, 42, 50]),  # both ends are in a range
        ("sms=56:14:-14", "sms", [56, 42, 28, 14]),
        ("sms=7,14:28:7,80", "sms", [7, 14, 21, 28, 80]),
        ("clock=1GHz:1.4GHz:200MHz", "clock", [1.0e9, 1.2e9, 1.4e9]),
        ("clock_hz=1GHz,1500MHz", "clock", [1e9, 1.5e9]),
        ("l1.size=16KiB:48KiB:16KiB", "l1.size", [16384, 32768, 49152]),
        ("launch.warps_per_sm=8,16", "launch.warps_per_sm", [8, 16]),
        ("dram.latency=0.1:0.7:0.2", "dram.latency", [0.1, 0.1 + 0.2, 0.1 + 2 * 0.2, 0.7]),
    ],
)
def test_values_as_typed(text, key, values):
    axis = parse_axis(text)
    assert axis.key == key
    assert axis.values.tolist() == values


def test_texts_and_switches():
    assert parse_axis("scheduler=gto,lrr").values == ["gto", "lrr"]
    assert parse_axis("l1.streaming=true,false").values == [True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("l1.mhsrs=1,2", r"unknown parameter 'l1.mhsrs'; did you mean 'l1.mshrs'"),
        ("launch.warps=1", r"unknown parameter 'launch.warps'; did you mean 'launch.warps_per_sm'"),
        ("l1.mshrs", "write KEY=a,b,c"),
        ("=3", "write KEY=a,b,c"),
        ("l1.mshrs=", "write KEY=a,b,c"),
        ("l1.mshrs=many", "is not a plain number"),
        ("clock=1GB/s", "has the unit 'GB/s'"),
        ("sms=1:9:0", "do not lead from the first to the last"),
        ("sms=9:1:2", "do not lead from the first to the last"),
        ("sms=1:2:3:4", "first:last:step"),
        ("sms=1:1e17:1", "more than"),
        ("sms=5:5", "both ends are the same"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_remedy(text, message):
    with pytest.raises(OverrideError, match=message):
        parse_axis(text)


def test_a_grid_has_all_combinations_the_last_parameter_fastest():
    space = make_space({"sms": [7, 14], "scheduler": ["gto", "lrr"], "clock": "1GHz,2GHz"})
    found = [tuple(space.configuration(index).values()) for index in range(space.size)]
    assert found == list(itertools.product([7, 14], ["gto", "lrr"], [1e9, 2e9]))


def test_zipped_values_go_together():
    space = make_space({"sms": [7, 14, 28], "clock": [1e9, 2e9, 3e9], "l1.mshrs": [64]}, mode="zip")
    assert [space.configuration(index) for index in range(space.size)] == [
        {"sms": sms, "clock": clock, "l1.mshrs": 64} for sms, clock in ((7, 1e9), (14, 2e9), (28, 3e9))
    ]
    with pytest.raises(OverrideError, match="sms has 2, clock has 3"):
        make_space({"sms": [7, 14], "clock": [1, 2, 3]}, mode="zip")


@given(st.integers(1, 60), st.integers(0, 5))
def test_a_latin_hypercube_has_one_sample_in_each_part(size, seed):
    vary = {"dram.bandwidth": "100GB/s:900GB/s", "clock": "1GHz:2GHz", "sms": "1:1000"}
    space = make_space(vary, sample=size, seed=seed)
    for key, low, high in (("dram.bandwidth", 1e11, 9e11), ("clock", 1e9, 2e9)):
        parts = np.floor((space.columns[key] - low) / (high - low) * size * (1 - 1e-12)).astype(int)
        assert sorted(parts.tolist()) == list(range(size))
    assert np.all(space.columns["sms"] == np.floor(space.columns["sms"]))
    assert space.columns["sms"].min() >= 1
    assert space.columns["sms"].max() <= 1000
    again = make_space(vary, sample=size, seed=seed)
    assert all(np.array_equal(space.columns[key], again.columns[key]) for key in vary)


def test_samples_of_lists_take_every_value_as_often():
    space = make_space({"l1.mshrs": "32,64,128,256", "scheduler": "gto,lrr"}, sample=40)
    assert np.unique(space.columns["l1.mshrs"], return_counts=True)[1].tolist() == [10] * 4
    assert sorted(space.columns["scheduler"]) == ["gto"] * 20 + ["lrr"] * 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vary": {"sms": "1:9"}}, "a range without a step is for samples"),
        ({"vary": {"sms": [1], "l1.mshrs": [2]}, "mode": "zip", "sample": 3}, "either zipped or sampled"),
        ({"vary": {"sms": [1]}, "mode": "grit"}, "did you mean 'grid'"),
        ({"vary": {"sms": [1]}, "sample": 0}, "a sample needs at least 1 configuration"),
        ({"vary": {"sms": []}}, "no values"),
        ({"vary": {"clock": [1e9], "clock_hz": [2e9]}}, "clock is varied twice"),
        ({"vary": {key: list(range(1, 2001)) for key in ("sms", "l1.mshrs", "llc.mshrs")}}, "use --sample"),
    ],
)
def test_spaces_that_cannot_be(arguments, message):
    vary = arguments.pop("vary")
    with pytest.raises(InputError, match=message):
        make_space(vary, **arguments)


def test_no_axes_are_one_configuration():
    assert make_space({}).size == 1
    assert make_space({}).configuration(0) == {}


@pytest.mark.parametrize("values", [True, None, [True], ["x"], object()])
def test_values_that_are_no_numbers(values):
    with pytest.raises(OverrideError, match=r"^l1\.mshrs: "):
        make_axis("l1.mshrs", values)
