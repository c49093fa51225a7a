"""`warplens validate` as users type it, on two kernels and two configurations."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from warplens.cli.main import main

KERNELS = ["chase_divergent", "compute_ilp4_lowocc"]
MODELS = ["gpumech", "gpumech[mshr-capped]", "mdm"]
FEW = ["--kernel", "^(chase|compute_ilp4)", "--configuration", "mshr32", "--configuration", "base"]
FEW += [part for model in MODELS for part in ("--model", model)]
COLUMNS = (
    "order,configuration,kernel,divergent,model,predicted_cycles,reference_cycles,ipc_error,cycle_error,log_error"
)


@pytest.fixture
def validate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["warplens", "validate", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_tables_files_and_left_out_figures(validate: Any, tmp_path: Path) -> None:
    code, out, err = validate("accelsim", *FEW, "-o", tmp_path)
    assert code == 0
    for text in (
        "IPC error in % at base, caches in round-robin order",
        "IPC error in % at base, caches in progress order",
        "mean of MD",
        "mean of NMD",
        "mshr32",
        "oldest-24",
        "least cycles by part of the machine",
        "+57",
    ):
        assert text in out
    assert "\N{HORIZONTAL ELLIPSIS}" not in out, "a cell is cut"
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["accelsim-bounds.csv", "accelsim-misses.csv", "accelsim.csv", "miss-ratios.png"]
    assert all(str(tmp_path / name) in out for name in made)
    assert "mdm-fig5 is left out: it needs model gpumech-plus" in err

    text = (tmp_path / "accelsim.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == COLUMNS
    rows = rows_of(tmp_path / "accelsim.csv")
    assert len(rows) == 2 * 2 * 2 * 3
    # In the order of the data, whatever was typed.
    assert [row["configuration"] for row in rows[:12]] == ["base"] * 6 + ["mshr32"] * 6
    assert [row["kernel"] for row in rows[:6]] == [kernel for kernel in KERNELS for _ in MODELS]
    first = rows[0]
    assert (first["order"], first["divergent"], first["reference_cycles"]) == ("round-robin", "true", "11457")
    assert float(first["ipc_error"]) == pytest.approx(11457 / float(first["predicted_cycles"]) - 1, rel=1e-6)
    misses = rows_of(tmp_path / "accelsim-misses.csv")
    assert len(misses) == 4 * 2 * 2
    assert {row["order"] for row in misses} == {"round-robin", "progress", "oldest-8", "oldest-24"}
    assert [row["kernel"] for row in rows_of(tmp_path / "accelsim-bounds.csv")] == KERNELS

    code, _, _ = validate(*FEW, "-o", tmp_path / "again")
    assert code == 0
    for name in made[:3]:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_json_alone_on_stdout(validate: Any, tmp_path: Path) -> None:
    code, out, _ = validate("accelsim", *FEW, "--order", "oldest-8", "--json", "-o", tmp_path)
    assert code == 0
    document = json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} in JSON"))
    assert document["schema"] == 1
    (found,) = document["datasets"]
    assert found["dataset"] == "accelsim"
    assert found["dpki"] == {"chase_divergent": 200.0, "compute_ilp4_lowocc": 0.0}
    assert {row["order"] for row in found["rows"]} == {row["order"] for row in found["misses"]} == {"oldest-8"}
    (mean,) = [row for row in found["means"] if row["model"] == "mdm" and row["configuration"] == "base"]
    errors = {row["kernel"]: row["ipc_error"] for row in found["rows"] if row["model"] == "mdm"}
    assert mean["divergent"] == pytest.approx(abs(errors["chase_divergent"]), rel=0.1)
    assert mean["all"] == pytest.approx((mean["divergent"] + mean["other"]) / 2)
    assert found["skipped"] == []
    assert str(tmp_path / "accelsim.csv") in found["files"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["acelsim"], "did you mean 'accelsim'?"),
        (["accelsim", "--kernel", "strided64"], "no kernel of 'accelsim' matches 'strided64'; did you mean 'strided"),
        (["accelsim", "--kernel", "("], "not a regular expression"),
        (["accelsim", "--configuration", "mshr23"], "has no configuration 'mshr23'; did you mean 'mshr"),
        (["accelsim", "--model", "mdn"], "no model is named 'mdn'; did you mean 'mdm'"),
        (["accelsim", "--order", "newest"], "order 'newest' is not one of"),
        (["accelsim", "--kernel", "copy", "--markdown", "x.md"], "--markdown needs all"),
    ],
)
def test_bad_usage_is_exit_2_before_anything_is_written(
    validate: Any, tmp_path: Path, arguments: list[str], message: str
) -> None:
    code, out, err = validate(*arguments, "-o", tmp_path / "none")
    assert code == 2 and out == ""
    assert message in err and "Traceback" not in err
    assert not (tmp_path / "none").exists()


def test_folder_that_is_a_file(validate: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, _, err = validate(*FEW, "-o", tmp_path / "file" / "deeper")
    assert code == 2 and "choose another folder with -o" in err


def test_without_matplotlib_the_numbers_are_still_written(
    validate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = validate(*FEW, "-o", tmp_path)
    assert code == 1 and "pictures need matplotlib" in err
    assert "mean of MD" in out
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv"] * 3


def test_network_writes_rows_and_prints_tables(validate: Any, tmp_path: Path) -> None:
    """Our own model against both simulators."""
    code, out, _ = validate("network", "--kernel", "^vector_add$", "-o", tmp_path, "--json")
    (found,) = json.loads(out)["datasets"]
    assert (code, found["dataset"]) == (0, "network")
    assert len(found["suite"]) == 3
    assert (tmp_path / "network-suite.csv").read_text().startswith("kernel,machine,ipc_error")
    code, out, _ = validate("network", "--kernel", "^vector_add$", "-o", tmp_path)
    assert code == 0
    assert "IPC error against the detailed simulator" in out
    for wrong in (["--kernel", "no such"], ["--model", "mdm"], ["accelsim"]):
        assert validate("network", *wrong, "-o", tmp_path)[0] == 2
