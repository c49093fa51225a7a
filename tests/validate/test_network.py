"""Our own model against both simulators: the recorded cycles, and what the tables say."""

from __future__ import annotations

import pytest

from warplens.models.warplens_model import WITHOUT
from warplens.suite.catalog import SUITE
from warplens.validate import accelsim, network


def test_every_kernel_is_recorded_on_every_machine_that_it_fits_on():
    missing = [(k, m) for k in SUITE for m in network.MACHINES if (k, m) not in network.simulated()]
    assert missing == [("matmul_tensor", "gpumech2014")]  # more shared memory than an SM has


def test_simulated_again_the_cycles_are_those_recorded():
    again = network.simulate_suite("vector_add")
    assert again == {name: network.simulated()["vector_add", name] for name in network.MACHINES}


def test_every_mechanism_has_words():
    assert tuple(network.MECHANISMS) == WITHOUT


@pytest.fixture(scope="module")
def some():
    return network.validate_network(["vector_add", "ray_tracing", "strided32", "copy"])


def test_errors_are_small_where_nothing_is_special(some):
    assert max(abs(error) for error in some.suite.values()) < 0.15
    of_all = [abs(error) for (without, _, _), error in some.ablation.items() if without == "none"]
    assert len(of_all) == 2 * len(accelsim.CONFIGURATIONS)
    assert max(of_all) < 0.12


def test_a_mechanism_that_is_left_out_is_missed(some):
    """Copies write back what they have written."""
    assert some.ablation["write-backs", "base", "copy"] > 0.3 > abs(some.ablation["none", "base", "copy"])


def test_changes_of_a_parameter_are_counted(some):
    found = {(configuration, kernel): (real, ours) for configuration, kernel, real, ours in some.changes()}
    real, ours = found["dram240", "strided32"]
    assert real == pytest.approx(1.0, abs=0.05)
    assert ours == pytest.approx(real, abs=network.NEAR)
