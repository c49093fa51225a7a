"""GPUPerf's benefits beside the advice: what it agrees with, and what it hints at where no rule speaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reference.traces import Step, evenly
from warplens.errors import InputError
from warplens.explanation import RULES, Opinion, Scene, benefits, explain, words
from warplens.explanation.benefits import NAMES, benefits_of, largest
from warplens.reports.answer import answer_nodes
from warplens.reports.elements import html

from .rules.test_waits import walking
from .small import advice, kernel, load, machine, row, scene


def test_it_agrees_that_loads_should_be_in_flight() -> None:
    """A warp that waits for each of 64 loads: nearly all of the time goes, and GPUPerf's number is its own."""
    found = advice("exposed-latency", walking(1))
    assert found.opinion is not None and found.opinion.benefit == "B_memlp" and found.opinion.agrees
    assert found.to_dict()["gpuperf"] == {"benefit": "B_memlp", "gain": found.opinion.gain}
    with_more = advice("exposed-latency", walking(2)).opinion
    assert with_more is not None and with_more.gain < found.opinion.gain


def test_gains_are_those_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = advice("exposed-latency", walking(1))
    monkeypatch.setattr(benefits, "_LONGEST_WARP", 0)
    untold = advice("exposed-latency", walking(1))
    assert untold.opinion is None and replace(told, opinion=None) == untold


def test_rules_name_benefits_that_the_model_has() -> None:
    assert set(benefits_of(scene(walking(1)))) == set(NAMES)
    assert {name for rule in RULES.values() for name in rule.benefits} <= set(NAMES)


def test_without_a_bandwidth_more_accesses_in_flight_bring_no_number() -> None:
    """The H200 gives atomics a rate of their own: nothing bounds what more of them at a time would bring."""
    added = row("atomic_global", 1, space="global", access_bytes=4, sources=(9, 1))
    made = kernel((load(0), added), lambda warp: [Step(0, evenly(1 << 20, 4)), Step(1, evenly(1 << 22, 4))])
    assert set(benefits_of(scene(made))) == set(NAMES) - {"B_memlp"}


def test_the_largest_of_those_that_are_known() -> None:
    assert largest({"B_memlp": 0.2, "B_fp": 0.5}, ("B_memlp", "B_itilp")) == Opinion("B_memlp", 0.2)
    assert largest({}, NAMES) is None


def test_where_the_model_cannot_run_there_is_no_opinion(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InputError("no finite time")

    monkeypatch.setattr(benefits, "analyse", refuse)
    answer = explain(walking(1), machine(), [RULES["exposed-latency"]])
    assert answer.benefits == {} and [each.opinion for each in answer.advice] == [None]


def test_words() -> None:
    agrees, disagrees = Opinion("B_memlp", 0.92), Opinion("B_fp", 0.04)
    told = "A second model, GPUPerf, agrees: 92 % less time with more accesses in flight (B_memlp)"
    assert words.opinion(agrees) == told
    assert words.opinion(disagrees).startswith("A second model, GPUPerf, sees little of this: 4 % less time ")
    answer = explain(walking(1), machine(), [RULES["exposed-latency"]])
    (only,) = answer.advice
    page = "".join(map(html, answer_nodes(replace(answer, advice=(replace(only, opinion=agrees),)))))
    assert f"{told}." in page
    assert "GPUPerf" not in "".join(map(html, answer_nodes(replace(answer, advice=(replace(only, opinion=None),)))))


def test_where_no_rule_speaks_it_hints() -> None:
    answer = explain(walking(1), machine(), [RULES["bank-conflicts"]])
    gain = answer.benefits["B_memlp"]
    assert words.closing(answer) == (
        f"no rule finds 3 % to gain; GPUPerf would save {100 * gain:.0f} % with more accesses in flight (B_memlp)"
    )
    assert answer.limiter is not None
    full = replace(
        answer, limiter=replace(answer.limiter, resource="dram", waits="", busy=0.95, name="DRAM bandwidth")
    )
    assert "GPUPerf" not in words.closing(full)
    assert "GPUPerf" not in words.closing(replace(answer, benefits={"B_memlp": 0.05}))


def test_waits_are_those_of_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads that machine code moves up are in flight together, whatever the order of PTX."""
    before = benefits_of(scene(walking(1)))["B_memlp"]
    monkeypatch.setattr(Scene, "accesses_per_wait", lambda self, chosen: 2.0)
    after = benefits_of(scene(walking(1)))["B_memlp"]
    assert after < before
