"""`warplens simulate` as users type it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from warplens.api import default_simulator, load_workload
from warplens.cli.simulate import SIMULATORS, simulate
from warplens.errors import InputError, MissingInputError, OptionError, UnknownNameError
from warplens_studies.validate.accelsim import trace_path


def run(*arguments):
    return CliRunner().invoke(simulate, [str(argument) for argument in arguments], catch_exceptions=True)


def document(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout, parse_constant=lambda text: pytest.fail(f"{text} in JSON"))


def test_json():
    made = document("lemeire-example", "--option", "issue_limit=false")
    assert made["schema"] == 1
    (one,) = made["simulations"]
    assert (one["kernel"], one["gpu"], one["simulator"]) == ("lemeire-example", "lemeire-example", "pipeline")
    assert (one["cycles"], one["instructions"]) == (38, 30)
    assert one["pipelines"]["memory"] == {
        "busy": 20,
        "fill_rate": pytest.approx(20 / 38),
        "idle": {"dependence": 14, "issue limit": 0, "barrier": 0, "no work": 4},
    }


def test_table():
    result = run("lemeire-example")
    assert result.exit_code == 0
    for text in ("fill rate", "idle: dependence", "compute", "memory", "overlap", "issue limit", "39"):
        assert text in result.output


def test_overrides_of_machine_and_launch():
    made = document("lemeire-example", "--set", "launch.warps_per_sm=10", "--set", "scheduler=gto")
    (one,) = made["simulations"]
    assert (one["warps_per_sm"], one["scheduler"]) == (10, "gto")
    assert one["overrides"] == {"scheduler": "gto", "launch.warps_per_sm": 10}


def test_options_with_and_without_the_name_of_the_simulator():
    for option in ("policy=oldest", "pipeline.policy=oldest"):
        assert document("lemeire-example", "--option", option)["simulations"][0]["scheduler"] == "oldest"


def test_files(tmp_path):
    result = run("lemeire-example", "--plot", tmp_path / "a.png", "--perfetto", tmp_path / "a.json")
    assert result.exit_code == 0
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert len(json.loads((tmp_path / "a.json").read_text())["traceEvents"]) > 90
    assert "a.png" in result.output and "a.json" in result.output


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("hong-kim-table2",), MissingInputError, "dependence graph"),
        (("lemeire-example", "--option", "policy=best"), OptionError, "rr, lrr, gto, oldest"),
        (("lemeire-example", "--option", "polcy=rr"), UnknownNameError, "policy"),
        (("lemeire-example", "--gpu", "gtx1061"), UnknownNameError, "gtx1060"),
        (("no-such-example",), InputError, "no such file"),
    ],
)
def test_bad_input_names_the_remedy(arguments, error, message):
    result = run(*arguments)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ("lemeire-example", "--simulator", "magic"),
        ("lemeire-example", "--option", "policy"),
        ("lemeire-example", "--kernel", "nothing-like-this"),
        ("lemeire-example", "--plot"),
        (),
    ],
)
def test_bad_usage(arguments):
    assert run(*arguments).exit_code == 2


def test_a_workload_file_goes_to_the_pipeline_model_and_a_trace_to_the_reference_by_default():
    assert default_simulator(load_workload("lemeire-example")) == "pipeline"
    assert default_simulator(load_workload(trace_path("compute_ilp4_lowocc"))) == "detailed"
    assert set(SIMULATORS) == {"pipeline", "detailed"}


def test_the_reference_simulator_on_a_trace():
    (one,) = document(trace_path("compute_ilp4_lowocc"), "--gpu", "accelsim-mdm")["simulations"]
    assert one["simulator"] == "detailed"
    assert sum(one["stack"].values()) == pytest.approx(one["cpi"], rel=1e-12)


def test_the_reference_simulator_has_no_options_and_needs_a_trace():
    assert run(trace_path("compute_ilp4_lowocc"), "--gpu", "accelsim-mdm", "--option", "policy=rr").exit_code == 2
    assert isinstance(run("lemeire-example", "--simulator", "detailed").exception, InputError)
