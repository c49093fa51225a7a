"""Tables of benchmarks: those of the papers, and the kernels of our suite that stand for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from warplens.models.papers import LEMEIRE, MDM, MDM_CAL
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu

from ..validate.h200_profiles import kept_comparison
from ..validate.harness import DIVERGENT_DPKI
from ..validate.suite import Loads, count_loads
from .base import FROM_H200, FROM_SUITE, Claim, Findings, Row, Table, recipe
from .drawing import AGREES, DIFFERS, table_picture

SIZE = "small"
#: Benchmarks of MDM's Table IV: type there, kernels that stand for it here.
TABLE_IV = {
    "HS Hotspot": ("NMD", ("hotspot",)),
    "BT B+trees": ("NMD", ("btree_search",)),
    "BP Back Propagation": ("NMD", ("backprop_forward", "backprop_adjust")),
    "FDTD FDTD3d": ("NMD", ("fdtd3d",)),
    "SRAD Srad": ("NMD", ("srad_step1", "srad_step2")),
    "RAY Ray tracing": ("NMD", ("ray_tracing",)),
    "2DCONV 2D Convolution": ("NMD", ("convolution_2d",)),
    "ST Stencil": ("NMD", ("stencil_3d",)),
    "CFD CFD solver": ("MD", ("cfd_flux",)),
    "BFS Breadth-first search": ("MD", ("bfs",)),
    "PVR PageView Rank": ("MD", ()),
    "PVC PageView Count": ("MD", ("page_view_count",)),
    "IIX Inverted Index": ("MD", ("inverted_index",)),
    "SPMV Sparse matrix mult.": ("MD", ("spmv_csr",)),
    "KMEANS Kmeans clustering": ("MD", ("kmeans_invert_mapping",)),
    "AN AlexNet": ("MD", ("convolution_alexnet",)),
    "RN ResNet": ("MD", ("convolution_resnet",)),
}
#: Table I: suite, divergent and other applications.
TABLE_I = {
    "Rodinia": (4, 12),
    "Tango": (2, 6),
    "LonestarGPU": (4, 2),
    "Polybench": (4, 8),
    "Mars": (6, 0),
    "Parboil": (1, 7),
}
WIDE = (
    "a load counts where it touches more than one line of 128 B, as written and as in Figs. 5 to 9; coalesced "
    "accesses of 16 bytes per thread, and unaligned ones, do so too, but never touch more than four"
)


@cache
def _loads(kernel: str) -> tuple[Loads, int]:
    run = run_on_cpu(SUITE[kernel], SIZE, record=True)
    return count_loads(run.trace), int(run.execution.instructions)


def _dpki(kernels: Sequence[str]) -> tuple[float, float]:
    """Loads per thousand instructions that touch more than four lines, and more than one."""
    found = [_loads(kernel) for kernel in kernels]
    instructions = sum(count for _, count in found) / 1000.0
    return (
        sum(loads.scattered for loads, _ in found) / instructions,
        sum(loads.divergent for loads, _ in found) / instructions,
    )


def _kind(dpki: float) -> str:
    return "MD" if dpki > DIVERGENT_DPKI else "NMD"


def _benchmarks(printed: Mapping[str, tuple[str, tuple[str, ...]]]) -> Findings:
    rows: list[Row] = []
    for label, (kind, kernels) in printed.items():
        if kernels:
            wide, plain = _dpki(kernels)
            rows.append((label, kind, ", ".join(kernels), wide, plain, _kind(plain)))
        else:
            rows.append((label, kind, "none", None, None, None))
    columns = ("benchmark", "paper", "ours", "DPKI, > 4 lines", "DPKI, > 1 line", "type of ours")
    shared = [row for row in rows if row[5] is not None]
    alike = [row for row in shared if row[1] == row[5]]
    other = [f"{row[2]} ({float(row[4] or 0):.1f})" for row in shared if row not in alike]
    wide_alike = [row for row in shared if row[1] == _kind(float(row[3] or 0))]

    def draw(plt: Any) -> Any:
        cells = [[_text(cell) for cell in row] for row in rows]
        fills = {(i, 5): AGREES if row[1] == row[5] else DIFFERS for i, row in enumerate(rows) if row[5]}
        return table_picture(plt, columns, cells, widths=(2.1, 0.6, 3.0, 1.3, 1.3, 1.1), fills=fills)

    return Findings(
        columns=columns,
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "our kernels are divergent where the paper's benchmarks are",
                len(alike) == len(shared),
                f"{len(alike)} of {len(shared)}"
                + (f"; not so: {', '.join(other)}" if other else "")
                + f"; {len(wide_alike)} if a load counts from five lines on",
            ),
        ),
        assumptions=(WIDE, f"inputs of the size {SIZE!r}; our kernels are written after the benchmarks, not copied"),
        remarks=(
            "PageView Rank has no kernel here: it sorts what PageView Count has counted",
            "at the size 'medium', convolution_resnet's loads touch four lines at most, and it is not divergent",
        ),
    )


def _text(cell: Any) -> str:
    if cell is None:
        return "–"
    return cell if isinstance(cell, str) else f"{cell:.1f}"


@recipe(
    "mdm-table1",
    MDM,
    "Table I: memory-divergent applications across suites",
    "how many kernels of our suite are divergent, against the paper's count of applications",
    data=FROM_SUITE,
)
def mdm_table1() -> Findings:
    named = {suite: [k for k in SUITE if suite in SUITE[k].stands_for] for suite in TABLE_I}
    rows: list[Row] = []
    for suite, (divergent, others) in TABLE_I.items():
        kinds = [_kind(_dpki([kernel])[1]) for kernel in named[suite]]
        rows.append((suite, divergent, others, kinds.count("MD"), kinds.count("NMD"), len(kinds)))
    totals = [sum(int(row[column] or 0) for row in rows) for column in range(1, 6)]
    rows.append(("sum", *totals))
    columns = ("suite", "paper: MD", "paper: NMD", "ours: MD", "ours: NMD", "our kernels after it")

    def draw(plt: Any) -> Any:
        cells = [[str(cell) for cell in row] for row in rows]
        return table_picture(plt, columns, cells, widths=(1.3, 0.9, 1.0, 0.9, 1.0, 1.7))

    share, ours = totals[0] / (totals[0] + totals[1]), totals[2] / totals[4]
    return Findings(
        columns=columns,
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "divergent applications are common (38 %, §I)",
                ours > 0.2,
                f"{totals[2]} of our {totals[4]} kernels after these suites, {100 * ours:.0f} %; the paper has "
                f"{100 * share:.0f} % (counted as common: a fifth)",
            ),
        ),
        assumptions=(WIDE, f"kernels, not whole applications; inputs of the size {SIZE!r}"),
        remarks=("our suite has kernels that the models should be tried on: no sample of what people run",),
        summary=Table(columns, tuple(rows)),
    )


@recipe(
    "mdm-table4",
    MDM,
    "Table IV: benchmarks",
    "our kernel for each benchmark, and whether it is divergent as the paper's is",
    data=FROM_SUITE,
)
def mdm_table4() -> Findings:
    return _benchmarks(TABLE_IV)


@recipe(
    "mdm-cal-table2",
    MDM_CAL,
    "Table 2: benchmarks",
    "our kernel for each benchmark, and whether it is divergent as the paper's is",
    data=FROM_SUITE,
)
def mdm_cal_table2() -> Findings:
    return _benchmarks({label: row for label, row in TABLE_IV.items() if label[:2] not in ("AN", "RN")})


#: Table 9 of Lemeire et al.: kernel, occupancies in warps, ours.
TABLE9 = {
    "Fan2": ("2 - 64", "gaussian_fan2"),
    "nw_kernel1": ("1 - 32", "needleman_wunsch"),
    "kmeans_kernel_c": ("8 - 64", "kmeans_assign"),
    "kmeans_swap": ("2 - 64", "kmeans_invert_mapping"),
    "lud_perimeter": ("1 - 32", "lu_perimeter"),
    "lud_internal": ("8 - 64", "lu_internal"),
    "hotspot": ("8 - 64", "hotspot"),
    "opt_srad1": ("8 - 64", "srad_step1"),
    "opt_srad2": ("8 - 64", "srad_step2"),
    "bpnn_layerforward_ocl": ("8 - 64", "backprop_forward"),
    "bpnn_adjust_weights_ocl": ("8 - 64", "backprop_adjust"),
    "compute_step_factor": ("6 - 60", ""),
    "time_step": ("6 - 60", ""),
    "compute_flux": ("6 - 60", "cfd_flux"),
}


@recipe(
    "lemeire-table9",
    LEMEIRE,
    "Table 9: kernels and occupancies of the experiments",
    "our kernel for each of Rodinia's, and the occupancies at which it was measured",
    data=FROM_H200,
)
def lemeire_table9() -> Findings:
    found = kept_comparison()
    rows: list[Row] = []
    for kernel, (printed, ours) in TABLE9.items():
        levels = found.levels(ours) if ours in found.swept else []
        warps = [found.predicted[ours, blocks].warps_per_sm for blocks in levels]
        measured = f"{min(warps):g} - {max(warps):g}" if warps else ("full only" if ours else None)
        rows.append((kernel, printed, ours or "none", measured))
    more = [kernel for kernel in found.swept if kernel not in {ours for _, ours in TABLE9.values()}]
    for kernel in more:
        warps = [found.predicted[kernel, blocks].warps_per_sm for blocks in found.levels(kernel)]
        rows.append((None, None, kernel, f"{min(warps):g} - {max(warps):g}"))
    columns = ("kernel", "occupancy, paper [warps]", "ours", "occupancy, ours [warps]")
    both = sum(row[0] is not None and row[2] != "none" for row in rows)

    def draw(plt: Any) -> Any:
        return table_picture(
            plt, columns, [[_text(cell) for cell in row] for row in rows], widths=(2.2, 1.9, 2.2, 1.9)
        )

    return Findings(
        columns=columns,
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "there is a kernel of ours for each of the 14",
                both == len(TABLE9),
                f"for {both}; CFD's step factor and time step, which stream, have none",
            ),
        ),
        remarks=("full only: measured on the H200 with as many thread blocks as fit, not over occupancies",),
    )
