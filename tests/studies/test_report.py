"""Tables, bounds and pages made of a small validation."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.errors import InputError, UnknownNameError
from warplens.models import GENERAL_MODELS as MODELS
from warplens_studies.validate import DATASETS, Validation, accelsim, find_datasets, validate_accelsim
from warplens_studies.validate.explain import EXPERIMENTS, SENSITIVE, STACKED
from warplens_studies.validate.harness import VARIANTS, model_names
from warplens_studies.validate.paper import CAPPED, STATED, SWEEPS
from warplens_studies.validate.paper import MODELS as PAPER_MODELS
from warplens_studies.validate.recorded import recorded
from warplens_studies.validate.report import (
    Sections,
    csv_text,
    markdown,
    outdated,
    rewritten,
    sections,
    table_csv,
    update_sections,
)
from warplens_studies.validate.tables import Cell, Table, all_tables, configuration_table, error_tables, percent

#: Sections that do not depend on the validation and simulate all kernels; test_accelsim compares them with the pages.
OF_ALL_KERNELS = ("set-conflicts", "experiments", "queue-depths")
KERNELS = ("strided32", "strided32_l2", "compute_ilp4_lowocc")


@pytest.fixture(scope="module")
def small() -> Validation:
    heard: list[str] = []
    found = validate_accelsim(
        kernels=KERNELS,
        configurations=["base", "lrr"],
        orders=["progress"],
        models=["roofline", "mdm"],
        workers=2,
        progress=heard.append,
    )
    assert sorted(heard) == sorted(KERNELS)
    return found


def test_bounds(small: Validation) -> None:
    strided, in_llc, compute = small.bounds
    lines = 28 * 64 * 4 * 32
    service = 1.4e9 * 128 / 480e9
    assert strided.dram == pytest.approx(lines * service)
    assert strided.largest == "DRAM" and strided.share == pytest.approx(strided.dram / 86143)
    assert strided.l1_port == lines / 28
    assert strided.busiest_bank == pytest.approx(1, abs=1e-3)
    assert (strided.dram_lines_read, strided.dram_lines_written, strided.dirty_lines_left) == (lines, 0, 0)
    # Accel-Sim misses all of these lines in L1.
    missed = next(row.l1 for row in small.misses if row.kernel == "strided32_l2")
    assert 0.95 < missed <= 1.0
    assert in_llc.noc == pytest.approx(missed * 28 * 64 * 6 * 32 * 1.4e9 * 128 / 1050e9, rel=1e-6)
    assert in_llc.in_step == pytest.approx(in_llc.noc, rel=2e-3)
    assert compute.issue == 1760 and compute.largest == "issue"
    assert compute.latency == 636


def test_hot_banks_show_in_step() -> None:
    found = validate_accelsim(kernels=["matmul"], configurations=["base"], orders=["progress"], models=["roofline"])
    (bounds,) = found.bounds
    assert bounds.in_step > 4 * bounds.noc


def test_means_and_order_of_rows(small: Validation) -> None:
    assert [row.kernel for row in small.rows[::2]] == [*KERNELS, *KERNELS]
    assert small.main_configuration == "base" and small.main_order == "progress"
    assert not small.divergent("compute_ilp4_lowocc") and small.divergent("strided32")
    errors = small.errors("progress", "base")
    mean = small.mean_error("mdm", order="progress", divergent=True)
    assert mean == pytest.approx((abs(errors["strided32", "mdm"]) + abs(errors["strided32_l2", "mdm"])) / 2)
    assert small.mean_error("mdm", order="round-robin") is None


def test_table_of_errors(small: Validation) -> None:
    interval, others = error_tables(small, "progress")
    assert interval.columns == ("kernel", "", "mdm") and others.columns == ("kernel", "", "roofline")
    assert [row[0].text for row in interval.rows] == [*KERNELS, "mean of MD", "mean of NMD", "mean of all"]
    assert interval.rows[0][2] == Cell("-41", 1)
    assert others.rows[0][2] == Cell("+1", 0)
    titles = [table.title for table in all_tables(small)]
    assert len(titles) == len(set(titles)) + 1  # both families have the same title
    assert configuration_table(small, "progress").columns == ("model", "base", "lrr")


def test_the_reference_simulator_is_one_more_column() -> None:
    found = validate_accelsim(
        kernels=["saxpy_lowocc"], configurations=["base"], orders=["progress"], models=["roofline", "mdm", "detailed"]
    )
    cycles = recorded()["base", "saxpy_lowocc"].cycles
    error = found.errors("progress", "base")["saxpy_lowocc", "detailed"]
    assert error == pytest.approx(accelsim.measurements()["base", "saxpy_lowocc"].cycles / cycles - 1)
    tables = error_tables(found, "progress")
    assert [table.columns[2:] for table in tables] == [("mdm", "detailed"), ("roofline", "detailed")]
    assert all(table.rows[0][3] == percent(error) for table in tables)
    alone = validate_accelsim(
        kernels=["saxpy_lowocc"], configurations=["base"], orders=["progress"], models=["detailed"]
    )
    assert [table.columns[2:] for table in error_tables(alone, "progress")] == [("detailed",)]


def test_percent() -> None:
    assert percent(1.001) == Cell("+100", 2)
    assert percent(-0.301) == Cell("-30", 1)
    assert percent(-0.001) == Cell("0", 0)
    assert percent(None) == Cell("–")
    assert percent(0.2, signed=False) == Cell("20")


def test_markdown_marks_and_headings() -> None:
    table = Table("", ("a-\nb\n[c]", "x"), ((Cell("k"), Cell("+120", 2)), (Cell("m"), Cell("-40", 1))))
    assert markdown(table) == "| a-b [c] | x |\n| --- | --: |\n| k | **+120** |\n| m | *-40* |\n"


def test_a_table_for_a_file_has_plain_numbers() -> None:
    table = Table("", ("a-\nb", "x"), ((Cell("`k`"), Cell("1\N{THIN SPACE}200", 2)), (Cell("m"), Cell("–"))))
    assert table_csv(table) == "a-b,x\nk,1200\nm,\n"


def test_csv_is_plain_and_stable() -> None:
    assert csv_text([{"a": True, "b": 1 / 3, "c": "x,y"}]) == 'a,b,c\ntrue,0.333333333,"x,y"\n'
    assert csv_text([]) == ""


def test_pages(small: Validation, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "before\n\n<!-- validate: accelsim errors progress -->\nold\n<!-- /validate -->\n\nafter\n"
    page.write_text(text + "<!-- validate: other means -->\nkept\n<!-- /validate -->\n", encoding="utf-8")
    brief: Sections = dict.fromkeys(OF_ALL_KERNELS, lambda: [Table("", ("kernel",), ())])
    parts = sections(small) | brief
    update_sections(page, "accelsim", parts)
    once = page.read_text(encoding="utf-8")
    assert "old" not in once and "kept" in once and "before" in once and "after" in once
    assert "| strided32 | MD | *-41* |" in once
    update_sections(page, "accelsim", parts)
    assert page.read_text(encoding="utf-8") == once
    with pytest.raises(InputError, match=r"no part .* 'error progress'; did you mean 'errors progress'"):
        rewritten(text.replace("errors", "error"), page, "accelsim", parts)
    page.write_text("nothing here\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no place for tables"):
        update_sections(page, "accelsim", parts)
    with pytest.raises(InputError, match="cannot be updated"):
        update_sections(tmp_path, "accelsim", parts)
    update_sections(tmp_path / "new.md", "accelsim", parts)
    assert "<!-- validate: accelsim experiments -->" in (tmp_path / "new.md").read_text(encoding="utf-8")


def test_a_page_that_links_to_a_file(small: Validation, tmp_path: Path) -> None:
    page, file = tmp_path / "page.md", tmp_path / "data" / "errors.csv"
    page.write_text("<!-- validate: accelsim errors in data/errors.csv -->\n<!-- /validate -->\n", encoding="utf-8")
    parts = sections(small)
    assert outdated(page, "accelsim", parts) == [page, file]
    update_sections(page, "accelsim", parts)
    assert "[`errors.csv`](data/errors.csv), 6 rows: IPC error" in page.read_text(encoding="utf-8")
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "order,configuration,kernel,class,roofline,mdm"
    assert lines[1] == "progress,base,strided32,MD,+1,-41"
    assert outdated(page, "accelsim", parts) == []
    file.write_text("\n".join(lines).replace("-41", "-40"), encoding="utf-8")
    assert outdated(page, "accelsim", parts) == [file]


def test_names_of_datasets() -> None:
    assert [dataset.name for dataset in find_datasets(())] == list(DATASETS) == ["accelsim"]
    with pytest.raises(UnknownNameError):
        find_datasets(["accel"])
    assert DATASETS["accelsim"].choose_configurations(["lrr", "base"]) == ["base", "lrr"]


def test_lists_name_what_exists() -> None:
    kernels, models = set(accelsim.kernels()), set(model_names())
    assert set(MODELS) < models and set(VARIANTS) < models
    for experiment in EXPERIMENTS:
        assert set(experiment.kernels) <= kernels and {experiment.model} <= set(MODELS)
        assert experiment.change
    assert set(SENSITIVE) <= kernels and set(STACKED) <= set(MODELS)
    assert {*PAPER_MODELS, *CAPPED} <= models
    settings = {name for sweep in SWEEPS for name in sweep.settings.values()}
    assert settings <= set(accelsim.CONFIGURATIONS)
    assert all(stated.configuration in accelsim.CONFIGURATIONS for stated in STATED)


def test_every_run_of_the_data_is_known() -> None:
    measured = accelsim.measurements()
    assert set(measured) == {
        (configuration, kernel) for configuration in accelsim.CONFIGURATIONS for kernel in accelsim.kernels()
    }
    assert len(measured) == 11 * 16
    assert all(accelsim.trace_path(kernel).is_file() for kernel in accelsim.kernels())
