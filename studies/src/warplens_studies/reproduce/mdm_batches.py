"""MDM, CAL 2019 and MICRO 2020: the cache behaviour of Listing 1, and why divergent warps wait in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warplens.api import predict
from warplens.machine import load_gpu
from warplens.models.papers import MDM, MDM_CAL
from warplens.reports.style import LINE_COLOURS
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.workload import workload_of_trace
from warplens.workload.traced import cache_misses

from ..validate import accelsim
from ..validate.recorded import CAL
from ..validate.suite import count_loads
from .base import COMPARISON, FROM_KERNELS, FROM_SUITE, Claim, Findings, Row, Table, compare, recipe
from .drawing import grouped_bars
from .kernels import (
    OURS,
    RECORDED,
    SETS,
    STAND_IN,
    THEIRS,
    divergent_kernels,
    mean_error,
    other_kernels,
    percentages,
)
from .mdm import miss_latency
from .mdm_errors import SHOWN
from .warp_issue import Miss

# -- Listing 1 -----------------------------------------------------------------------------

STRIDES = {1: "strided_square_1", 8: "strided_square_8", 32: "strided_square_32"}
BYTES = 4.0


@recipe(
    "mdm-fig2",
    MDM,
    "Figure 2: cache behaviour of Listing 1",
    "cache lines of a warp's load with grid strides of 1, 8 and 32, and the part of them that is used",
    data=FROM_SUITE,
)
def figure2() -> Findings:
    rows: list[Row] = []
    for stride, kernel in STRIDES.items():
        trace = run_on_cpu(SUITE[kernel], "small", record=True).trace
        loads = count_loads(trace)
        misses = cache_misses(workload_of_trace(trace), load_gpu("mdm2020"))
        per_load = loads.lines / loads.requests
        rows.append((stride, per_load, 32 * BYTES / (per_load * 128), misses.l1_miss_ratio))
    lines = {int(row[0] or 0): float(row[1] or 0) for row in rows}

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(8.0, 2.8))
        labels = [f"GS = {row[0]}" for row in rows]
        for axis, column, label in zip(axes, (1, 2), ("lines of a load", "used part of the lines"), strict=True):
            bars = axis.bar(labels, [float(row[column] or 0) for row in rows], 0.6, color=LINE_COLOURS[0])
            axis.bar_label(bars, fmt="%.3g", fontsize=8)
            axis.set_ylabel(label)
            axis.grid(axis="x", visible=False)
        return figure

    return Findings(
        columns=("grid stride", "lines of a load", "used part of the lines", "L1 miss ratio"),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "GS = 1: a warp's loads go to the same line (§III-A)",
                lines[1] == 1,
                f"{lines[1]:.2f} lines a load: only in some of the loop's steps do the warp's 128 bytes begin a line",
            ),
            Claim(
                "GS = 32: each thread's load goes to another line, of which 4 of 128 bytes are wanted (§III-A)",
                lines[32] == 32,
                f"{lines[32]:.0f} lines a load, {100 * float(rows[-1][2] or 0):.1f} % of the bytes used at once",
            ),
        ),
        assumptions=("the suite's kernel after Listing 1, small size; caches of MDM's machine",),
    )


# -- batches -------------------------------------------------------------------------------

LATENCY = 120


@dataclass(frozen=True)
class Case:
    """Warps that load once, or several times in turn, from a cache with few MSHRs."""

    label: str
    misses: tuple[Miss, ...]
    entries: int

    @property
    def end(self) -> int:
        return max(miss.end for miss in self.misses)


def serve_loads(label: str, warps: int, requests: int, entries: int, loads: int = 1) -> Case:
    """Each warp's next load begins when its previous one is complete; the cache serves first come, first served."""
    ready = [0] * warps
    made: list[Miss] = []
    free = [0] * entries
    for _ in range(loads):
        for warp in sorted(range(warps), key=lambda w: ready[w]):
            asked = ready[warp]
            for _ in range(requests):
                entry = min(range(entries), key=free.__getitem__)
                start = max(asked, free[entry])
                free[entry] = start + LATENCY
                made.append(Miss(warp, entry, asked, start, start + LATENCY))
            ready[warp] = made[-1].end
    return Case(label, tuple(made), entries)


