"""The tables of the suite's comparison with an H200, for a terminal and for pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from warplens.suite.catalog import SIZES, SUITE

from .report import Sections
from .suite import DIVERGENT_DPKI, FOLDER, SuiteRow, SuiteValidation, provenance, validate_suite
from .tables import Cell, Table

DATASET = "suite"
#: PTX instructions per machine instruction outside of which a kernel needs a remark.
USUAL_RATIO = (0.7, 1.4)

#: Why a kernel's instructions or loads differ, from inspecting its machine code.
REMARKS = {
    "srad_step1": "four divisions and a reciprocal with correct rounding: one PTX instruction each, eight or more in "
    "SASS",
    "linear_filter": "SASS loads bytes zero-extended and adds three numbers at once: no `cvt`, half the `add`",
    "cfd_flux": "23 square roots and reciprocals with correct rounding: one PTX instruction each, eight or more in "
    "SASS",
    "bfs": "additions of 64-bit addresses are two in SASS, and short divergent loops get moves and reconvergence "
    "(`BSSY`, `BSYNC`); blocks race, so some loads see other flags",
    "bandwidth": "indices of 64 bits: an `add` or `setp` on them is two instructions in SASS, and a division some "
    "twenty",
    "spmv_csr": "ptxas unrolls the loop further, to 16, with remainders: lanes with rows of different lengths run in "
    "different copies of the load, and each copy is a request",
    "page_view_count": "as spmv_csr, with the loop over the bytes of a record; besides, threads race for the slots "
    "of the hash table",
}
_GROUPS = {"divergent": "MD", "non-divergent": "NMD", "micro": "–"}


def _count(value: int) -> str:
    return f"{value:,}".replace(",", "\N{THIN SPACE}")


def _agreement(identical: bool | None, ulps: float | None) -> Cell:
    if identical is None:
        return Cell("–")
    if identical:
        return Cell("=")
    if ulps is None:
        return Cell("≠", 1)
    return Cell(f"{ulps:.{0 if ulps >= 10 else 1}f}".removesuffix(".0") + f" ulp{'s' * (ulps != 1)}", 1)


def _ratio(row: SuiteRow) -> Cell:
    low, high = USUAL_RATIO
    return Cell(f"{row.instruction_ratio:.2f}", int(not low <= row.instruction_ratio <= high))


def _sectors_differ(row: SuiteRow) -> bool:
    return row.loads.sectors != row.hardware.load_sectors


def result_table(found: SuiteValidation) -> Table:
    """Every kernel: results, instructions and global loads, ours and the H200's."""
    rows = []
    for row in found.rows:
        theirs = row.hardware
        rows.append(
            (
                Cell(row.kernel),
                _agreement(row.identical, row.max_ulps),
                Cell(_count(row.warp_instructions)),
                Cell(_count(theirs.warp_instructions)),
                _ratio(row),
                Cell(_count(row.loads.requests), int(row.loads.requests != theirs.load_requests)),
                Cell(_count(theirs.load_requests)),
                Cell(_count(row.loads.sectors), int(_sectors_differ(row))),
                Cell(_count(theirs.load_sectors)),
            )
        )
    columns = (
        "kernel",
        "CPU and H200",
        "PTX",
        "SASS",
        "PTX / SASS",
        "loads, CPU",
        "loads, H200",
        "sectors, CPU",
        "sectors, H200",
    )
    return Table(f"the suite at size {found.size}: this CPU and an H200", columns, tuple(rows), labels=2)


def difference_table(found: SuiteValidation) -> Table:
    """Kernels whose results differ from the H200's in any bit, and why."""
    rows = []
    for row in found.rows:
        if row.identical:
            continue
        plain = row.identical_without_contraction
        why = ", ".join(f"`{name}`" for name in row.approximate_instructions)
        share = "–" if row.differing_elements is None else f"{100 * row.differing_elements / row.elements:.2g} %"
        rows.append(
            (
                Cell(row.kernel),
                Cell("contraction" if plain else why or "contraction, most likely"),
                Cell(share),
                _agreement(False, row.max_ulps),
                Cell("–" if plain is None else "=" if plain else "≠"),
            )
        )
    columns = ("kernel", "because of", "elements that differ", "at most", "with `-fmad=false`")
    return Table(f"results that differ, size {found.size}", columns, tuple(rows), labels=2)


def remark_table(found: SuiteValidation) -> Table:
    """Kernels whose instruction ratio is unusual or whose loads differ, and why."""
    rows = []
    for row in found.rows:
        unusual = not USUAL_RATIO[0] <= row.instruction_ratio <= USUAL_RATIO[1]
        if unusual or _sectors_differ(row):
            rows.append(
                (
                    Cell(row.kernel),
                    Cell(REMARKS.get(row.kernel, "not looked into")),
                    _ratio(row),
                    Cell(f"{row.sector_ratio:.4f}", int(_sectors_differ(row))),
                )
            )
    columns = ("kernel", "why", "PTX / SASS", "sectors, CPU / H200")
    return Table(f"what is off, size {found.size}", columns, tuple(rows), labels=2)


