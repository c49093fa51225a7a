"""What `gpus --accuracy` says is what the committed validation data say."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from warplens.machine import gpu_names, load_gpu
from warplens.machine.accuracy import Validation, validations
from warplens_studies.validate.tuning import agreements, kept_rows

VALIDATION = Path(__file__).parents[2] / "docs" / "validation"
CLOCKS = {"boost": "boost_hz", "sustained": "sustained_hz", "base": "base_hz"}


def rows(name: str) -> list[dict[str, str]]:
    with (VALIDATION / "data" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def found(gpu: str, page: str) -> list[Validation]:
    return [each for each in validations(gpu) if each.page == page]


def test_every_page_and_machine_exists():
    for gpu in gpu_names():
        for each in validations(gpu):
            assert (VALIDATION.parent / f"{each.page}.md").is_file()
            assert getattr(load_gpu(gpu).clocks, CLOCKS[each.clock]) is not None


def test_the_suite_on_the_h200():
    models = {
        row["source"]: row for row in rows("h200-models.csv") if (row["size"], row["model"]) == ("medium", "warplens")
    }
    told = {each.on.rpartition(", ")[2]: each for each in found("h200", "validation/h200")}
    for source, words in (("sass", "SASS traces"), ("ptx", "from source")):
        each, row = told[words], models[source]
        assert each.median_error_percent == float(row["median, %"])
        assert each.rank_correlation == float(row["rank correlation of IPC"])


@pytest.mark.parametrize("gpu", ["a100-40gb-pcie", "rtx3090", "rtx2080ti"])
def test_the_tuned_convolution(gpu):
    told = found(gpu, "validation/tuning")
    kept = agreements([row for row in kept_rows() if row.gpu == gpu])
    assert len(told) == len(kept) > 0
    for each in told:
        data = kept["convolution", gpu, each.clock]
        assert each.cases == data.configurations
        assert each.median_error_percent == round(100 * data.median_error)
        assert each.rank_correlation == pytest.approx(data.spearman, abs=0.005)