def _draw_cases(plt: Any, cases: Sequence[Case]) -> Any:
    figure, axes = plt.subplots(len(cases), 1, figsize=(8.4, 0.6 + 1.3 * len(cases)), squeeze=False)
    for axis, case in zip(axes[:, 0], cases, strict=True):
        for miss in case.misses:
            colour, middle = LINE_COLOURS[miss.warp], miss.start + LATENCY / 2
            axis.barh(miss.entry, LATENCY, left=miss.start, color=colour, edgecolor="white", height=0.8)
            axis.text(middle, miss.entry, f"W{miss.warp + 1}", ha="center", va="center", fontsize=7, color="white")
        axis.set_yticks(range(case.entries), [f"MSHR {entry + 1}" for entry in range(case.entries)], fontsize=7)
        axis.invert_yaxis()
        axis.set_title(f"{case.label}: {case.end} cycles", loc="left", fontsize=8.5)
        axis.grid(axis="y", visible=False)
    axes[-1, 0].set_xlabel("cycles")
    return figure


def _batches(cases: Sequence[Case], claims: tuple[Claim, ...], assumption: str) -> Findings:
    return Findings(
        columns=("case", "warp", "MSHR", "asked [cycle]", "start [cycle]", "end [cycle]"),
        rows=tuple(
            (case.label, miss.warp + 1, miss.entry + 1, miss.asked, miss.start, miss.end)
            for case in cases
            for miss in case.misses
        ),
        draw=lambda plt: _draw_cases(plt, cases),
        claims=claims,
        assumptions=(assumption,),
        summary=Table(COMPARISON, tuple(compare(f"{case.label}: cycles", None, case.end) for case in cases)),
    )


@recipe(
    "mdm-fig4",
    MDM,
    "Figure 4: why MSHR utilisation differs between NMD and MD applications",
    "three warps with 1 and with 32 misses each on 3 MSHRs, simulated, against the batches of Equation (6)",
)
def figure4() -> Findings:
    calm = serve_loads("NMD, 1 miss a warp", 3, 1, 3)
    divergent = serve_loads("MD, 32 misses a warp", 3, 32, 3)
    made = predict(
        "mdm-baseline",
        model="mdm",
        overrides={"l1.mshrs": 3, "launch.warps_per_sm": 3.0, "noc.bandwidth": 1e15, "dram.bandwidth": 1e15},
    )
    first = min(miss.start for miss in divergent.misses if miss.warp == 1)
    return _batches(
        (calm, divergent),
        (
            Claim(
                "NMD: all three warps are served at once (§III-B)",
                calm.end == LATENCY,
                f"all end after {calm.end} cycles, the time of one miss",
            ),
            Claim(
                "MD: misses of W1 occupy all MSHRs, and the other warps wait (§III-B)",
                first >= 10 * LATENCY,
                f"W2's first miss starts in cycle {first}",
            ),
            Claim(
                "a cache with N MSHRs serves M requests in M/N batches (§I); MDM's Eq. (6)",
                divergent.end == LATENCY * made.terms["batches"],
                f"simulated {divergent.end / LATENCY:g} batches, the model {made.terms['batches']:g}",
            ),
        ),
        f"a miss takes {LATENCY} cycles (LLC hit), all warps ask at once, nothing queues behind the MSHRs",
    )


@recipe(
    "mdm-cal-fig2",
    MDM_CAL,
    "Figure 2: an NMD and an MD application on two MSHRs",
    "two warps with two loads of 1 and of 4 misses, simulated, against the printed order of batches",
)
def cal_figure2() -> Findings:
    calm = serve_loads("NMD, 1 miss a load", 2, 1, 2, loads=2)
    divergent = serve_loads("MD, 4 misses a load", 2, 4, 2, loads=2)
    order = [miss.warp + 1 for miss in divergent.misses[:8:2]]
    return _batches(
        (calm, divergent),
        (
            Claim(
                "NMD: the misses of both warps are processed together (§2.2)",
                calm.end == 2 * LATENCY,
                f"four misses in {calm.end} cycles: the latency of one warp is hidden",
            ),
            Claim(
                "MD: W1 takes two batches, then W2 two, and W1's next load waits for them (§2.2)",
                order == [1, 1, 2, 2] and divergent.misses[8].start == 4 * LATENCY,
                f"batches of W{', W'.join(map(str, order))}; W1's second load starts in cycle "
                f"{divergent.misses[8].start} though it is ready in cycle {divergent.misses[8].asked}",
            ),
        ),
        f"a miss takes {LATENCY} cycles (§2.2: at least 120)",
    )


