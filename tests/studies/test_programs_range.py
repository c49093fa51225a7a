"""The part of the range that the suite chooses, and that programs choose for one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.machine import load_gpu
from warplens.models.warplens_model import UNSEEN
from warplens_studies.validate.h200 import compare
from warplens_studies.validate.h200_profiles import kept_predictions
from warplens_studies.validate.programs import Launch, Predicted, Row, compare_launches, launches
from warplens_studies.validate.programs import kept_predictions as programs_kept
from warplens_studies.validate.programs_range import (
    NOMINAL,
    SIDES,
    chosen_on_programs,
    chosen_on_suite,
    cross_validated,
    holds,
)

LAUNCH = float(load_gpu("h200").launch_cycles)


def row(program: str, slower: float, down: float = 0.1) -> Row:
    """A launch that runs for 100 000 cycles in the model, and `slower` times as long on the GPU."""
    launch = Launch(program, "S", 0, "k", (1,), (32,), 1, 1, None, "t", {"elapsed_cycles": LAUNCH + 1e5 * slower})
    return Row(launch, Predicted({"warplens": LAUNCH + 1e5}, LAUNCH + 1e5 / (1 + down), LAUNCH + 1.5e5, "DRAM", {}))


@pytest.mark.parametrize(("slower", "side", "held"), [(1.0, 0.0, True), (1.09, 0.0, True), (1.11, 0.0, False)])
def test_without_the_part_both_sides_are_alike(slower, side, held):
    cycles, low = LAUNCH + 1e5, LAUNCH + 1e5 / 1.1
    assert holds(cycles, low, LAUNCH + 1e5 * slower, side, LAUNCH) == held
    assert not holds(cycles, low, LAUNCH + 0.9e5, 0.6, LAUNCH)


def test_the_model_has_the_least_that_holds_enough_of_the_suite_and_of_programs():
    suite = chosen_on_suite(compare(kept_predictions()).values())
    rows = compare_launches(launches(), programs_kept())
    assert max(suite, chosen_on_programs(rows)) == UNSEEN
    text = (Path(__file__).parents[2] / "docs" / "models" / "warplens.md").read_text(encoding="utf-8")
    assert f"To hold 80 % of those, it would have to be {chosen_on_programs(rows, NOMINAL)}" in text


def test_a_program_is_tried_with_what_the_others_choose():
    """Nine of ten are 1.2 times slower: 0.2 holds them, and not the tenth, which is 1.5 times slower."""
    rows = [row(f"p{i}", 1.2) for i in range(9)] + [row("far", 1.5)]
    found = cross_validated(rows)
    assert found.side == pytest.approx(0.2)
    assert found.held == pytest.approx(0.9)
    assert cross_validated([row(f"p{i}", 9.0) for i in range(3)]).side == SIDES[-1]
