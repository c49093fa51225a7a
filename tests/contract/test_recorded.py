"""Models and simulators say of small launches what they said when it was recorded (recorded.py)."""

from __future__ import annotations

import json

import pytest

from .recorded import CASES, PATH, outcome

RECORDED = json.loads(PATH.read_text(encoding="utf-8"))


def flat(value, place=""):
    """Numbers by the place at which they stand."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: found for name, item in items for key, found in flat(item, f"{place}.{name}").items()}
    return {place: value}


@pytest.mark.parametrize("case", RECORDED)
def test_the_outcome_is_the_recorded_one(case):
    assert flat(outcome(case)) == pytest.approx(flat(RECORDED[case]), rel=1e-8, abs=1e-300)


def test_only_machines_without_a_network_are_not_simulated():
    assert {case.split(" ")[2] for case in CASES if case not in RECORDED} == {"gpumech2014-small"}
