"""Static counts of the suite against execution."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.errors import InputError
from warplens.suite.catalog import SUITE
from warplens_studies.validate.report import outdated, update_sections
from warplens_studies.validate.static_counts import DATASET, KINDS, StaticRow, compare_kernel, compare_suite, sections
from warplens_studies.validate.static_given import GIVEN, REASONS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("kernel", ["hotspot", "reduction", "matmul_tiled", "lu_perimeter", "strided_square_8"])
def test_kernels_that_the_launch_decides_are_equal(kernel: str) -> None:
    row = compare_kernel(kernel)
    for kind in (*KINDS, "total", "lines"):
        assert (row.error(kind) or 0.0) == pytest.approx(0.0, abs=1e-9)


def test_tables_name_kernels_of_the_suite() -> None:
    assert set(GIVEN) <= set(SUITE) and set(REASONS) <= set(SUITE)


def test_a_page_gets_its_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- validate: static kernels -->\nold\n<!-- /validate -->\nb\n")
    update_sections(page, DATASET, sections([compare_kernel("vector_add")]))
    text = page.read_text()
    assert "| vector_add |" in text and "old" not in text and text.endswith("b\n")
    page.write_text("nothing\n")
    with pytest.raises(InputError, match="no place"):
        update_sections(page, DATASET, sections([]))


@pytest.fixture(scope="module")
def every() -> list[StaticRow]:
    return compare_suite()


@pytest.mark.slow
def test_the_page_is_what_the_command_writes(every: list[StaticRow]) -> None:
    assert not outdated(DOCS / "validation" / "static.md", DATASET, sections(every))


@pytest.mark.slow
def test_kernels_that_are_off_have_a_reason(every: list[StaticRow]) -> None:
    for row in every:
        errors = [abs(error) for kind in (*KINDS, "lines") if (error := row.error(kind)) is not None]
        assert max(errors) < 0.005 or row.reason, row.kernel
