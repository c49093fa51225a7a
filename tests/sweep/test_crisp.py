"""CRISP's parts: those of a run, and how they follow the clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from warplens.api import simulate
from warplens.sweep.crisp import Counters, counters_of

from .making import GPU, trace


@pytest.fixture(scope="module")
def run():
    return simulate(trace("compute_ilp4_lowocc"), GPU, "detailed")


def test_parts_follow_the_clock_as_they_should():
    assert Counters(1e9, load=1.0, under=0.4, outside=0.0).seconds([1e9, 0.5e9]).tolist() == [1.0, 1.0]
    assert Counters(1e9, load=1.0, under=0.8, outside=0.5).seconds([1e9, 0.5e9]).tolist() == [1.5, 2.6]
    assert Counters(1e9, load=0.0, under=0.0, outside=2.0).seconds(2e9) == 1.0


def test_at_its_own_clock_it_is_the_run(run):
    counters = counters_of(run)
    assert counters.seconds(counters.hertz) == pytest.approx(run.seconds)
    assert 0 < counters.under <= counters.load < run.seconds
    slower = simulate(trace("compute_ilp4_lowocc"), GPU, "detailed", overrides={"clock": "1GHz"})
    assert counters.seconds(1e9) == pytest.approx(slower.seconds, rel=0.1)


def test_without_traffic_all_is_computation_and_with_it_everywhere_all_is_load(run):
    silent = counters_of(replace(run, noc_bytes_over_time=np.zeros_like(run.noc_bytes_over_time)))
    assert (silent.load, silent.under) == (0.0, 0.0)
    assert silent.outside == run.seconds
    busy = counters_of(replace(run, noc_bytes_over_time=np.ones_like(run.noc_bytes_over_time)))
    assert (busy.load, busy.outside) == (run.seconds, 0.0)
