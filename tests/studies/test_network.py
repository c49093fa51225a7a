"""Our own model against both simulators: the recorded cycles, and what the tables say."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.api import place, predict
from warplens.models.warplens_model import WITHOUT
from warplens.suite.catalog import SUITE
from warplens.workload import workload_of_trace
from warplens_studies.validate import accelsim, network
from warplens_studies.validate.changes import NEAR
from warplens_studies.validate.harness import traced
from warplens_studies.validate.metrics import ipc_error
from warplens_studies.validate.report import table_csv

DATA = Path(__file__).parents[2] / "docs" / "validation" / "data"


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
    """On the H200 blocks leave once their stores are sent, and latencies scatter; not in the simulator."""
    for (_, machine), error in some.suite.items():
        assert abs(error) < (0.3 if machine.startswith("h200") else 0.15)
    of_all = [abs(error) for (without, _, _), error in some.ablation.items() if without == "none"]
    assert len(of_all) == 2 * len(accelsim.CONFIGURATIONS)
    assert max(of_all) < 0.12


@pytest.mark.parametrize("section", ["suite", "map", "kernels"])
def test_files_have_the_rows_that_the_command_writes(some, section):
    names = {"suite": "warplens-suite", "map": "warplens-accelsim", "kernels": "warplens-mechanisms"}
    (table,) = network.sections(some)[section]()
    kept = (DATA / f"{names[section]}.csv").read_text(encoding="utf-8").splitlines()
    head, *rows = table_csv(table).splitlines()
    assert kept[0] == head
    assert len(rows) == 2 and set(rows) <= set(kept), "out of date; docs/validation/warplens.md has the command"


def test_a_mechanism_that_is_left_out_is_missed(some):
    """Copies write back what they have written."""
    assert some.ablation["write-backs", "base", "copy"] > 0.3 > abs(some.ablation["none", "base", "copy"])


def test_changes_of_a_parameter_are_counted(some):
    found = {(each.configuration, each.kernel): each for each in some.changes()}
    halved = found["dram240", "strided32"]
    assert halved.real == pytest.approx(1.0, abs=0.05)
    assert halved.predicted == pytest.approx(halved.real, abs=NEAR) and halved.right


def test_own_caches_are_what_the_ablation_starts_from(some):
    for (name, configuration, kernel), cycles in some.exchanged.items():
        if name == "own":
            error = ipc_error(cycles, accelsim.measurements()[configuration, kernel].cycles)
            assert error == some.ablation["none", configuration, kernel]


def test_without_kernels_of_the_third_party_simulator_tables_are_empty():
    found = network.NetworkValidation({}, {}, {})
    assert [table.rows for table in network.sections(found)["changes"]()] == [()]
    (table,) = network.sections(found)["exchanges"]()
    assert {row[-1].text for row in table.rows} == {"0 of 0"}


def test_banks_that_all_sms_ask_at_the_same_time_are_waited_for():
    """The tiles of matmul are read by all SMs; with 56 of them the ports of a few banks are what they wait for."""
    placed, gpu = place(workload_of_trace(traced("matmul")), accelsim.GPU, accelsim.CONFIGURATIONS["sm56"])
    with_crowds, without = (
        float(predict(placed, gpu, "warplens", options={"without": name}).cycles) for name in ("none", "crowds")
    )
    assert with_crowds > 1.1 * without