# -- CAL 2019: figures that MICRO 2020 has too ---------------------------------------------


@recipe(
    "mdm-cal-fig1",
    MDM_CAL,
    "Figure 1: L1 miss latency breakdown",
    "mean cycles of an L1 miss in each part of our reference simulator, for every kernel",
    data=FROM_KERNELS,
)
def cal_figure1() -> Findings:
    return miss_latency(CAL)


#: Mean errors that §5 states, in percent.
STATED = {
    "GPUMech": (19.0, 444.0, 217.0),
    "GPUMech+": (None, 206.0, None),
    "MDM-Queue": (None, 100.0, None),
    "MDM-MSHR": (None, 98.0, None),
    "MDM (CAL 2019)": (16.0, 32.0, 23.0),
}


@recipe(
    "mdm-cal-fig3",
    MDM_CAL,
    "Figure 3: IPC prediction error of the models, divergent and other kernels",
    "mean |IPC error| of five models, MDM without saturation test, against two references; the text states means",
    data=FROM_KERNELS,
)
def cal_figure3() -> Findings:
    models = {title: name for title, name in SHOWN.items() if title != "MDM"} | {"MDM (CAL 2019)": "mdm-cal2019"}
    groups = {"NMD": other_kernels(), "MD": divergent_kernels(), "all": accelsim.kernels()}
    found = {
        source: {
            title: [mean_error(model, setting, source, kernels) for kernels in groups.values()]
            for title, model in models.items()
        }
        for source, setting in ((OURS, CAL), (THEIRS, "lrr"))
    }

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(2, 1, figsize=(8.6, 4.6))
        for axis, (source, series) in zip(axes, found.items(), strict=True):
            grouped_bars(axis, list(groups), series, label="%.0f")
            axis.set_title(SETS[source], loc="left", fontsize=9)
            axis.set_ylabel("mean |IPC error|, %")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)
        return figure

    rows: list[Row] = [
        (source, title, group, STATED[title][index], values[index])
        for source, series in found.items()
        for title, values in series.items()
        for index, group in enumerate(groups)
    ]
    return Findings(
        columns=("reference", "model", "kernels", "paper [%]", "mean |IPC error| [%]"),
        rows=tuple(rows),
        draw=draw,
        claims=tuple(claim for source, series in found.items() for claim in _cal_claims(source, series)),
        assumptions=(
            STAND_IN,
            RECORDED,
            "our simulator has the machine of Table 1, with four loose round-robin schedulers of width 2; Accel-Sim "
            "has that of MICRO 2020 with one loose round-robin scheduler",
        ),
        summary=Table(
            ("reference", "mean |IPC error|, %", *groups),
            tuple(
                (source, title, *(f"{value:.0f}" for value in values))
                for source, series in found.items()
                for title, values in series.items()
            ),
        ),
    )


def _cal_claims(source: str, series: Mapping[str, Sequence[float]]) -> list[Claim]:
    """What §5 says of the mean errors: other kernels, divergent ones, all."""
    gpumech, mdm = series["GPUMech"], series["MDM (CAL 2019)"]
    between = [series[title][1] for title in ("GPUMech+", "MDM-Queue", "MDM-MSHR")]
    return [
        Claim(
            f"MDM reduces the error on divergent kernels, 14 times (§5); {source}",
            mdm[1] * 14 / 2 < gpumech[1],
            f"{percentages([gpumech[1], mdm[1]])} (counted: half of that)",
        ),
        Claim(
            f"MDM reduces the error on the others marginally, from 19 to 16 % (§5); {source}",
            gpumech[0] - 10 <= mdm[0] <= gpumech[0],
            f"from {gpumech[0]:.0f} to {mdm[0]:.0f} % (counted as marginal: 10 points)",
        ),
        Claim(
            f"over all benchmarks GPUMech errs by 217 %, MDM by 23 % (§5); {source}",
            mdm[2] * 217 / 23 / 2 < gpumech[2],
            f"{gpumech[2]:.0f} and {mdm[2]:.0f} % (counted: half of the printed ratio)",
        ),
        Claim(
            f"GPUMech+, 206 %, MDM-Queue, 100 %, and MDM-MSHR, 98 %, lie between (§5); {source}",
            all(mdm[1] < value < gpumech[1] for value in between),
            f"{percentages(between)} between {mdm[1]:.0f} and {gpumech[1]:.0f} %",
        ),
    ]
