"""`warplens validate curves`: kernels do what they say, and the page shows what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens.machine import load_gpu
from warplens_studies.validate import curves
from warplens_studies.validate.curves import KEPT, MEASURED, TITLES, read_points
from warplens_studies.validate.curves_tables import sections
from warplens_studies.validate.report import outdated

PAGE = Path(__file__).parents[2] / "docs" / "validation" / "curves.md"


def test_every_measured_point_is_predicted() -> None:
    kept, measured = read_points(KEPT), read_points(MEASURED)
    assert [(p.curve, p.gpu, p.kernel, p.x, p.measured) for p in kept] == [
        (p.curve, p.gpu, p.kernel, p.x, p.measured) for p in measured
    ]
    assert all(p.predicted > 0 for p in kept)


def test_page_shows_what_is_kept() -> None:
    stale = outdated(PAGE, "curves", sections(read_points(KEPT)))
    assert not stale, "run warplens validate curves --markdown docs/validation/curves.md"


@pytest.mark.parametrize("curve", ["occupancy", "stride", "latency"])
def test_a_point_is_predicted_anew(curve: str) -> None:
    """Within a factor of two of what was measured, wherever the model has come since it was kept."""
    point = next(p for p in read_points(MEASURED) if p.curve == curve and p.gpu == "a100-80gb")
    predicted = curves._PREDICT[curve](load_gpu(point.gpu), point)
    assert 0.5 < predicted / point.measured < 2.0


def test_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["validate", "curves", "-o", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    assert {row["curve"] for row in json.loads(done.stdout)["datasets"][0]["summary"]} == set(TITLES)
    assert (tmp_path / "curves.csv").is_file() and (tmp_path / "curves.png").is_file()
    refused = CliRunner().invoke(cli, ["validate", "curves", "--kernel", "read"])
    assert refused.exit_code != 0 and "leave it out" in refused.output
