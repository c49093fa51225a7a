"""`warplens reproduce` as users type it."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from warplens.errors import InputError, MissingPackageError, UnknownNameError
from warplens_studies.cli.reproduce import reproduce
from warplens_studies.reproduce import RECIPES, recipe_names


def run(*arguments: str):
    return CliRunner().invoke(reproduce, [str(argument) for argument in arguments], catch_exceptions=True)


def test_list_names_all_with_title_comparison_and_reason():
    result = run("--list")
    assert result.exit_code == 0
    for name in recipe_names():
        assert name in result.output
    assert "what is compared" in result.output and "not done: a block diagram" in result.output


def test_list_as_json_writes_nothing(tmp_path):
    result = run("--list", "--json", "-o", tmp_path / "none")
    document = json.loads(result.stdout)
    assert [row["name"] for row in document["reproductions"]] == recipe_names()
    keys = {"name", "paper", "title", "compares", "data", "statements", "covers"}
    assert all(set(row) == keys for row in document["reproductions"])
    assert all(row["reason"] for row in document["omitted"]) and document["omitted"]
    assert not (tmp_path / "none").exists()


def test_unknown_name_before_anything_is_written(tmp_path):
    result = run("lemeire-fig2", "lemiere-fig3", "-o", tmp_path / "none")
    assert isinstance(result.exception, UnknownNameError) and isinstance(result.exception, InputError)
    assert "lemeire-fig3" in str(result.exception)
    assert not (tmp_path / "none").exists()


def test_people_see_values_claims_assumptions_and_files(tmp_path):
    result = run("gpumech-fig9", "-o", tmp_path)
    assert result.exit_code == 0
    for text in (
        "0.25",
        "none",
        "statement",
        "yes",
        "assumed: the loads hit L2",
        "gpumech-fig9.csv",
        "gpumech-fig9.png",
    ):
        assert text in result.output
    assert (tmp_path / "gpumech-fig9.csv").is_file()
    assert (tmp_path / "gpumech-fig9.png").stat().st_size > 10_000


def test_json_alone_on_stdout_with_progress_on_stderr(tmp_path):
    result = run("hong-kim-table2", "lemeire-fig3", "--json", "-o", tmp_path)
    document = json.loads(result.stdout, parse_constant=lambda text: pytest.fail(f"{text} in JSON"))
    assert result.stderr.splitlines()[0].startswith("hong-kim-table2: ")
    first = document["reproductions"][0]
    assert first["columns"][0] == "quantity" and len(first["rows"]) == 14
    assert first["claims"][0]["holds"] is True
    assert first["csv"].endswith("hong-kim-table2.csv") and first["png"].endswith("hong-kim-table2.png")


@pytest.mark.parametrize("as_json", [False, True])
def test_without_matplotlib_the_numbers_are_still_written(tmp_path, monkeypatch, as_json):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("gpumech-fig8", "lemeire-fig3", "-o", tmp_path, *(["--json"] if as_json else []))
    assert isinstance(result.exception, MissingPackageError) and not isinstance(result.exception, InputError)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpumech-fig8.csv", "lemeire-fig3.csv"]
    if as_json:
        assert [item["png"] for item in json.loads(result.stdout)["reproductions"]] == [None, None]


def test_output_that_is_a_file_is_bad_usage(tmp_path):
    (tmp_path / "file").write_text("")
    assert run("lemeire-fig3", "-o", tmp_path / "file").exit_code == 2


@pytest.mark.parametrize("everything", [(), ("--all",)])
def test_no_name_makes_all(tmp_path, monkeypatch, everything):
    """Of three that are quick: that each of the others computes and draws is tested one by one."""
    for name in set(RECIPES) - {"hong-kim-table2", "lemeire-fig3", "gpumech-fig8"}:
        monkeypatch.delitem(RECIPES, name)
    result = run(*everything, "-o", tmp_path)
    assert result.exit_code == 0
    names = {path.stem for path in tmp_path.glob("*.csv")}
    assert names == {path.stem for path in tmp_path.glob("*.png")} == set(recipe_names()) and len(names) == 3


def test_all_takes_no_names():
    assert run("--all", "lemeire-fig3").exit_code == 2
