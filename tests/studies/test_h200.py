"""The models against an H200: kept predictions, statistics, pages."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens.errors import MissingInputError, UnknownNameError
from warplens.machine import load_gpu
from warplens.models import GENERAL_MODELS as MODELS
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.traces import CLASS_NAMES
from warplens.workload import analyse
from warplens.workload.profiled import read_profiles, write_profiles
from warplens_studies.validate import h200, h200_own, h200_profiles
from warplens_studies.validate.h200 import BOUND, SIZES, SOURCES, H200Validation, Measured, Predicted
from warplens_studies.validate.h200_own import MECHANISMS
from warplens_studies.validate.h200_papers import CPI, IPC, SPEED, by_measure, papers_table
from warplens_studies.validate.h200_profiles import predict_launch, profile_launch, shipped_profiles
from warplens_studies.validate.h200_tables import all_tables, sections
from warplens_studies.validate.report import markdown, rewritten, update_sections

#: Kernels that are executed and predicted within seconds.
FAST = ("pointer_chase", "gaussian_fan1")


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
    return Measured(kernel, blocks, 5, 0.99 * cycles, 1.01 * cycles, cycles, 0.9 * cycles, **usual | values)


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


def test_papers_measures(made_up: H200Validation) -> None:
    """20 % too few cycles are 25 % too much IPC; where a paper reports that, so do we."""
    errors = (1 - 1000 / 1500, 2000 / 1600 - 1)
    assert by_measure(made_up, "mdm", IPC) == pytest.approx(sum(errors) / 2)
    assert by_measure(made_up, "mdm", CPI) == pytest.approx(math.sqrt(0.5 * 0.2))
    assert by_measure(made_up, "mdm", SPEED) == pytest.approx(1.0)
    (row,) = papers_table({("sass", "medium"): made_up}, "medium").rows
    assert [cell.text for cell in row[:5]] == ["mdm", IPC, "SASS", "29", "40"]


def test_sweeps(made_up: H200Validation) -> None:
    """A model that is twice too fast everywhere has the right order; the level that adds no warps is left out."""
    assert made_up.levels("b") == [1, 2, 4]
    (found,) = made_up.sweeps("mdm")
    assert found.mape == pytest.approx(1.0) and found.rank == pytest.approx(1.0)
    assert found.mape_shape == pytest.approx(0.0, abs=1e-9)  # the speeds lie on a line, and so do the differences
    assert found.concordance == 1.0 and found.span == pytest.approx(3.0) and found.noise == pytest.approx(0.02)


def test_occupancies_that_repeats_do_not_tell_apart_are_no_pairs(made_up: H200Validation) -> None:
    """Of three levels, two are alike to the repeats: the order of those does not count, that of the others does."""
    rows = dict(made_up.measured) | {("b", 2): measured("b", 2, 2010.0)}
    (found,) = replace(made_up, measured=rows).sweeps("mdm")
    assert found.concordance == 1.0 and found.rank == pytest.approx(1.0)
    wrong = dict(made_up.predicted) | {("b", 4): predicted("b", 4, 3000.0, 32.0)}
    (found,) = replace(made_up, measured=rows, predicted=wrong).sweeps("mdm")
    assert found.concordance == 1.0 and found.rank == pytest.approx(0.5)


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


@pytest.mark.parametrize("size", SIZES)
def test_measurements(size: str) -> None:
    found = h200.measurements(size)
    assert [kernel for kernel, blocks in found if not blocks] == list(SUITE)
    assert all(row.repeats >= 5 for row in found.values())
    assert len({kernel for kernel, blocks in found if blocks}) >= (14 if size == "medium" else 0)
    assert all(0 < row.active_cycles <= row.elapsed_cycles for row in found.values())
    assert all(row.least_cycles <= row.elapsed_cycles <= row.most_cycles for row in found.values())
    assert "NVIDIA H200" in h200.provenance()["GPU"]


def test_profiles_are_small_and_say_where_they_come_from() -> None:
    paths = list(h200_profiles.PROFILES.glob("*.xz"))
    assert len(paths) == len(SOURCES) * len(SIZES) and all(path.stat().st_size < 3_200_000 for path in paths)
    for source in SOURCES:
        profiles, about = shipped_profiles(source, "medium")
        assert list(profiles) == list(SUITE)
        assert about["source"] == source and "trace_suite.py" in about["command"]
    profiles, about = shipped_profiles("sass", "large")
    assert list(profiles) == list(SUITE) and "NVIDIA H200" in about["GPU"]


def test_sass_executes_what_was_counted() -> None:
    """Instructions of the traces against the counters; control flow without accesses is estimated."""
    counted, gpu = h200.measurements("medium"), load_gpu("h200")
    off = {
        kernel: abs(analyse(workload, gpu).total_instructions / counted[kernel, 0].warp_instructions - 1)
        for kernel, workload in shipped_profiles("sass", "medium")[0].items()
    }
    assert max(off.values()) < 0.06
    assert sum(each < 0.005 for each in off.values()) >= 47


def check(row: Predicted) -> None:
    kept = {(each.source, each.size, each.kernel, each.resident_blocks): each for each in kept_rows()}
    theirs = kept[row.source, row.size, row.kernel, row.resident_blocks]
    # The profiles were made before the longest block was always sampled, which our own model alone sees.
    own = {"warplens": 0.03}
    for name, cycles in theirs.cycles.items():
        assert row.cycles[name] == pytest.approx(cycles, rel=own.get(name, 1e-6)), name
    for name in h200.SIMULATED:
        assert getattr(row, name) == pytest.approx(getattr(theirs, name), rel=1e-6), name


@cache
def kept_rows() -> list[Predicted]:
    return h200_profiles.kept_predictions()


def test_predictions_are_of_this_machine() -> None:
    assert h200_profiles.stale() == "", "run warplens validate h200 --fresh --markdown docs/validation/h200.md"


def test_kept_predictions_are_those_of_the_profiles() -> None:
    for row in h200_profiles.predict_all(["cfd_flux", "gaussian_fan1"], sizes=("medium",)):
        check(row)


@pytest.mark.parametrize("kernel", FAST)
def test_executing_gives_the_profile_that_ships(kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for reads that SMs share: profiles that ship were made before these were counted."""
    gpu = load_gpu("h200")
    unshared = replace(gpu, noc=replace(gpu.noc, shared_reads=0.0))
    monkeypatch.setattr(h200_profiles, "load_gpu", lambda _: unshared)
    profile = profile_launch(run_on_cpu(kernel, "medium", record=True).trace, kernel, "medium", swept=False)
    write_profiles(tmp_path / "again.xz", {kernel: profile}, {})
    again = read_profiles(tmp_path / "again.xz")[0][kernel]
    row = replace(predict_launch(again, kernel, 0), source="ptx")
    check(row)
    with pytest.raises(MissingInputError, match="lacks 'misses' for these residents"):
        predict_launch(again, kernel, 1)


