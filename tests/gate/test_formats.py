"""What other tools read."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from warplens.explanation import Advice
from warplens.gate.formats import code_quality, junit, markdown, sarif, workflow_commands

from .making import result

ADVICE = Advice("register-spills", "It spills.", "Use fewer registers.", "", (), 1e-5, 8e-6, 1.1, 1.4)


@pytest.fixture
def found():
    return replace(result(0.14, 0.03, -0.2, 0.0), advice=ADVICE, folder="lib")


def test_annotations_stand_on_the_line_that_lost_most(found):
    error, warning, notice, note = workflow_commands(found)
    assert error == (
        "::error file=lib/kernels/softmax.cu,line=41,title=k0%3A 14 %25 slower on h100::"
        "k0 is 14 %25 slower on h100 (11 to 18 %25): 10 → 11.4 µs%0A+980 ns at softmax.cu:41: x[i] = <y>;"
        "%0AIt spills. Use fewer registers."
    )
    assert warning.startswith("::warning file=lib/kernels/softmax.cu,line=41,title=k1%3A 3.0 %25 slower")
    assert notice.startswith("::notice file=lib/kernels/softmax.cu")
    assert note == "::notice::the compiler is another"


def test_the_job_summary_folds_what_changed(found):
    text = markdown(found)
    assert text.startswith("### warplens check: slower\n")
    assert "| ❌ | `k0` | h100 | 10 → 11.4 µs | 14 % slower (11 to 18 %) |" in text
    assert "- +980 ns at softmax.cu:41: x[i] = &lt;y>;" in text
    assert "- **register-spills**: It spills. Use fewer registers." in text
    assert markdown(result(0.0)).startswith("### warplens check: passed\n")


def test_names_in_the_job_summary_are_shown_as_they_are(found):
    """Markdown knows no escapes in backticks, and none in a line of HTML."""
    first = found.verdicts[0]
    named = replace(first.after, identity=replace(first.identity, kernel="row_sum<a|b>"))
    first = replace(first, after=named)
    text = markdown(replace(found, verdicts=(first, *found.verdicts[1:])))
    assert "| ❌ | `row_sum<a\\|b>` |" in text
    assert "<details><summary>row_sum&lt;a|b&gt; is 14 % slower" in text


def test_sarif(found):
    document = json.loads(json.dumps(sarif(found), allow_nan=False))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    first, second = run["results"]
    assert (first["level"], second["level"]) == ("error", "warning")
    assert first["ruleId"] == run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"]
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "lib/kernels/softmax.cu"}, "region": {"startLine": 41}}
    assert first["partialFingerprints"] != second["partialFingerprints"]


def test_gitlab(found):
    first, second = code_quality(found)
    assert (first["severity"], second["severity"]) == ("major", "minor")
    assert first["location"] == {"path": "lib/kernels/softmax.cu", "lines": {"begin": 41}}
    assert first["fingerprint"] == code_quality(result(0.3))[0]["fingerprint"]


def test_junit(found):
    (suite,) = ElementTree.fromstring(junit(found))
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    case = suite[0]
    assert (case.get("classname"), case.get("name")) == ("kernels/softmax.toml", "k0 [h100]")
    (failure,) = case
    assert failure.get("message").startswith("k0 is 14 % slower on h100")
    assert failure.text == "+1.4 µs in which a warp waits for DRAM's latency\n+980 ns at softmax.cu:41: x[i] = <y>;"
    assert not list(suite[1])
