"""What a page may change about a machine, and where it is told what is wrong."""

from __future__ import annotations

import pytest

from warplens.api import load_workload, place
from warplens.machine import gpu_names, load_gpu, with_overrides
from warplens.web.answers import Task, state_of
from warplens.web.controls import CONTROLS, WARPS, checked_changes, described
from warplens.web.errors import FieldError

GOOD = {"kernel": "papers:mdm-baseline", "models": ["mdm"], "machines": [{"gpu": "h200", "set": {}}]}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], ""),
        ({}, "kernel"),
        (GOOD | {"kernel": 3}, "kernel"),
        (GOOD | {"models": []}, "models"),
        (GOOD | {"models": ["<script>"]}, "models"),
        (GOOD | {"models": [{}]}, "models"),
        (GOOD | {"machines": []}, "machines.0.gpu"),
        (GOOD | {"machines": [{"gpu": "h200"}] * 3}, "machines.0.gpu"),
        (GOOD | {"machines": [{"gpu": None}]}, "machines.0.gpu"),
        (GOOD | {"machines": [{"gpu": "h200", "set": []}]}, "machines.0.set"),
        (GOOD | {"machines": [{"gpu": "h200", "set": {"warp_size": 1}}]}, "machines.0.set"),
        (GOOD | {"machines": [{"gpu": "h200", "set": {"sms": 1e9}}]}, "machines.0.set.sms"),
        (GOOD | {"machines": [{"gpu": "h200", "set": {"sms": True}}]}, "machines.0.set.sms"),
        (GOOD | {"machines": [{"gpu": "h200", "set": {"sms": "many"}}]}, "machines.0.set.sms"),
        (GOOD | {"machines": [{"gpu": "h200", "set": {"scheduler": "best"}}]}, "machines.0.set.scheduler"),
    ],
)
def test_every_wrong_part_of_a_state_names_its_field(document: object, field: str) -> None:
    with pytest.raises(FieldError) as caught:
        state_of(document)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sms": 1e30}, "is more than 1024"),
        ({"sms": 10**400}, "is more than 1024"),
        ({"clock": 31e9}, "than 5000 MHz"),
    ],
)
def test_what_is_too_much_is_told_so(changes, words) -> None:
    with pytest.raises(FieldError, match=words):
        checked_changes(changes, "machines.0.set")


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"sms": 1.5}, "sms", "whole"),
        ({"l1.size": 1000}, "l1.size", "multiple"),
        ({"l1.size": 2**20, "llc.size": 2**19}, "l1.size", "last-level cache"),
        ({WARPS: 65}, WARPS, "exceed"),
        ({"l1.mshrs": 0.5}, "l1.mshrs", "whole"),
    ],
)
def test_values_that_do_not_fit_a_machine_are_blamed_on_their_control(changes, field, words) -> None:
    workload = load_workload("mdm-baseline")
    state = state_of(GOOD | {"machines": [{"gpu": "h200", "set": changes}]})
    with pytest.raises(FieldError, match=words) as caught:
        Task(0, workload, load_gpu("h200"), state.machines[0]).placed()
    assert caught.value.field == f"machines.0.set.{field}"
    assert not str(caught.value).startswith(("machine", field))


@pytest.mark.parametrize("name", gpu_names())
def test_every_stop_of_every_slider_is_a_value_that_the_machine_takes(name: str) -> None:
    workload, gpu = place("gpumech-fig8", name)
    rows = {row["key"]: row for row in described((workload, gpu), (workload, gpu))}
    assert list(rows) == [control.key for control in CONTROLS]
    for key, row in rows.items():
        assert row["value"] is None or row["value"] in row["stops"]
        for stop in row["stops"]:
            if key != WARPS:
                with_overrides(gpu, checked_changes({key: stop}, "set"))
        assert row["stops"] == sorted(row["stops"]) or key == "scheduler"


def test_every_control_is_a_parameter_of_the_command_line() -> None:
    workload, gpu = place("mdm-baseline", "mdm2020")
    for row in described((workload, gpu), (workload, gpu)):
        place(workload, gpu, {row["key"]: row["stops"][-1] if row["key"] != "l1.size" else row["stops"][0]})


def test_warps_go_back_to_those_of_the_file() -> None:
    workload, gpu = place("gpumech-fig8")
    changed, _ = place(workload, gpu, {WARPS: 7})
    (row,) = [row for row in described((workload, gpu), (changed, gpu)) if row["key"] == WARPS]
    assert (row["own"], row["value"]) == (4, 7)