def summary_table(found: SuiteValidation) -> Table:
    """How many kernels agree."""
    rows = found.rows
    low, high = USUAL_RATIO
    plain = [row for row in rows if row.identical_without_contraction is not None]
    facts: list[tuple[str, Sequence[SuiteRow], Callable[[SuiteRow], bool]]] = [
        ("NumPy's result on the CPU, within the kernel's tolerance", rows, lambda row: row.matches_reference),
        ("the H200's result bit for bit", rows, lambda row: row.identical),
        ("… both compiled with `-fmad=false`", plain, lambda row: bool(row.identical_without_contraction)),
        (
            "… of those, kernels without approximate instructions",
            [row for row in plain if not row.approximate_instructions],
            lambda row: bool(row.identical_without_contraction),
        ),
        ("the H200's global-load sectors exactly", rows, lambda row: not _sectors_differ(row)),
        ("PTX / SASS warp instructions within 0.7 … 1.4", rows, lambda row: low <= row.instruction_ratio <= high),
    ]
    return Table(
        f"kernels that agree, size {found.size}",
        ("kernels with", "number", "of"),
        tuple(
            (Cell(text), Cell(str(sum(map(holds, among)))), Cell(str(len(among))))
            for text, among, holds in facts
            if among
        ),
    )


def _class(dpki: float) -> str:
    return "MD" if dpki > DIVERGENT_DPKI else "NMD"


def divergence_table(found: SuiteValidation) -> Table:
    """Every kernel: what it stands for, its DPKI, and its class by DPKI and in the papers."""
    rows = []
    for row in found.rows:
        kernel = SUITE[row.kernel]
        theirs = _GROUPS[kernel.group]
        classes = [_class(row.dpki), _class(row.scattered_dpki)]
        rows.append(
            (
                Cell(row.kernel),
                Cell(kernel.stands_for),
                Cell(f"{row.lines_per_load:.1f}"),
                Cell(f"{row.dpki:.1f}"),
                Cell(f"{row.scattered_dpki:.1f}"),
                *(Cell(ours, int(theirs not in (ours, "–"))) for ours in classes),
                Cell(theirs),
            )
        )
    columns = (
        "kernel",
        "stands for",
        "lines per load",
        "DPKI",
        "DPKI, > 4 lines",
        "class",
        "class, > 4 lines",
        "papers",
    )
    return Table(f"divergent loads per thousand instructions, size {found.size}", columns, tuple(rows), labels=2)


def class_table(found: SuiteValidation) -> Table:
    """Numbers of divergent and other kernels, as Table I of mdm-micro2020 has them for benchmark suites."""
    groups = {"MD in the papers": "divergent", "NMD in the papers": "non-divergent", "micro kernels": "micro"}
    rows = []
    for title, group in {**groups, "sum": None}.items():
        among = [row for row in found.rows if group in (None, SUITE[row.kernel].group)]
        divergent = sum(_class(row.dpki) == "MD" for row in among)
        scattered = sum(_class(row.scattered_dpki) == "MD" for row in among)
        counts = (divergent, len(among) - divergent, scattered, len(among) - scattered, len(among))
        rows.append((Cell(title), *(Cell(str(count)) for count in counts)))
    columns = ("kernels", "MD", "NMD", "MD, > 4 lines", "NMD, > 4 lines", "sum")
    return Table(f"classes, size {found.size}", columns, tuple(rows))


def provenance_table(found: SuiteValidation) -> Table:
    """Where the H200's numbers come from."""
    rows = tuple((Cell(key), Cell(value)) for key, value in provenance(found.size).items())
    return Table(f"measured, size {found.size}", ("measured", "with"), rows, labels=2)


_MAKERS = {
    "summary": summary_table,
    "results": result_table,
    "differences": difference_table,
    "remarks": remark_table,
    "classes": class_table,
    "dpki": divergence_table,
    "provenance": provenance_table,
}


def all_tables(found: SuiteValidation) -> list[Table]:
    return [make(found) for make in _MAKERS.values()]


def sections(found: SuiteValidation, progress: Callable[[str], None] | None = None) -> Sections:
    """The sections that a page can hold: `results small` and so on. Sizes missing in `found` run on demand."""

    @cache
    def of_size(size: str) -> SuiteValidation:
        return found if size == found.size else validate_suite(size, progress=progress)

    def one(make: Callable[[SuiteValidation], Table], size: str) -> list[Table]:
        return [make(of_size(size))]

    sizes = [size for size in SIZES if (FOLDER / f"suite_{size}.csv").exists()]
    return {f"{name} {size}": partial(one, make, size) for size in sizes for name, make in _MAKERS.items()}
