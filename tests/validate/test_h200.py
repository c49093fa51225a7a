"""The models against an H200: kept predictions, statistics, pages."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens.errors import UnknownNameError
from warplens.machine import load_gpu
from warplens.models import GENERAL_MODELS as MODELS
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.trace import CLASS_NAMES
from warplens.validate import h200
from warplens.validate.h200 import BOUND, H200Validation, Measured, Predicted
from warplens.validate.h200_tables import all_tables, new_page, sections
from warplens.validate.report import update_sections

#: Kernels that are executed and predicted within seconds.
FAST = ("pointer_chase", "gaussian_fan1")
SWEPT = ("vector_add", "cfd_flux")


def measured(kernel: str, blocks: int, cycles: float, **values: float) -> Measured:
    usual = {
        "duration_ns": 40_000.0,
        "warp_instructions": 1000.0,
        "l1_hit_percent": 50.0,
        "l2_hit_percent": 50.0,
        "l2_bytes": 0.0,
        "dram_read_bytes": 0.0,
        "dram_write_bytes": 0.0,
        "occupancy_percent": 100.0,
    }
    return Measured(kernel, blocks, 5, 0.0, cycles, 0.9 * cycles, **usual | values)


def predicted(kernel: str, blocks: int, cycles: float | None, warps: float = 64.0) -> Predicted:
    given = {} if cycles is None else {"mdm": cycles}
    return Predicted(kernel, blocks, 1000.0, warps, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, given)


@pytest.fixture
def made_up() -> H200Validation:
    """Errors of +50 %, -20 %, and one of a kernel that is too short to count."""
    launches = [
        (measured("a", 0, 1000.0), predicted("a", 0, 1500.0)),
        (measured("b", 0, 2000.0), predicted("b", 0, 1600.0)),
        (measured("c", 0, 100.0, duration_ns=5000.0), predicted("c", 0, 1000.0)),
        (measured("b", 1, 8000.0), predicted("b", 1, 4000.0, 8.0)),
        (measured("b", 2, 4000.0), predicted("b", 2, 2000.0, 16.0)),
        (measured("b", 4, 2000.0), predicted("b", 4, 1000.0, 32.0)),
        (measured("b", 8, 1900.0), predicted("b", 8, 1000.0, 32.0)),
    ]
    return H200Validation(
        {(m.kernel, m.resident_blocks): m for m, _ in launches},
        {(p.kernel, p.resident_blocks): p for _, p in launches},
        load_gpu("h200"),
    )


def test_summary(made_up: H200Validation) -> None:
    found = made_up.summary("mdm")
    assert made_up.long_kernels == ["a", "b"] and found.kernels == 2
    assert found.mape == pytest.approx(0.35) and found.median == pytest.approx(0.35)
    assert found.within == (0, 1, 1)
    assert found.mape_active == pytest.approx((1500 / 900 - 1 + 1 - 1600 / 1800) / 2)
    assert found.mape_all == pytest.approx((0.5 + 0.2 + 9.0) / 3)
    assert found.rank_ipc == pytest.approx(1.0)
    assert made_up.models == ["mdm", BOUND]


def test_sweeps(made_up: H200Validation) -> None:
    """A model that is twice too fast everywhere has the right order; the level that adds no warps is left out."""
    assert made_up.levels("b") == [1, 2, 4]
    (found,) = made_up.sweeps("mdm")
    assert found.mape == pytest.approx(1.0) and found.rank == pytest.approx(1.0)
    assert found.mape_shape == pytest.approx(0.0, abs=1e-9)  # the speeds lie on a line, and so do the differences


def test_a_model_that_cannot_run(made_up: H200Validation) -> None:
    rows = dict(made_up.predicted) | {("b", 0): predicted("b", 0, None), ("b", 1): predicted("b", 1, None, 8.0)}
    found = replace(made_up, predicted=rows)
    assert found.summary("mdm").kernels == 1 and found.sweeps("mdm") == []
    assert found.error("mdm", "b") is None
    assert not any(
        row["kernel"] == "b" and row["model"] == "mdm" and not row["resident_blocks"] for row in found.rows()
    )
    assert math.isnan(found.summary("pipeline").mape)


def test_the_bound_from_counters() -> None:
    gpu = load_gpu("h200")
    clock, sms = float(gpu.clock_hz), float(gpu.sms)
    second = {
        "L2": float(gpu.require("noc.bandwidth_bytes_per_s", "a test")),
        "DRAM": float(gpu.require("dram.bandwidth_bytes_per_s", "a test")),
    }
    counters = measured(
        "a",
        0,
        1.0,
        warp_instructions=8 * sms,
        l2_bytes=second["L2"],
        dram_read_bytes=second["DRAM"],
        dram_write_bytes=second["DRAM"],
    )
    parts = h200.bound_parts(counters, gpu)
    assert parts == pytest.approx({"issue": 2.0, "L2": clock, "DRAM": 2 * clock})


def test_data() -> None:
    found = h200.measurements()
    assert [kernel for kernel, blocks in found if not blocks] == list(SUITE)
    assert all(row.repeats == (2 if blocks else 5) for (_, blocks), row in found.items())
    assert len({kernel for kernel, blocks in found if blocks}) >= 14
    assert all(0 < row.active_cycles <= row.elapsed_cycles for row in found.values())
    assert "NVIDIA H200" in h200.provenance()["GPU"]
    kept = h200.kept_predictions()
    assert {(row.kernel, row.resident_blocks) for row in kept} == set(found)
    assert all(set(row.cycles) == set(MODELS) for row in kept)


def check(rows: list[Predicted]) -> None:
    """Predictions are the kept ones; those of another machine file are not compared."""
    kept = {(row.kernel, row.resident_blocks): row for row in h200.kept_predictions()}
    for row in rows:
        theirs = kept[row.kernel, row.resident_blocks]
        assert row.cycles == pytest.approx(theirs.cycles, rel=1e-6)
        for name in (
            "warp_instructions",
            "warps_per_sm",
            "l1_hit_ratio",
            "l2_hit_ratio",
            "dram_read_bytes",
            "bank_cycles",
        ):
            assert getattr(row, name) == pytest.approx(getattr(theirs, name), rel=1e-6)


def test_predictions_are_of_this_machine() -> None:
    assert h200.stale() == "", "run warplens validate h200 --fresh --markdown docs/validation/h200.md"


@pytest.mark.parametrize("kernel", FAST)
def test_kept_predictions(kernel: str) -> None:
    check(h200.predict_kernel(kernel))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", SWEPT)
def test_kept_sweeps(kernel: str) -> None:
    levels = h200.levels_of(kernel)
    assert levels[0] == 0 and len(levels) > 5
    check(h200.predict_kernel(kernel, levels=levels))


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data, where they can be changed."""
    folder = tmp_path / "h200"
    shutil.copytree(h200.FOLDER, folder)
    monkeypatch.setattr(h200, "FOLDER", folder)
    return folder