@pytest.fixture
def own_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The predictions, where they can be changed."""
    path = tmp_path / "predictions.csv"
    shutil.copy(h200_profiles.PREDICTIONS, path)
    monkeypatch.setattr(h200_profiles, "PREDICTIONS", path)
    return path


def test_files_give_back_what_was_written(own_predictions: Path) -> None:
    rows = h200_profiles.kept_predictions()
    h200_profiles.write_predictions(rows, h200_profiles.fingerprint())
    assert h200_profiles.kept_predictions() == rows and h200_profiles.stale() == ""


def test_stale_predictions_are_seen(own_predictions: Path, tmp_path: Path) -> None:
    h200_profiles.write_predictions(h200_profiles.kept_predictions(), h200_profiles.fingerprint())
    text = own_predictions.read_text(encoding="utf-8")
    own_predictions.write_text(text.replace("# version: ", "# version: 0"), encoding="utf-8")
    assert "of version 0" in h200_profiles.stale()
    own_predictions.write_text(text.replace(",pipeline,", ",other,"), encoding="utf-8")
    assert "lacks pipeline" in h200_profiles.stale()
    own_predictions.unlink()
    assert "missing" in h200_profiles.stale()
    own_predictions.write_text(text, encoding="utf-8")
    assert h200_profiles.stale() == ""
    machine = tmp_path / "h200.toml"
    changed = h200.MACHINE_FILE.read_text(encoding="utf-8").replace("value = 132,", "value = 131,", 1)
    machine.write_text(changed, encoding="utf-8")
    assert h200_profiles.fingerprint(machine) != h200_profiles.fingerprint()


def test_words_of_the_machine_file_do_not_matter(tmp_path: Path) -> None:
    text = h200.MACHINE_FILE.read_text(encoding="utf-8")
    other = tmp_path / "h200.toml"
    other.write_text(f"# a remark\n{text}".replace('text = "', 'text = "as '), encoding="utf-8")
    assert h200_profiles.fingerprint(other) == h200_profiles.fingerprint()


def test_pages_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = h200.compare(kept_rows())
    assert {(source, "medium") for source in SOURCES} <= set(found)
    # One mechanism stands for all: each row takes seconds.
    few = {name: h200_own.MECHANISMS[name] for name in ("nothing", "the memory queue of the L1")}
    monkeypatch.setattr(h200_own, "MECHANISMS", few)
    parts = {name: cache(make) for name, make in sections(found).items()}
    committed = Path(__file__).parents[2] / "docs" / "validation" / "h200.md"
    text = committed.read_text(encoding="utf-8")
    rows = markdown(parts["mechanisms"]()[0]).splitlines()[-len(few) :]
    assert all(row in text for row in rows), "run warplens validate h200 --markdown docs/validation/h200.md"
    assert all(f"| {name} |" in text for name in MECHANISMS)
    others = text.replace("<!-- validate: h200 mechanisms -->", "")
    made = rewritten(others, committed, "h200", parts)
    assert made.pop(committed) == others, "run warplens validate h200 --markdown docs/validation/h200.md"
    assert all(path.read_text(encoding="utf-8") == file for path, file in made.items())
    page = tmp_path / "page.md"
    update_sections(page, "h200", parts)
    text = page.read_text(encoding="utf-8")
    assert all(f"| {kernel} |" in text for kernel in SUITE)
    assert "sampled stalls" in text
    fast = h200.compare(row for row in kept_rows() if row.kernel in FAST)
    assert {row[0].text for row in all_tables(fast)[0].rows} == set(FAST)


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h200_profiles, "stale", lambda: "")
    run = CliRunner().invoke(cli, ["validate", "h200", "--kernel", "hotspot|bfs", "-o", str(tmp_path), "--json"])
    assert run.exit_code == 0, run.output
    (document,) = json.loads(run.stdout)["datasets"]
    assert {row["kernel"] for row in document["rows"]} == {"hotspot", "bfs"}
    assert {row["source"] for row in document["rows"]} == set(SOURCES)
    assert {each["model"] for each in document["summary"]} == {*MODELS, BOUND}
    assert (tmp_path / "h200.csv").exists() and (tmp_path / "h200-scatter.png").exists()


def test_a_stale_file_is_said_and_computed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def predict_all(kernels, progress=None):
        asked.append(list(kernels))
        return [row for row in h200_profiles.kept_predictions() if row.kernel in kernels]

    monkeypatch.setattr(h200_profiles, "stale", lambda: "predictions.csv is of another h200.toml")
    monkeypatch.setattr(h200_profiles, "predict_all", predict_all)
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
    kept = {row.kernel: row for row in kept_rows() if not row.resident_blocks}
    assert kept["vector_add"].bank_cycles == 0
    trace = run_on_cpu("needleman_wunsch", "small", record=True).trace
    row = predict_launch(profile_launch(trace, "needleman_wunsch", "small"), "needleman_wunsch", 0)
    shared = np.array([name in ("load_shared", "store_shared") for name in CLASS_NAMES])[trace.static.class_id]
    accesses = sum(int(np.count_nonzero(shared[group.static])) for group in trace.groups())
    assert row.bank_cycles * 132 > 5 * accesses > 0


def test_unknown_kernel() -> None:
    run = CliRunner().invoke(cli, ["validate", "h200", "--kernel", "nothing_like_it"])
    assert isinstance(run.exception, UnknownNameError) and "no kernel matches" in str(run.exception)
