"""The answer as elements: what `explain` found, in the order of reading, and nothing of it as markup."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from warplens import explain
from warplens.explanation import Line, words
from warplens.reports.answer import FIRST_ADVICE, answer_nodes, time_bar
from warplens.reports.elements import html, node

EVIL = "<script>window.hacked = 1</script>"


@pytest.fixture(scope="module")
def answer():
    return explain("matmul", "h200")


def test_all_that_was_found_is_said(answer):
    text = "".join(map(html, answer_nodes(answer)))
    said = [words.time(answer.seconds), words.time_range(answer), words.limit(answer), words.occupancy(answer)]
    for each in answer.advice:
        said += [each.text, each.remedy, each.cost, each.rule]
    said += [line.text for line in answer.lines[:3]]
    assert len(answer.advice) >= FIRST_ADVICE
    assert all(html(each) in text for each in said)
    assert text.index("Where the time goes") < text.index("What to change") < text.index("Hot lines")


def test_without_advice_it_says_why(answer):
    text = "".join(map(html, answer_nodes(replace(answer, advice=()))))
    assert "No rule finds 3 % to gain" in text
    by_hand = "".join(map(html, answer_nodes(explain("mdm-baseline"))))
    assert "dvice needs a trace" in by_hand and "Hot lines" not in by_hand


def test_the_bar_has_all_of_the_time(answer):
    _, _, (_, (_, _, parts), _) = time_bar(answer.prediction)
    shares = [float(attributes["style"].partition(":")[2].partition(";")[0]) for _, attributes, _ in parts]
    assert sum(shares) == pytest.approx(1.0, abs=0.03)  # parts below half a percent are left out


def test_code_of_headers_unfolds_at_the_line_that_calls_it(answer):
    inner = Line("sum.cuh", 7, 0.2, "total += x;")
    lines = (Line("k.cu", 3, 0.5, "sum(x);", inner=(inner,)),)
    text = "".join(map(html, answer_nodes(replace(answer, lines=lines))))
    assert (
        text.index("<summary><code>sum(x);")
        < text.index("sum.cuh:7")
        < text.index("</details>", text.index("sum(x)"))
    )


def test_nothing_becomes_markup(answer):
    lines = (Line(EVIL, 1, 1.0, EVIL),)
    nodes = answer_nodes(replace(answer, lines=lines, advice=(replace(answer.advice[0], text=EVIL, rule=EVIL),)))
    assert "<script" not in "".join(map(html, nodes))
    assert json.loads(json.dumps(nodes, allow_nan=False)) == nodes
    assert html(node("p", {"title": '"'}, "<")) == '<p title="&quot;">&lt;</p>'
