"""Caches of another simulation, mechanisms that are switched off, and what is recorded of both."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.api import place, predict
from warplens.simulators.detailed import simulate_detailed
from warplens.workload import workload_of_trace
from warplens.workload.traced import cache_misses
from warplens_studies.validate import accelsim, changes, exchanges
from warplens_studies.validate.harness import traced

#: Small; one load alone, and several with data on their way.
SAMPLES = ("chase_divergent", "stencil")


@pytest.fixture(scope="module", params=SAMPLES)
def run(request):
    return request.param, *place(workload_of_trace(traced(request.param)), accelsim.GPU)


def test_simulated_again_the_caches_are_those_recorded(run):
    kernel, workload, gpu = run
    again, kept = simulate_detailed(workload, gpu).misses, exchanges.simulated_caches(kernel, "base")
    assert np.array_equal(kept.counters, again.counters)
    assert kept.arrivals == pytest.approx(again.arrivals, rel=1e-8)
    for name in ("dirty_left", "l1_dirty_left", "busiest_bank", "busiest_channel", "estimated_cycles"):
        assert getattr(kept, name) == pytest.approx(getattr(again, name), rel=1e-8)


def test_the_simulators_caches_count_as_the_cache_simulation_does(run):
    """The same executions, lines and requests; every request is served somewhere."""
    kernel, workload, gpu = run
    found, own = exchanges.simulated_caches(kernel, "base"), cache_misses(workload, gpu)
    for name in ("executed", "lines", "requests", "divergent"):
        assert np.array_equal(found.column(name), own.column(name))
    assert found.l1_miss_ratio == pytest.approx(own.l1_miss_ratio, abs=0.05)
    assert found.levels.sum(axis=1)[found.executed > 0] == pytest.approx(1.0)


def test_given_its_own_caches_the_model_says_the_same(run):
    _, workload, gpu = run
    given = exchanges.with_caches(workload, cache_misses(workload, gpu))
    assert predict(given, gpu, "warplens").cycles == predict(workload, gpu, "warplens").cycles


def test_misses_as_counted(run):
    kernel, workload, gpu = run
    measured = accelsim.measurements()["base", kernel]
    found = exchanges.as_counted(cache_misses(workload, gpu), measured)
    assert found.l1_miss_ratio == pytest.approx(measured.l1_miss_ratio, abs=0.01)
    assert found.llc_miss_ratio == pytest.approx(measured.llc_miss_ratio, abs=0.01)
    assert found.levels.sum(axis=1)[found.executed > 0] == pytest.approx(1.0)


def test_experiments_are_recorded_and_nothing_else():
    assert set(changes.switched()) == set(changes.EXPERIMENTS)
    again = changes.simulate_switched("chase_divergent", "mshr32", "channels")
    assert again == pytest.approx(changes.switched()["chase_divergent", "mshr32", "channels"], rel=1e-8)


def test_a_change_without_a_sign_is_not_right():
    assert changes.Change("mshr32", "copy", 0.04, 0.05).right
    assert not changes.Change("mshr32", "copy", 0.04, 0.0005).right
    assert not changes.Change("mshr32", "copy", 0.04, 0.15).right
