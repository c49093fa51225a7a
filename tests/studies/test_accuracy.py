"""What `warplens gpus --accuracy` says is what the kept predictions give."""

import csv
from pathlib import Path

import pytest

from warplens.machine import accuracy
from warplens_studies.validate import accuracy as study


def test_the_table_is_of_the_kept_predictions() -> None:
    with accuracy.DATA.open(encoding="utf-8", newline="") as file:
        head, *rows = map(tuple, csv.reader(file))
    assert head == study.HEAD
    assert rows[:-1] == list(study.kept_accuracy()), "renew_accuracy() writes it anew, as --fresh does"


def test_renewing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "DATA", tmp_path / "accuracy.csv")
    monkeypatch.setattr(study, "accelsim_accuracy", lambda: ("accelsim-mdm", "Accel-Sim", "16", "3", "1", "", ""))
    assert study.renew_accuracy().read_text().splitlines()[-1] == "accelsim-mdm,Accel-Sim,16,3,1,,"
