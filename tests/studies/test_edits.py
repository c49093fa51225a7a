"""`warplens validate edits`: edits apply, figures mean what they say, the page shows the kept verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens_studies.validate.editing import Edit, Version, edits
from warplens_studies.validate.edits import EditRow, compare, edit_names, kept_predictions, summarise
from warplens_studies.validate.edits_tables import all_tables, sections
from warplens_studies.validate.report import outdated

PAGE = Path(__file__).parents[2] / "docs" / "validation" / "edits.md"


def row(measured: float, predicted: float, outcome: str) -> EditRow:
    ends = predicted - 0.03, predicted + 0.03
    return EditRow("name", "kernel", "", 10.0, 10.0 * (1 + measured), 9.0, 9.0, measured, predicted, *ends, outcome)


ROWS = (
    row(0.2, 0.22, "slower"),
    row(-0.3, -0.1, "faster"),
    row(0.12, 0.0, "same"),
    row(0.5, -0.2, "faster"),
    row(0.01, 0.0, "same"),
    row(0.0, 0.07, "slower"),
    row(0.05, 0.06, "slower"),
)


def test_the_figures_count_what_they_say() -> None:
    found = summarise(ROWS)
    assert (found.edits, found.real, found.caught, found.wrong) == (7, 4, 2, 1)
    assert (found.none, found.alarms, found.called_same) == (2, 1, 1)
    assert found.in_range == 3
    assert found.median_error == pytest.approx(0.07)


def test_tables_mark_what_is_wrong() -> None:
    results, summary = all_tables(ROWS)
    assert [cells[-1].level for cells in results.rows] == [0, 0, 1, 2, 0, 2, 0]
    assert summary.rows[0][1].text == "2 of 4 (50 %)"


def test_every_edit_changes_its_kernel_and_was_measured() -> None:
    assert len(edit_names()) == len(edits()) >= 40
    for edit in edits().values():
        assert edit.replace or edit.options or edit.block, edit.name


def test_an_edit_that_does_not_apply_is_refused() -> None:
    edit = Edit("none", "vector_add", "", replace=(("nothing", "else"),))
    with pytest.raises(ValueError, match=r"edits.toml: none: 'nothing' is not in vector_add.cu"):
        edit.apply(Version("text", (), None))  # type: ignore[arg-type]


def test_the_page_shows_the_kept_verdicts() -> None:
    rows = compare(kept_predictions())
    assert len(rows) == len(edit_names())
    assert not outdated(PAGE, "edits", sections(rows))


def test_the_command_reads_what_is_kept(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["validate", "edits", "--json", "--kernel", "^add-", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["datasets"]
    assert found["summary"]["edits"] == len(found["rows"]) == 5
    assert (tmp_path / "edits.csv").exists()
