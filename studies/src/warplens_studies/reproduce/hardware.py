"""Real GPUs, with an H200 in place of the papers': MDM Fig. 10, Lemeire Figs. 17, 18 and Tables 10 to 12."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from warplens.api import predict
from warplens.models import get_model
from warplens.models.papers import LEMEIRE, MDM
from warplens.reports.style import LINE_COLOURS

from ..validate.h200 import H200Validation
from ..validate.h200_profiles import kept_comparison, placed_launch, shipped_profiles
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


# -- Lemeire, Tables 10 to 12 --------------------------------------------------------------

#: Averages that the tables print, MAPE / MAPE_shape in percent: K620, GTX 1060, RTX 2070.
AVERAGES = {
    "pipeline": ((22, 8.1), (23, 5.2), (27.8, 6)),
    "volkov": ((36, 13.4), (44, 9.3), (78.7, 15)),
    "mwp-cwp": ((40, 13.9), (47, 10.4), (90.2, 19)),
    "wfg": ((88, 12.6), (88, 7.1), (69.7, 12)),
    "mwp-cwp-corrected": ((30, 10.7), (38, 8.7), (83.3, 10)),
    "wfg-corrected": ((29, 8.7), (27, 5.8), (41.0, 7)),
    "gpumech, rr": ((104, 12.2), (136, 6.6), (104.0, 10)),
    "gpumech, gto": ((65, 8.8), (86, 6.6), (88.2, 10)),
}
#: GPUMech as §2.5 evaluates it: without contention and compute latencies, and round robin may exceed the issue rate.
PLAIN_GPUMECH = {f"gpumech, {policy}": policy for policy in ("rr", "gto")}


def _with_plain_gpumech(found: H200Validation) -> H200Validation:
    """The comparison, with GPUMech as the paper evaluates it predicted over the occupancies besides."""
    workloads, _ = shipped_profiles(found.source, found.size)
    made = {}
    for (kernel, blocks), row in found.predicted.items():
        cycles = dict(row.cycles)
        for title, policy in PLAIN_GPUMECH.items() if blocks else ():
            model = get_model("gpumech-mt", {"policy": policy, "compute_latency": False, "clamp": False})
            cycles[title] = float(predict(*placed_launch(workloads[kernel], blocks), model).cycles)
        made[kernel, blocks] = dataclasses.replace(row, cycles=cycles)
    return dataclasses.replace(found, predicted=made)


@recipe(
    "lemeire-table10",
    LEMEIRE,
    "Tables 10 to 12: MAPE and MAPE_shape of kernels over occupancy",
    "errors of eight models over the occupancies of 17 kernels on an H200, beside the printed averages on three GPUs",
    data=FROM_H200,
)
def lemeire_table10() -> Findings:
    found = _with_plain_gpumech(kept_comparison())
    rows: list[Row] = []
    summary: list[Row] = []
    for model, printed in AVERAGES.items():
        sweeps = found.sweeps(model)
        rows += [(model, each.kernel, 100 * each.mape, 100 * each.mape_shape) for each in sweeps]
        ours = [100 * float(np.mean([getattr(each, name) for each in sweeps])) for name in ("mape", "mape_shape")]
        cells = [f"{mape:g} / {shape:g}" for mape, shape in printed]
        summary.append((model, *cells, f"{ours[0]:.0f} / {ours[1]:.1f}"))
    means = {model: float(np.mean([float(row[2] or 0) for row in rows if row[0] == model])) for model in AVERAGES}
    shapes = {model: float(np.mean([float(row[3] or 0) for row in rows if row[0] == model])) for model in AVERAGES}
    ranking = sorted(means, key=means.__getitem__)
    corrected = [means[f"{name}-corrected"] for name in ("wfg", "mwp-cwp")]
    printed_models = [model for model in ranking if "corrected" not in model]

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(9.8, 3.6))
        for axis, which, label in zip(axes, (0, 1), ("MAPE, %", "MAPE_shape, %"), strict=True):
            series = {
                name: [AVERAGES[model][index][which] for model in AVERAGES]
                for index, name in enumerate(("K620, paper", "GTX 1060, paper", "RTX 2070, paper"))
            }
            series["H200, ours"] = [(means, shapes)[which][model] for model in AVERAGES]
            grouped_bars(axis, list(AVERAGES), series, colours=_COLOURS)
            axis.set_xticks(range(len(AVERAGES)), list(AVERAGES), rotation=40, ha="right", fontsize=7.5)
            axis.set_ylabel(label)
        axes[0].legend(fontsize=7.5)
        return figure

    return Findings(
        columns=("model", "kernel", "MAPE [%]", "MAPE_shape [%]"),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "the Pipeline model obtains the best results (§6.3)",
                ranking[0] == "pipeline",
                f"the least MAPE has {ranking[0]} ({means[ranking[0]]:.0f} %); pipeline {means['pipeline']:.0f} %",
            ),
            Claim(
                "Volkov's model is a close second of the uncorrected ones (§6.3)",
                printed_models.index("volkov") == 1,
                f"place {printed_models.index('volkov') + 1} of {len(printed_models)}, {means['volkov']:.0f} %",
            ),
            Claim(
                "corrected, WFG and MWP-CWP lie between Pipeline and Volkov (§6.3)",
                all(means["pipeline"] <= each <= means["volkov"] for each in corrected),
                f"{means['wfg-corrected']:.0f} and {means['mwp-cwp-corrected']:.0f} % between "
                f"{means['pipeline']:.0f} and {means['volkov']:.0f} %",
            ),
            Claim(
                "MAPE_shape of the Pipeline model is below 10 % (§6.3)",
                shapes["pipeline"] < 10,
                f"{shapes['pipeline']:.1f} %",
            ),
            Claim(
                "the corrections make WFG and MWP-CWP better (§6.3)",
                means["wfg-corrected"] < means["wfg"] and means["mwp-cwp-corrected"] < means["mwp-cwp"],
                f"WFG {means['wfg']:.0f} to {means['wfg-corrected']:.0f} %, MWP-CWP "
                f"{means['mwp-cwp']:.0f} to {means['mwp-cwp-corrected']:.0f} %",
            ),
        ),
        assumptions=(SUITE_NOTE, "occupancy is limited by asking for shared memory, as the paper does"),
        remarks=(
            "the paper's kernels are Rodinia's; lemeire-table9 has ours, of which some are",
            "Table 12 prints 69.7 for WFG and 83.3 for the corrected MWP-CWP: kernel by kernel the two columns look "
            "swapped, as WFG is near 88 and the corrected MWP-CWP close to Volkov in Tables 10 and 11",
            "GPUMech is without contention and compute latencies, as the paper evaluates it (§2.5)",
        ),
        summary=Table(("MAPE / MAPE_shape, %", "K620", "GTX 1060", "RTX 2070", "ours, H200"), tuple(summary)),
    )
