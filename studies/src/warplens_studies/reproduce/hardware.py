"""Real GPUs, with an H200 in place of the papers': MDM Fig. 10, Lemeire Figs. 17 and 18 and Table 8."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.models.papers import LEMEIRE, MDM
from warplens.reports.style import LINE_COLOURS

from ..validate.h200 import H200Validation
from ..validate.h200_profiles import kept_comparison
from ..validate.metrics import ipc_error
from .base import FROM_H200, Claim, Findings, Row, Table, recipe
from .drawing import grouped_bars

SUITE_NOTE = "kernels of our suite, medium size, above 20 µs; predicted from SASS traced on it, with its machine file"

#: Three GPUs of the paper in grey, ours in colour.
_COLOURS = ("#cfcfcf", "#a9a9a9", "#808080", LINE_COLOURS[0])

# -- MDM Figure 10 -------------------------------------------------------------------------

#: Mean errors that §VI states: instrumentation, and functional simulation at the level of PTX.
FIGURE10_STATED = {"gpumech": (164.0, 260.0), "mdm": (40.0, None)}


@recipe(
    "mdm-fig10",
    MDM,
    "Figure 10: hardware validation",
    "IPC error of GPUMech and MDM on every kernel of the suite against a measured H200; the paper states means",
    data=FROM_H200,
)
def mdm_figure10() -> Findings:
    found = kept_comparison()
    models = {"GPUMech": "gpumech", "MDM": "mdm"}
    errors = {title: _ipc_errors(found, model) for title, model in models.items()}
    order = np.argsort(errors["MDM"])
    kernels = [found.long_kernels[index] for index in order]
    sorted_errors = {title: [values[index] for index in order] for title, values in errors.items()}
    means = {title: float(np.mean(np.abs(values))) for title, values in errors.items()}
    executed = kept_comparison("ptx")
    from_ptx = {title: float(np.mean(np.abs(_ipc_errors(executed, model)))) for title, model in models.items()}

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(9.6, 3.8))
        grouped_bars(axis, kernels, sorted_errors, colours=(LINE_COLOURS[3], LINE_COLOURS[0]))
        axis.set_xticks(range(len(kernels)), kernels, rotation=60, ha="right", fontsize=7)
        axis.axhline(0, color="black", linewidth=0.8)
        axis.set_ylabel("IPC error, %")
        axis.legend()
        return figure

    return Findings(
        columns=("kernel", *(f"{title} [%]" for title in models)),
        rows=tuple((kernel, *(values[i] for values in sorted_errors.values())) for i, kernel in enumerate(kernels)),
        draw=draw,
        claims=(
            Claim(
                "MDM is nearer to real hardware than GPUMech on average, 40 against 164 % (§VI)",
                means["MDM"] < means["GPUMech"],
                f"mean |IPC error| {means['MDM']:.0f} and {means['GPUMech']:.0f} %",
            ),
            Claim(
                "MDM is accurate compared to real hardware, 40 % on average (§VI)",
                means["MDM"] <= 40,
                f"{means['MDM']:.0f} % on average",
            ),
            Claim(
                "native instructions improve GPUMech's accuracy over PTX, from 260 to 164 % (§VI)",
                means["GPUMech"] < from_ptx["GPUMech"],
                f"from {from_ptx['GPUMech']:.0f} % by PTX to {means['GPUMech']:.0f} % by SASS",
            ),
        ),
        assumptions=(SUITE_NOTE,),
        remarks=("errors are IPC errors (M-11); SASS stands for the paper's instrumentation",),
        summary=Table(
            ("mean |IPC error|, %", "paper, instrumentation", "paper, PTX", "ours, SASS, H200", "ours, PTX"),
            tuple((title, *FIGURE10_STATED[model], means[title], from_ptx[title]) for title, model in models.items()),
        ),
    )


def _ipc_errors(found: H200Validation, model: str) -> list[float]:
    """IPC errors in percent, of the kernels above 20 µs."""
    return [
        100.0 * ipc_error(found.predicted[kernel, 0].cycles[model], found.measured[kernel, 0].elapsed_cycles)
        for kernel in found.long_kernels
    ]


# -- Lemeire, Figures 17 and 18 ------------------------------------------------------------

FIGURE17_MODELS = ("pipeline", "volkov", "mwp-cwp-corrected", "wfg-corrected")
FIGURE17_KERNELS = ("srad_step1", "hotspot", "cfd_flux", "kmeans_assign")


@recipe(
    "lemeire-fig17",
    LEMEIRE,
    "Figures 17 and 18: performance over occupancy, measured and modelled",
    "normalised performance of four kernels on an H200 over resident warps, measured and by four models",
    data=FROM_H200,
)
def lemeire_figure17() -> Findings:
    found = kept_comparison()
    rows: list[Row] = []
    curves: dict[str, dict[str, list[float]]] = {}
    warps: dict[str, list[float]] = {}
    above: list[str] = []
    for kernel in FIGURE17_KERNELS:
        levels = found.levels(kernel)
        warps[kernel] = [found.predicted[kernel, level].warps_per_sm for level in levels]
        base = found.measured[kernel, levels[0]].elapsed_cycles
        curves[kernel] = {"measured": [100 * base / found.measured[kernel, level].elapsed_cycles for level in levels]}
        for model in FIGURE17_MODELS:
            cycles = [found.predicted[kernel, level].cycles[model] for level in levels]
            curves[kernel][model] = [100 * base / each for each in cycles]
        if np.all(np.greater(curves[kernel]["volkov"], curves[kernel]["measured"])):
            above.append(kernel)
        rows += [
            (kernel, warps[kernel][index], *(values[index] for values in curves[kernel].values()))
            for index in range(len(levels))
        ]

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(2, 2, figsize=(9.0, 5.4))
        for axis, kernel in zip(axes.flat, FIGURE17_KERNELS, strict=True):
            for (name, values), colour in zip(curves[kernel].items(), ("black", *LINE_COLOURS), strict=False):
                axis.plot(warps[kernel], values, marker="o", markersize=3, label=name, color=colour)
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.set_title(kernel, loc="left", fontsize=9)
        for axis in axes[1]:
            axis.set_xlabel("resident warps of an SM")
        for axis in axes[:, 0]:
            axis.set_ylabel("performance")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)
        return figure

    return Findings(
        columns=("kernel", "warps", "measured", *FIGURE17_MODELS),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "Volkov's model gives an upper bound (§6.3)",
                len(above) == len(FIGURE17_KERNELS),
                f"above the measured curve everywhere for {len(above)} of 4: {', '.join(above)}",
            ),
        ),
        assumptions=(
            SUITE_NOTE,
            "performance is normalised to the measured one with the fewest warps, which is 100, as in the paper",
        ),
        remarks=("the paper's curves, on a Quadro K620 and a GTX 1060, are in no text",),
    )


# -- Lemeire, Table 8 ----------------------------------------------------------------------

#: Kernels of each experiment here, and the printed errors on Fermi, Kepler and Pascal.
TABLE8 = {
    "instruction mix": (("instruction_mix_1", "instruction_mix_4", "instruction_mix_16"), (6.7, 7.1, 20.5)),
    "barrier kernel": (("iterative_barrier",), (3.8, 3.9, 5.1)),
}


@recipe(
    "lemeire-table8",
    LEMEIRE,
    "Table 8: accuracy of the Pipeline model on micro-benchmarks",
    "error of the Pipeline model on four micro-kernels on an H200, beside the printed errors on three GPUs",
    data=FROM_H200,
)
def lemeire_table8() -> Findings:
    found = kept_comparison()
    rows: list[Row] = []
    summary: list[Row] = []
    for experiment, (kernels, printed) in TABLE8.items():
        errors = []
        for kernel in kernels:
            measured = found.measured[kernel, 0].elapsed_cycles
            errors.append(100.0 * abs(measured / found.predicted[kernel, 0].cycles["pipeline"] - 1))
            rows.append((experiment, kernel, errors[-1]))
        summary.append((experiment, *printed, float(np.mean(errors))))
    columns = ("mean |error| of performance, %", "Fermi", "Kepler", "Pascal", "ours, H200")
    worst = max(float(row[-1] or 0) for row in summary)

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(6.4, 2.8))
        series = {name: [float(row[i + 1] or 0) for row in summary] for i, name in enumerate(columns[1:])}
        grouped_bars(axis, list(TABLE8), series, colours=_COLOURS, label="%.1f")
        axis.set_ylabel("mean |error|, %")
        axis.legend(fontsize=8)
        return figure

    return Findings(
        columns=("experiment", "kernel", "|error| of performance [%]"),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "the Pipeline model is quite accurate (§6.2)",
                worst < 20.5,
                f"at most {worst:.0f} % (counted: below the largest printed error)",
            ),
        ),
        assumptions=("one launch of each kernel, as many warps as fit; the paper varies the occupancy",),
        remarks=("kernels of the suite; of the instruction mix β = 1, 4 and 16 in place of 4",),
        summary=Table(columns, tuple(summary)),
    )
