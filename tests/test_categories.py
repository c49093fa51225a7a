"""Stall categories stand in one place: a new one takes its row there and the model that computes it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import warplens
from warplens.categories import CATEGORIES, STALL_REASONS, in_order

SOURCES = Path(warplens.__file__).parent
#: Rooms that compute the parts of a stack, or know which of them follow the clock.
COMPUTES = ("models", "simulators")
#: Names that are also levels of the memory, or words of their own elsewhere.
LEVELS = {"L1", "L2", "DRAM"}

NEW_CATEGORY = '''
from dataclasses import dataclass
from warplens.categories import CATEGORIES, Category

CATEGORIES["SPILL"] = Category("SPILL", "register spills", "waits for spilled registers", "#123456", "memory")

import warplens
from warplens.models import MODELS, Paper
from warplens.models.base import Model, Outcome


@dataclass(frozen=True)
class Spilling(Model):
    """Half of the time goes to spills."""

    name, title, equations, needs = "spilling", "Spilling", "S-1", "instruction_mix"
    paper = Paper("spilling", "S", "Nobody", "Spills", "Nowhere")
    categories = ("BASE", "SPILL")

    def evaluate(self, case):
        mix = case.facts.mix
        half = 0.5 / case.issue_rate
        return Outcome(mix.total, ipc_sm=0.5 / half, stack={"BASE": half, "SPILL": half})


MODELS["spilling"] = Spilling
'''
SHOWN_EVERYWHERE = """
from click.testing import CliRunner
from warplens.cli.main import cli
from warplens.frontends.ncu.stalls import stack_shares
from warplens.reports.answer import time_bar
from warplens.reports.elements import html
from warplens.reports.style import CATEGORY_COLOURS
from warplens.sweeps.evaluate import CATEGORIES as COLUMNS

prediction = warplens.predict("lemeire-example", model="spilling")
assert list(prediction.stack) == ["BASE", "SPILL"]
assert "register spills 50 %" in html(time_bar(prediction))
assert stack_shares(prediction.stack)["memory"] == 0.5
assert list(COLUMNS)[-1] == "SPILL" and CATEGORY_COLOURS["SPILL"] == "#123456"
printed = CliRunner().invoke(cli, ["predict", "lemeire-example", "--model", "spilling"], env={"COLUMNS": "200"})
assert "SPILL" in printed.output, printed.output
"""


def test_every_category_says_all_that_is_shown_of_it():
    for name, each in CATEGORIES.items():
        assert name == each.name == each.name.upper()
        assert each.label and each.sentence.split()[0].endswith("s")
        assert each.group in STALL_REASONS
    assert len({each.colour for each in CATEGORIES.values()}) == len(CATEGORIES)
    assert len({each.label for each in CATEGORIES.values()}) == len(CATEGORIES)


def test_names_come_in_the_order_of_the_stack():
    assert in_order(["IDLE", "DEP", "unknown", "BASE"]) == ["BASE", "DEP", "IDLE"]


@pytest.mark.parametrize("room", sorted({path.relative_to(SOURCES).parts[0] for path in SOURCES.rglob("*.py")}))
def test_no_other_room_names_a_category(room):
    """What is shown follows `CATEGORIES`; only what computes a part says which one it is."""
    if room in (*COMPUTES, "categories.py"):
        return
    paths = [SOURCES / room] if room.endswith(".py") else (SOURCES / room).rglob("*.py")
    for path in paths:
        texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not texts & (set(CATEGORIES) - LEVELS - {"BASE", "DEP"}), path


def test_the_page_has_no_list_of_its_own():
    for path in (SOURCES / "web" / "static").glob("*.js"):
        assert not [name for name in CATEGORIES if f"{name}:" in path.read_text()], path


def test_a_new_category_is_shown_everywhere():
    """Two places name it: its row, and the model that computes it."""
    done = subprocess.run([sys.executable, "-c", NEW_CATEGORY + SHOWN_EVERYWHERE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
