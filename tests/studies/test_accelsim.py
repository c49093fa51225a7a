"""The whole Accel-Sim data: errors and miss ratios that are known, and the committed pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens_studies.validate import Validation, accelsim, validate_accelsim
from warplens_studies.validate.figures import draw_all
from warplens_studies.validate.harness import ORDERS, model_names
from warplens_studies.validate.report import outdated, sections

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    *("validation/accelsim.md", "validation/explained.md"),
    *("decisions/0008-interleaving-order.md", "simulators/detailed.md"),
)

#: Differences of miss ratios (L1, LLC) at base with the default order, where 0.01 is exceeded.
AT_BASE = {
    # Tips over with the order of accesses: how much of its reuse L1 catches follows the depth of the memory queue.
    "listing1_gs32": (0.13, 0.03),
    # Its stores find lines that the reference's L1 has lost; docs/validation/accelsim.md shows the conflicts.
    "saxpy": (0.10, 0.01),
    # Neighbouring warps share lines, so their order counts.
    "stencil": (0.03, 0.02),
    # Some warps find their lines of an earlier pass in L1: our order keeps collectors longer.
    "strided32_l2": (0.05, 0.01),
}
#: The same on all configurations, where 0.035 is exceeded.
ANYWHERE = {
    # Shares the LLC worse with lrr.
    "listing1_gs32": (0.13, 0.26),
    "saxpy": (0.125, 0.01),
    "stencil": (0.045, 0.02),
    "strided32_l2": (0.05, 0.01),
}


@pytest.fixture(scope="module")
def whole() -> Validation:
    return validate_accelsim()


def mean(validation: Validation, model: str, order: str) -> float:
    found = validation.mean_error(model, order=order)
    assert found is not None
    return found


def test_expected_errors_at_base(whole: Validation) -> None:
    assert mean(whole, "gpumech", "progress") > 1.0
    for order in ORDERS:
        assert mean(whole, "gpumech[mshr-capped]", order) > 1.0
        assert mean(whole, "mdm", order) < 0.35


def test_one_kernel_keeps_gpumech_below_100_percent_with_round_robin(whole: Validation) -> None:
    assert mean(whole, "gpumech", "round-robin") < 1.0
    with_round_robin = whole.errors("round-robin", "base")["listing1_gs32", "gpumech"]
    by_progress = whole.errors("progress", "base")["listing1_gs32", "gpumech"]
    exchanged = mean(whole, "gpumech", "round-robin") + (abs(by_progress) - abs(with_round_robin)) / 16
    assert with_round_robin < 0 < by_progress
    assert exchanged > 1.0


def test_all_runs_of_the_data_are_covered(whole: Validation) -> None:
    assert not whole.skipped
    keys = {(row.order, row.configuration, row.kernel, row.model) for row in whole.rows}
    assert len(keys) == len(whole.rows) == len(ORDERS) * 11 * 16 * len(model_names())
    for (configuration, kernel), measured in accelsim.measurements().items():
        assert all((order, configuration, kernel, "mdm") in keys for order in ORDERS)
        (row,) = [
            row
            for row in whole.misses
            if (row.order, row.configuration, row.kernel) == ("progress", configuration, kernel)
        ]
        assert row.l1_reference == measured.l1_miss_ratio and row.llc_reference == measured.llc_miss_ratio


def test_miss_ratios_with_the_default_order(whole: Validation) -> None:
    for row in whole.misses:
        if row.order != "progress":
            continue
        usual, exceptions = (0.01, AT_BASE) if row.configuration == "base" else (0.035, ANYWHERE)
        l1, llc = exceptions.get(row.kernel, (usual, usual))
        where = f"{row.kernel} at {row.configuration}"
        assert row.l1 == pytest.approx(row.l1_reference, abs=l1), where
        assert row.llc == pytest.approx(row.llc_reference, abs=llc), where


def test_ten_kernels_sit_on_a_bandwidth_bound(whole: Validation) -> None:
    bound = {each.kernel: each.largest for each in whole.bounds if each.share > 0.9}
    assert sorted(kernel for kernel, part in bound.items() if part in ("DRAM", "NoC")) == [
        "chase_divergent",
        "copy",
        "gather_dram",
        "gather_l2",
        "graph",
        "listing1_gs32",
        "saxpy",
        "scatter",
        "strided32",
        "strided8",
    ]
    # A bound is one: the reference is not faster (listing1's comes from our own miss ratio).
    assert all(each.share < 1 for each in whole.bounds if each.kernel != "listing1_gs32")


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_what_the_command_writes(whole: Validation, page: str) -> None:
    stale = outdated(DOCS / page, whole.dataset, sections(whole))
    assert not stale, "out of date; docs/validation/accelsim.md has the command"


def test_all_figures_are_drawn(whole: Validation, tmp_path: Path) -> None:
    drawn, left_out = draw_all(whole, tmp_path)
    names = {path.name for path in drawn}
    assert not left_out
    assert names == {*(f"mdm-fig{n}.png" for n in range(5, 10)), "miss-ratios.png"}
    assert all(path.stat().st_size > 20_000 for path in drawn)
