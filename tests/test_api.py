"""The functions behind the command line: placing, predicting, comparing and joining."""

from __future__ import annotations

import numpy as np
import pytest

import warplens
from making import Interval, gpu, with_mix, with_profile
from warplens.api import Comparison, compare, explain, join, place, predict, predict_best
from warplens.errors import InputError, MissingInputError, OptionError, OverrideError, UnknownNameError
from warplens.models import MODELS

WORKLOAD = with_profile(Interval(5, 100, 1, 8, 2, 0.5), warps_per_sm=16)


def test_a_workload_is_placed_on_the_machine_its_file_names():
    workload, machine = place("gpumech-fig9")
    assert (workload.name, machine.name, machine.l1.mshrs) == ("gpumech-fig9", "gpumech2014", 6)


def test_another_machine_does_not_get_the_files_overrides():
    _, machine = place("gpumech-fig9", "mdm2020")
    assert (machine.name, machine.l1.mshrs) == ("mdm2020", 128)


def test_overrides_go_to_the_launch_or_the_machine():
    workload, machine = place("mdm-baseline", None, {"launch.warps_per_sm": 8, "l1.mshrs": 64})
    assert workload.launch.warps_per_sm == 8
    assert machine.l1.mshrs == 64


def test_machines_may_be_objects_names_or_files(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('base = "mdm2020"\n')
    cycles = {predict(WORKLOAD, machine).cycles for machine in (gpu("mdm2020"), "mdm2020", path, str(path))}
    assert len(cycles) == 1


def test_a_machine_name_that_the_system_refuses_is_an_unknown_name():
    with pytest.raises(UnknownNameError, match="no machine is named 'xxx"):
        predict(WORKLOAD, "x" * 5000)


def test_predict_defaults_to_the_best_validated_model():
    assert predict("mdm-baseline").model == "warplens"


def test_a_model_that_cannot_use_the_input_names_those_that_can():
    with pytest.raises(InputError, match=r"'warplens' needs an interval profile.*can use it: wfg, wfg-corrected\)"):
        predict("wfg-case1")


def test_the_best_model_that_can_use_the_input_answers_and_says_why_it_does():
    found = predict_best("mb1-coalesced")
    assert [p.model for p in found.predictions] == ["mwp-cwp-corrected"]
    assert [each.model for each in found.skipped] == ["warplens", "mdm", "gpumech", "pipeline"]
    answer = explain("mb1-coalesced")
    assert answer.prediction.model == "mwp-cwp-corrected" and answer.limiter is None
    assert answer.note.startswith("mwp-cwp-corrected answers, as model 'warplens' needs an interval profile")


def test_predict_of_arrays_is_a_batch():
    found = predict("mdm-baseline", overrides={"l1.mshrs": np.array([64, 128])})
    assert found.is_batch
    assert found.row(1).cycles == predict("mdm-baseline", overrides={"l1.mshrs": 128}).cycles


def test_predict_without_a_machine_asks_for_one():
    with pytest.raises(InputError, match='profile: names no machine; choose one with gpu="NAME"'):
        predict(WORKLOAD)


def test_compare_runs_all_that_can_run_and_lists_the_others():
    found = compare(WORKLOAD, ["mdm2020"])
    assert {p.model for p in found.predictions} | {s.model for s in found.skipped} == set(MODELS)
    assert not {p.model for p in found.predictions} & {s.model for s in found.skipped}
    assert all(item.reason for item in found.skipped)


def test_compare_of_named_models_raises_where_one_cannot_run():
    with pytest.raises(MissingInputError, match="model 'volkov' needs an instruction mix"):
        compare(WORKLOAD, ["mdm2020"], ["mdm", "volkov"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"models": ["mdn"]}, UnknownNameError),
        ({"options": {"mdn": {}}}, UnknownNameError),
        ({"models": ["mdm"], "options": {"gpumech": {"clamp": False}}}, OptionError),
        ({"models": ["mdm"], "options": {"mdm": {"clamp": "maybe"}}}, OptionError),
        ({"models": ["mdm"], "options": {"mdm": {"clmp": True}}}, UnknownNameError),
        ({"overrides": {"l1.mshr": 3}}, OverrideError),
        ({"overrides": {"launch.warps": 3}}, OverrideError),
    ],
)
def test_compare_refuses_what_it_does_not_know(arguments, error):
    with pytest.raises(error):
        compare(WORKLOAD, ["mdm2020"], **arguments)


def test_compare_refuses_an_input_that_no_model_can_use():
    nothing = warplens.Workload("nothing")
    with pytest.raises(InputError, match="nothing: no model can use this input; model 'roofline' needs"):
        compare(nothing, ["mdm2020"])


def test_compare_gives_the_reason_that_is_not_a_missing_view():
    too_many = with_profile(Interval(5, 100), warps_per_sm=1000)
    with pytest.raises(InputError, match="no model can use this input; 1000 resident warps exceed the 64"):
        compare(too_many, ["mdm2020"])


def test_launches_are_joined_per_machine_and_model():
    parts = [compare(WORKLOAD, ["mdm2020", "mdm2019"], ["mdm", "gpumech"]) for _ in range(2)]
    found = join(parts)
    together = [p for p in found.predictions if p.launch is None]
    assert [(p.gpu, p.model) for p in together] == [
        ("mdm2020", "mdm"),
        ("mdm2020", "gpumech"),
        ("mdm2019", "mdm"),
        ("mdm2019", "gpumech"),
    ]
    assert together[0].cycles == 2 * parts[0].predictions[0].cycles
    assert join(parts[:1]) == parts[0]


def test_a_model_that_failed_on_one_launch_says_nothing_about_the_whole():
    able = compare(with_mix({"comp": 4}, {"warps_per_sm": 4}), ["mdm2020"])
    unable = compare(WORKLOAD, ["mdm2020"])
    together = {p.model for p in join([able, unable]).predictions if p.launch is None}
    assert together == set()


def test_a_comparison_as_plain_data():
    found = Comparison((predict("mdm-baseline"),)).to_dict()
    assert list(found) == ["schema", "version", "predictions", "answers", "skipped", "inputs"]
    assert found["version"] == warplens.__version__


def test_one_launch_is_what_load_workload_gives():
    assert [w.name for w in warplens.load_workloads("mdm-baseline")] == ["mdm-baseline"]
    assert warplens.load_workload("mdm-baseline").name == "mdm-baseline"
