"""The composite action asks for what the command has."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from warplens.cli.check import check

ACTION = Path(__file__).parents[2] / "action.yml"


def test_the_action_uses_options_and_inputs_that_exist():
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    steps = action["runs"]["steps"]
    text = ACTION.read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    known = {name for parameter in check.params for name in parameter.opts}
    command = next(step["run"] for step in steps if "warplens check" in step.get("run", ""))
    assert set(re.findall(r"--[a-z-]+", command)) <= known
