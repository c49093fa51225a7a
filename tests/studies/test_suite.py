"""Executions on the CPU against an H200 that ran the same PTX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warplens.errors import InputError
from warplens.machine import load_gpu
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.traces import MemoryTrace
from warplens.workload import analyse, workload_of_trace
from warplens_studies.validate import suite
from warplens_studies.validate.report import table_csv, update_sections
from warplens_studies.validate.suite import (
    SuiteRow,
    SuiteValidation,
    compare_with_h200,
    count_loads,
    fingerprint,
    hardware,
)
from warplens_studies.validate.suite_tables import DATASET, REMARKS, USUAL_RATIO, all_tables, sections

#: Kernels whose results may differ from the H200's, and by how many ulps: contraction by the driver's compiler
#: (where a ray that grazes a sphere magnifies it), approximate functions, tensor cores.
MOST_ULPS = {
    "stencil_3d": 2,
    "ray_tracing": 1000,
    "matmul_tensor": 16,
    "black_scholes": 8,
    "svm_naive": 6,
    "svm_constant": 6,
    "svm_optimised": 6,
    "cfd_flux": 2,
    "gaussian_fan2": 1,
    "lu_perimeter": 1,
    "instruction_mix_1": 1,
    "instruction_mix_4": 1,
    "instruction_mix_16": 1,
}
RESULTS = Path(__file__).parents[2] / "docs" / "validation" / "data" / "suite-results.csv"
#: Kernels that do not load the same sectors: threads race, or the compiler copies a load.
OTHER_SECTORS = {"bfs", "spmv_csr", "page_view_count"}
SAMPLE = (
    "hotspot",
    "stencil_3d",
    "matmul_tensor",
    "svm_optimised",
    "inverted_index",
    "gaussian_fan2",
    "strided_square_8",
)


def check(row: SuiteRow) -> None:
    assert row.matches_reference
    assert row.identical or (row.max_ulps is not None and row.max_ulps <= MOST_ULPS[row.kernel])
    assert row.identical_without_contraction or row.approximate_instructions
    if row.kernel not in OTHER_SECTORS:
        assert row.loads.requests == row.hardware.load_requests
        assert row.loads.sectors == row.hardware.load_sectors
    assert row.sector_ratio == pytest.approx(1, abs=0.1)
    assert 0.5 < row.instruction_ratio < 1.5


@pytest.mark.parametrize("name", SAMPLE)
def test_results_and_counts(name: str) -> None:
    check(compare_with_h200(SUITE[name], "small"))


@pytest.mark.slow
def test_all_results_and_counts() -> None:
    found = suite.validate_suite()
    assert [row.kernel for row in found.rows] == list(SUITE)
    low, high = USUAL_RATIO
    for row in found.rows:
        check(row)
        if not low <= row.instruction_ratio <= high or row.loads.sectors != row.hardware.load_sectors:
            assert row.kernel in REMARKS
    (table,) = sections(found)["results small"]()
    assert table_csv(table) == RESULTS.read_text(encoding="utf-8"), "docs/validation/suite.md has the command"


def test_a_change_of_results_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array that differs though it did not when the H200's were brought back; one that differs more."""

    def changed(name: str, by: float) -> SuiteRow:
        def off(*arguments, **options):
            run = run_on_cpu(*arguments, **options)
            arrays = [a for a in run.arguments if isinstance(a, np.ndarray) and a.dtype == np.float32]
            arrays[-1].reshape(-1)[5] += by
            return run

        monkeypatch.setattr(suite, "run_on_cpu", off)
        return compare_with_h200(SUITE[name], "small")

    row = changed("hotspot", 1.0)
    assert not row.identical and row.max_ulps is None and row.differing_elements is None
    assert not row.identical_without_contraction
    row = changed("stencil_3d", 1.0)
    assert row.max_ulps is not None and row.max_ulps > 1e6


def test_other_inputs_are_refused() -> None:
    kernel = SUITE["vector_add"]

    def other(size: str):
        launch = kernel.prepare(size)
        launch.arguments[0][0] += 1
        return launch

    with pytest.raises(InputError, match="inputs differ"):
        compare_with_h200(replace(kernel, prepare=other), "small")


def test_data() -> None:
    for size in ("small", "medium"):
        rows = hardware(size)
        assert list(rows) == list(SUITE)
        assert suite.provenance(size)["GPU"] == "NVIDIA H200"
        for row in rows.values():
            assert row.warp_instructions <= row.thread_instructions <= 32 * row.warp_instructions
            assert row.load_sectors >= row.load_requests * 0.1
    arrays = np.load(suite.FOLDER / "suite_small.npz")
    assert {name.split(".")[0] for name in arrays} == set(MOST_ULPS)


def test_fingerprints() -> None:
    ones = np.ones(4, np.float32)
    assert fingerprint((ones, np.int32(3))) == fingerprint((ones.copy(),))
    assert fingerprint((ones, ones)) != fingerprint((ones,))
    assert fingerprint((ones,)) != fingerprint((-ones,))


def test_dpki_is_that_of_predictions() -> None:
    """Loads counted here are those that the cache simulation counts."""
    run = run_on_cpu("convolution_resnet", record=True)
    loads = count_loads(run.trace)
    workload = workload_of_trace(run.trace)
    expected = analyse(workload, load_gpu("h200")).traced.divergent_loads_per_kilo_instruction
    assert 1000 * loads.divergent / run.execution.instructions == pytest.approx(expected)
    assert loads.scattered < loads.divergent < loads.requests < loads.lines < loads.sectors


def test_no_loads() -> None:
    run = run_on_cpu("vector_add", record=True)
    empty = MemoryTrace(run.trace.header, run.trace.static, ())
    assert count_loads(empty) == suite.Loads(0, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def few() -> SuiteValidation:
    heard: list[str] = []
    found = suite.validate_suite(kernels=["vector_add", "spmv_csr", "bandwidth"], progress=heard.append)
    assert heard == ["vector_add", "spmv_csr", "bandwidth"]
    return found


def test_tables(few: SuiteValidation) -> None:
    summary, results, differences, remarks, classes, dpki, provenance = all_tables(few)
    assert [cell.text for cell in results.rows[0][:2]] == ["vector_add", "="]
    assert [cell.level for cell in results.rows[2]][4] == 1  # bandwidth: 0.58
    assert differences.rows == ()
    assert [row[0].text for row in remarks.rows] == ["spmv_csr", "bandwidth"]
    assert [cell.text for cell in classes.rows[-1]] == ["sum", "2", "1", "1", "2", "3"]
    assert [cell.text for cell in dpki.rows[1][-3:]] == ["MD", "MD", "MD"]
    assert summary.rows[0][1].text == "3"
    assert provenance.rows[0][1].text == "NVIDIA H200"


def test_pages(few: SuiteValidation, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    update_sections(page, DATASET, sections(few), lambda name: name.endswith(few.size))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Validation: suite") and "| vector_add | = |" in text
    update_sections(page, DATASET, sections(few), lambda name: name.endswith(few.size))
    assert page.read_text(encoding="utf-8") == text