def test_files_give_back_what_was_written(own_folder: Path) -> None:
    rows = h200.kept_predictions()
    h200.write_predictions(rows, h200.fingerprint())
    assert h200.kept_predictions() == rows and h200.stale() == ""


def test_stale_predictions_are_seen(own_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    h200.write_predictions(h200.kept_predictions(), h200.fingerprint())
    path = own_folder / "predictions_sweeps.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("# version: ", "# version: 0"), encoding="utf-8")
    assert "of version 0" in h200.stale()
    path.write_text(text.replace(",pipeline\n", ",other\n"), encoding="utf-8")
    assert "lacks pipeline" in h200.stale()
    path.unlink()
    assert "missing" in h200.stale()
    path.write_text(text, encoding="utf-8")
    assert h200.stale() == ""
    machine = tmp_path / "h200.toml"
    changed = h200.MACHINE_FILE.read_text(encoding="utf-8").replace("value = 132,", "value = 131,", 1)
    machine.write_text(changed, encoding="utf-8")
    assert h200.fingerprint(machine) != h200.fingerprint()


def test_words_of_the_machine_file_do_not_matter(tmp_path: Path) -> None:
    text = h200.MACHINE_FILE.read_text(encoding="utf-8")
    other = tmp_path / "h200.toml"
    other.write_text(f"# a remark\n{text}".replace('text = "', 'text = "as '), encoding="utf-8")
    assert h200.fingerprint(other) == h200.fingerprint()


def test_pages_and_tables(tmp_path: Path) -> None:
    found = h200.compare(h200.kept_predictions())
    page = tmp_path / "page.md"
    update_sections(page, "h200", sections(found), lambda: new_page(found))
    text = page.read_text(encoding="utf-8")
    assert all(f"| {kernel} |" in text for kernel in SUITE)
    assert len(all_tables(found)) == 6
    few = h200.compare(row for row in h200.kept_predictions() if row.kernel in FAST)
    assert {row[0].text for row in all_tables(few)[0].rows} == set(FAST)


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h200, "stale", lambda: "")
    run = CliRunner().invoke(cli, ["validate", "h200", "--kernel", "hotspot|bfs", "-o", str(tmp_path), "--json"])
    assert run.exit_code == 0, run.output
    (document,) = json.loads(run.stdout)["datasets"]
    assert {row["kernel"] for row in document["rows"]} == {"hotspot", "bfs"}
    assert {each["model"] for each in document["summary"]} == {*MODELS, BOUND}
    assert (tmp_path / "h200.csv").exists() and (tmp_path / "h200-scatter.png").exists()


def test_a_stale_file_is_said_and_computed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def predict_all(kernels, progress=None):
        asked.append(list(kernels))
        return [row for row in h200.kept_predictions() if row.kernel in kernels]

    monkeypatch.setattr(h200, "stale", lambda: "predictions_medium.csv is of another h200.toml")
    monkeypatch.setattr(h200, "predict_all", predict_all)
    run = CliRunner().invoke(cli, ["validate", "h200", "--kernel", "^reduction$", "-o", str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert "another h200.toml" in run.stderr and asked == [["reduction"]]
    assert "reduction" in run.stdout


@pytest.mark.parametrize(
    "arguments", [["h200", "--model", "mdm"], ["h200", "suite"], ["h200", "--fresh", "--kernel", "a"], ["--fresh"]]
)
def test_refused(arguments: list[str]) -> None:
    run = CliRunner().invoke(cli, ["validate", *arguments])
    assert run.exit_code == 2


def test_bank_conflicts_are_counted() -> None:
    """The antidiagonals of a tile of 33 columns lie in one bank; a kernel without shared memory has no accesses."""
    kept = {row.kernel: row for row in h200.kept_predictions() if not row.resident_blocks}
    assert kept["vector_add"].bank_cycles == 0
    (row,) = h200.predict_kernel("needleman_wunsch", "small")
    trace = run_on_cpu("needleman_wunsch", "small", record=True).trace
    shared = np.array([name in ("load_shared", "store_shared") for name in CLASS_NAMES])[trace.static.class_id]
    accesses = sum(int(np.count_nonzero(shared[group.static])) for group in trace.groups())
    assert row.bank_cycles * 132 > 5 * accesses > 0


def test_unknown_kernel() -> None:
    run = CliRunner().invoke(cli, ["validate", "h200", "--kernel", "nothing_like_it"])
    assert isinstance(run.exception, UnknownNameError) and "no kernel of the suite" in str(run.exception)
