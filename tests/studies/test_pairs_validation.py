"""`warplens validate pairs`: what the figures mean, and that the page shows those of the kept answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens.explanation import RULES, Opinion
from warplens_studies.validate import pairs
from warplens_studies.validate.pairs import Explained, Gain, compare, kept_answers, ncu_estimate, summarise
from warplens_studies.validate.pairs_benefits import is_first, summarise_benefits
from warplens_studies.validate.pairs_tables import all_tables, sections
from warplens_studies.validate.report import outdated

PAGE = Path(__file__).parents[2] / "docs" / "validation" / "pairs.md"


def kernel(us: float, *rules: tuple[str, float]) -> dict[str, Any]:
    return {
        "seconds": us * 1e-6,
        "rules": [{"rule": name, "kind": "global", "percent": percent} for name, percent in rules],
    }


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three pairs: one found, one missed, one whose fault is launched four times."""
    of_pair = {
        "strided": {
            "rule": "uncoalesced-loads",
            "fault": kernel(100.0, ("UncoalescedGlobalAccess", 75.0), ("CPIStall", 90.0)),
            "cure": kernel(40.0),
        },
        "missed": {"rule": "bank-conflicts", "fault": kernel(30.0), "cure": kernel(10.0)},
        "short": {"rule": "launch-overhead", "launches": 4, "fault": kernel(3.0), "cure": kernel(4.0)},
        "unmeasured": {"rule": "fp64", "fault": kernel(3.0), "cure": {"failed": "reason"}},
    }
    monkeypatch.setattr(pairs, "measured", lambda: {"provenance": {}, "pairs": of_pair})
    monkeypatch.setattr(pairs, "ANSWERS", tmp_path / "answers.json")


def explained(us: float, **speedups: float) -> Explained:
    gains = (Gain(rule.replace("_", "-"), speedup, speedup, speedup) for rule, speedup in speedups.items())
    return Explained(us * 1e-6, tuple(gains))


ANSWERS = {
    "strided": {
        "fault": explained(110.0, low_occupancy=2.5, uncoalesced_loads=2.0),
        "cure": explained(50.0, uncoalesced_loads=1.05),
    },
    "missed": {"fault": explained(20.0), "cure": explained(10.0, bank_conflicts=1.5)},
    "short": {"fault": explained(3.0, launch_overhead=3.3), "cure": explained(4.0)},
}


def test_rows_and_summary(few: None) -> None:
    strided, missed, short = compare(ANSWERS)
    assert (strided.rank, strided.first_rule, strided.ncu_rule) == (2, "low-occupancy", "UncoalescedGlobalAccess")
    assert strided.found and strided.sign_right and strided.silent_on_cure
    assert (strided.measured_speedup, strided.predicted_speedup) == pytest.approx((2.5, 2.0))
    assert (strided.error, strided.ncu_error) == pytest.approx((1.25, 1.6))
    assert not missed.found and not missed.silent_on_cure
    assert missed.error == missed.ncu_error == pytest.approx(3.0)  # silence is a gain of 1
    assert short.fault_us == pytest.approx(12.0) and short.measured_speedup == pytest.approx(3.0)
    found = summarise([strided, missed, short])
    assert (found.pairs, found.found, found.sign_right, found.near, found.silent_on_cure) == (3, 2, 2, 2, 2)
    assert (found.median_error, found.ncu_median_error) == pytest.approx((1.25, 3.0))
    results, summary, short_of, *_ = all_tables([strided, missed, short])
    assert [row[0].text for row in results.rows] == ["strided", "missed", "short"]
    assert summary.rows[0][1].text == "2 of 3 (67 %)"
    assert [row[0].text for row in short_of.rows] == ["missed"]


def test_benefits_of_gpuperf(few: None) -> None:
    """On strided loads a benefit fits and is the largest; the other pairs have none that fits."""
    told = {"strided": {"B_coalesced": 0.5, "B_fp": 0.2}, "missed": {"B_fp": 0.05}, "short": {"B_memlp": 0.6}}
    answers = {
        pair: kernels | {"fault": replace(kernels["fault"], benefits=told[pair])} for pair, kernels in ANSWERS.items()
    }
    rows = compare(answers)
    assert rows[0].benefit == rows[0].first_benefit == Opinion("B_coalesced", 0.5)
    assert rows[0].to_dict()["benefit"] == "B_coalesced" and rows[1].to_dict()["benefit_gain"] is None
    found = summarise_benefits(rows)
    assert (found.pairs, found.fitting, found.agreeing, found.first, found.rule_first) == (3, 1, 1, 1, 0)
    assert found.elsewhere == 1  # 5 % count as nothing
    assert (found.median_error, found.rule_median_error) == pytest.approx((2.5 / 2.0, 1.25))
    small = replace(rows[0], benefit=Opinion("B_coalesced", 0.05))
    assert summarise_benefits([small]).agreeing == 0 and not is_first(small)
    assert summarise_benefits(compare(ANSWERS)).fitting == 0  # answers without benefits


def test_rules_that_show_a_benefit_have_one_that_is_mostly_the_largest() -> None:
    """What the page says of B_memlp and B_fp."""
    rows = [row for row in compare(kept_answers()) if RULES[row.rule].benefits]
    assert sum(map(is_first, rows)) > 0.75 * len(rows) > 10


def test_the_best_estimate_stands_where_no_rule_fits() -> None:
    rules = kernel(1.0, ("CPIStall", 20.0), ("Other", 50.0), ("None", 0.0))["rules"]
    rules.append({"rule": "OfPart", "kind": "local", "percent": 90.0})
    assert ncu_estimate("integer-division", rules) == ("Other", 2.0)
    assert ncu_estimate("barrier-waits", rules) == ("CPIStall", 1.25)
    assert ncu_estimate("fp64", []) == ("", None)


def test_answers_are_kept_by_pair(few: None) -> None:
    assert "missing" in pairs.stale(ANSWERS)
    pairs.write_answers({"strided": ANSWERS["strided"], "short": ANSWERS["short"]})
    assert pairs.stale(ANSWERS) == "answers.json lacks missed" and pairs.stale(["short"]) == ""
    pairs.write_answers({"missed": ANSWERS["missed"]})
    assert kept_answers() == ANSWERS and pairs.stale(ANSWERS) == ""
    text = pairs.ANSWERS.read_text(encoding="utf-8")
    pairs.ANSWERS.write_text(text.replace('"machine": "', '"machine": "0'), encoding="utf-8")
    assert "another machine file" in pairs.stale(ANSWERS)


def test_page_shows_the_kept_answers() -> None:
    stale = outdated(PAGE, "pairs", sections(compare(kept_answers())))
    assert not stale, "run warplens validate pairs --markdown docs/validation/pairs.md"


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "stale", lambda names: "")
    run = CliRunner().invoke(cli, ["validate", "pairs", "--kernel", "transpose", "-o", str(tmp_path), "--json"])
    assert run.exit_code == 0, run.output
    (document,) = json.loads(run.stdout)["datasets"]
    assert {row["pair"] for row in document["rows"]} == {
        f"transpose-{end}" for end in ("loads", "stores", "conflicts")
    }
    assert (tmp_path / "pairs.csv").is_file()
