"""`warplens validate programs`: what the figures mean, and that the page shows those of the kept predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens_studies.validate import programs
from warplens_studies.validate.programs import (
    Launch,
    Predicted,
    Row,
    compare_launches,
    coverage,
    kept_predictions,
    launches,
    limiter_of,
    models_of,
    summarise,
)
from warplens_studies.validate.programs_tables import all_tables, sections
from warplens_studies.validate.report import outdated

PAGE = Path(__file__).parents[2] / "docs" / "validation" / "programs.md"


def row(number: int, measured: float, predicted: float, limiter: str = "latency", **others: float) -> Row:
    launch = Launch(
        program="sums",
        suite="Suite",
        launch=number,
        kernel="add",
        grid=(8, 1, 1),
        block=(32, 1, 1),
        blocks=8,
        recorded_blocks=8 - number,
        exact_share=1.0,
        trace="sums.wlt",
        measured={"elapsed_cycles": measured, "stall_wait": 2.0, "stall_barrier": 3.0, "stall_selected": 9.0},
    )
    cycles = {"warplens": predicted, **others}
    return Row(launch, Predicted(cycles, 0.8 * predicted, 1.2 * predicted, limiter, {"l1_miss_ratio": 0.25}))


ROWS = [row(0, 100.0, 90.0, mdm=50.0), row(1, 200.0, 230.0, "DRAM"), row(2, 300.0, 900.0, mdm=300.0)]


def test_summary_and_coverage() -> None:
    found = summarise(ROWS)
    assert found is not None
    assert (found.mean, found.median, found.median_signed) == pytest.approx((0.75, 0.15, 0.15))
    assert (found.launches, found.near, found.above_double, found.rank) == (3, pytest.approx(2 / 3), 1, 1.0)
    other = summarise(ROWS, "mdm")
    assert other is not None and (other.launches, other.mean) == (2, pytest.approx(0.25))
    assert summarise(ROWS, "roofline") is None
    ranged = coverage(ROWS)
    assert ranged is not None and (ranged.held, ranged.half_width) == pytest.approx((2 / 3, 0.2))
    assert models_of(ROWS) == ["warplens", "mdm"]


def test_tables() -> None:
    results, models, by_limiter, _, by_part, far, summary = all_tables(ROWS)
    assert [line[0].text for line in results.rows] == ["sums:0", "sums:1", "sums:2"]
    assert [line[4].text for line in results.rows] == ["-10", "+15", "+200"]
    assert [line[0].text for line in models.rows] == ["warplens", "mdm"]
    assert [line[0].text for line in by_limiter.rows] == ["latency", "DRAM"]
    assert [line[0].text for line in by_part.rows] == ["the first blocks", "all blocks"]
    assert [(line[0].text, line[-1].text) for line in far.rows] == [("sums:2", "barrier 3.0, wait 2.0")]
    assert summary.rows[0][1].text == "75 %" and summary.rows[0][1].level == 1


def test_limiter_is_the_busiest_resource_if_it_is_busy() -> None:
    assert limiter_of({"busy_L1": 0.9, "busy_DRAM": 0.95}) == "DRAM"
    assert limiter_of({"busy_L1": 0.5, "busy_DRAM": 0.4}) == limiter_of({}) == "latency"


def test_predictions_are_kept_by_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PREDICTED", tmp_path / "kept.json")
    monkeypatch.setattr(programs, "launches", lambda: [each.launch for each in ROWS])
    assert kept_predictions() == {} and "missing" in programs.stale()
    programs.write_predictions({"sums:2": ROWS[2].predicted})
    programs.write_predictions({"sums:0": ROWS[0].predicted})
    assert kept_predictions() == {"sums:0": ROWS[0].predicted, "sums:2": ROWS[2].predicted}
    assert programs.stale() == ""


def test_page_shows_the_kept_predictions() -> None:
    stale = outdated(PAGE, "programs", sections(compare_launches(launches(), kept_predictions())))
    assert not stale, "run warplens validate programs --markdown docs/validation/programs.md"


def test_command(tmp_path: Path) -> None:
    run = CliRunner().invoke(cli, ["validate", "programs", "--kernel", "poly-ge", "-o", str(tmp_path), "--json"])
    assert run.exit_code == 0, run.output
    (document,) = json.loads(run.stdout)["datasets"]
    assert {one["program"] for one in document["rows"]} >= {"poly-gemm"}
    assert (tmp_path / "programs.csv").is_file() and (tmp_path / "programs.png").is_file()


def test_fresh_needs_traces(tmp_path: Path) -> None:
    run = CliRunner().invoke(cli, ["validate", "programs", "--fresh"])
    assert run.exit_code == 2 and "--traces DIR" in run.output
    run = CliRunner().invoke(cli, ["validate", "programs", "--fresh", "--traces", str(tmp_path)])
    assert run.exit_code != 0 and "lacks" in str(run.exception)
