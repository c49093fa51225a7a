"""GPUMech, MICRO 2014: intervals (Figs. 1, 6), divergence (Fig. 3) and the effect of each part (Fig. 4)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from warplens.analysis import DependenceGraph, Instruction, IntervalProfile
from warplens.analysis.intervals import intervals_of_graph
from warplens.api import load_workload, place, predict
from warplens.machine import load_gpu
from warplens.models.papers import GPUMECH
from warplens.reports.style import CATEGORY_COLOURS, LINE_COLOURS
from warplens.workload import Needs, analyse

from .base import COMPARISON, FROM_KERNELS, Claim, Findings, Row, Table, compare, recipe
from .drawing import grouped_bars
from .gpumech_errors import SHOWN
from .kernels import OURS, RECORDED, THEIRS, error, workload

MACHINE = "gpumech2014"
#: A kernel whose intervals fit a picture.
FIGURE1_KERNEL = "saxpy"


@recipe(
    "gpumech-fig1",
    GPUMECH,
    "Figure 1: interval analysis",
    f"the intervals of the representative warp of a kernel ({FIGURE1_KERNEL}): instructions issued, then a stall",
    data=FROM_KERNELS,
)
def figure1() -> Findings:
    placed, gpu = place(workload(FIGURE1_KERNEL), MACHINE)
    ((_, profile),) = analyse(placed, gpu, Needs("interval_profile"), "Fig. 1").intervals
    instructions, stalls = profile.column("instructions"), profile.column("stall_cycles")
    ends = np.cumsum(instructions + stalls)
    starts = ends - instructions - stalls
    shown = min(len(profile), 6)

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(8.6, 2.2))
        for number in range(shown):
            rise, fall, end = starts[number], starts[number] + instructions[number], ends[number]
            axis.fill_between([rise, fall], [1, 1], color=LINE_COLOURS[0], step="post")
            axis.text((rise + fall) / 2, 1.05, f"{instructions[number]:.0f}", ha="center", fontsize=7)
            if stalls[number] > 0.02 * ends[shown - 1]:
                axis.text((fall + end) / 2, 0.5, f"{stalls[number]:.0f}", ha="center", fontsize=7, color="#777777")
        axis.set_xlim(0, ends[shown - 1])
        axis.set_ylim(0, 1.25)
        axis.set_yticks([0, 1])
        axis.set_ylabel("issue rate")
        axis.set_xlabel("cycle (above each interval its instructions, after it its stall cycles)")
        return figure

    busy = float(instructions.sum() / ends[-1])
    return Findings(
        columns=("interval", "start [cycle]", "instructions", "stall [cycles]"),
        rows=tuple(
            (index + 1, float(starts[index]), float(instructions[index]), float(stalls[index]))
            for index in range(len(profile))
        ),
        draw=draw,
        claims=(
            Claim(
                "a warp issues at the full rate between stalls (§II-A)",
                bool(np.all(instructions > 0) and np.all(stalls[:-1] > 0)),
                f"{len(profile)} intervals, all with instructions and all but the last with a stall; "
                f"one warp alone has an IPC of {busy:.3f}",
            ),
        ),
        assumptions=(
            f"{FIGURE1_KERNEL} of the validation data on the machine of Table I; the figure has no numbers",
        ),
    )


# -- Figure 6 ------------------------------------------------------------------------------


@recipe(
    "gpumech-fig6",
    GPUMECH,
    "Figure 6: intervals of a warp",
    "issue cycles by Equation (4) of eight instructions in which i5 depends on i3 and i8 on i7",
)
def figure6() -> Findings:
    gpu = load_gpu(MACHINE)
    depends = {4: (2,), 7: (6,)}
    graph = DependenceGraph(tuple(Instruction("fp32", depends.get(index, ())) for index in range(8)))
    latency = gpu.timing("fp32").latency_cycles
    profile = intervals_of_graph(graph, lambda _: latency)
    issue = [0.0]
    for item in graph.instructions[1:]:
        done = [issue[source] + latency for source in item.depends]
        issue.append(max(issue[-1] + 1, *(cycle + 1 for cycle in done)) if done else issue[-1] + 1)  # Eq. (G-4)
    counted = [int(value) for value in profile.column("instructions")]

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(8.6, 1.9))
        for index, cycle in enumerate(issue):
            waited_for = index in (2, 6)
            axis.barh(0, 1, left=cycle, color="#444444" if waited_for else LINE_COLOURS[0], edgecolor="white")
            axis.text(cycle + 0.5, -0.65, f"i{index + 1}", ha="center", fontsize=7)
        for earlier, later in itertools.pairwise(issue):
            if later > earlier + 1:
                axis.axvspan(earlier + 1, later, color="#eeeeee", zorder=0)
        axis.set_yticks([])
        axis.set_ylim(-0.9, 0.6)
        axis.set_xlabel("cycle (dark: leads to a stall; shaded: stall)")
        axis.grid(visible=False)
        return figure

    return Findings(
        columns=("instruction", "issue [cycle]", "done [cycle]"),
        rows=tuple((f"i{index + 1}", cycle, cycle + latency) for index, cycle in enumerate(issue)),
        draw=draw,
        claims=(
            Claim(
                "i3 leads to stall cycles because i5 depends on it (§III-B)",
                counted[0] == 4 and issue[4] == issue[2] + latency + 1,
                f"the first interval has {counted[0]} instructions, and i5 issues in cycle {issue[4]:g}",
            ),
            Claim(
                "our interval algorithm gives these issue cycles",
                counted == [4, 3, 1] and profile.column("stall_cycles")[0] == issue[4] - issue[3] - 1,
                f"intervals of {', '.join(map(str, counted))} instructions, first stall "
                f"{profile.column('stall_cycles')[0]:g} cycles",
            ),
        ),
        assumptions=(
            f"all instructions take the {latency:g} cycles of Table I, and i8 depends on i7: neither is printed",
        ),
    )


# -- Figure 3 ------------------------------------------------------------------------------

REQUESTS = (1, 2, 4, 8, 16, 32)


@recipe(
    "gpumech-fig3",
    GPUMECH,
    "Figure 3: interval analysis with different degrees of memory divergence",
    "cycles of one interval with 1 to 32 requests a load, by what they are spent on",
)
def figure3() -> Findings:
    base = load_workload("gpumech-fig9")
    assert base.profile is not None
    stacks: dict[int, dict[str, float]] = {}
    rows: list[Row] = []
    for requests in REQUESTS:
        matrix = base.profile.matrix.copy()
        matrix[:, 3], matrix[:, 5] = requests, 1.0
        profile = IntervalProfile(matrix, np.array([[0.0, 0.0, 0.0, 1.0]]))
        made = predict(
            replace(base, profile=profile),
            model="gpumech",
            overrides={"launch.warps_per_sm": 32.0, "l1.mshrs": 32},
        )
        cycles = made.terms["W"] * 3.0
        stacks[requests] = {name: value * cycles for name, value in (made.stack or {}).items()}
        rows.append((requests, *stacks[requests].values(), sum(stacks[requests].values())))
    whole = {requests: sum(stack.values()) for requests, stack in stacks.items()}

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(7.2, 3.2))
        bottom = np.zeros(len(REQUESTS))
        for name in next(iter(stacks.values())):
            heights = np.array([stack[name] for stack in stacks.values()])
            axis.bar(range(len(REQUESTS)), heights, 0.65, bottom=bottom, color=CATEGORY_COLOURS[name], label=name)
            bottom += heights
        axis.set_xticks(range(len(REQUESTS)), [str(each) for each in REQUESTS])
        axis.set_xlabel("requests of a load (degree of divergence)")
        axis.set_ylabel("cycles of the interval")
        figure.legend(loc="outside right upper", fontsize=8)
        return figure

    return Findings(
        columns=("requests", *(f"{name} [cycles]" for name in next(iter(stacks.values()))), "sum [cycles]"),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "stall cycles vary significantly with the degree of divergence (§II-B)",
                whole[32] > 2 * whole[1],
                f"{whole[1]:.0f} cycles with one request, {whole[32]:.0f} with 32",
            ),
        ),
        assumptions=("an interval of three instructions whose load misses all caches, 32 warps, machine of Table I",),
        summary=Table(
            COMPARISON, tuple(compare(f"cycles with {each} requests", None, whole[each]) for each in REQUESTS)
        ),
    )


# -- Figure 4 ------------------------------------------------------------------------------

#: A divergent kernel in place of SRAD's.
FIGURE4_KERNEL = "strided8"


@recipe(
    "gpumech-fig4",
    GPUMECH,
    "Figure 4: errors of one divergent kernel as parts are modelled",
    f"|IPC error| of {FIGURE4_KERNEL}: intervals alone, then with multithreading, MSHRs and DRAM bandwidth",
    data=FROM_KERNELS,
)
def figure4() -> Findings:
    settings = {OURS: "gpumech-rr", THEIRS: "lrr"}
    titles = [title for title in SHOWN if title != "Markov_Chain"]
    found = {
        source: [100.0 * abs(error(SHOWN[title], setting, FIGURE4_KERNEL, source)) for title in titles]
        for source, setting in settings.items()
    }

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(7.4, 3.0))
        grouped_bars(axis, titles, found, label="%.0f")
        axis.set_ylabel("|IPC error|, %")
        axis.legend(fontsize=8)
        return figure

    return Findings(
        columns=("reference", "model", "|IPC error| [%]"),
        rows=tuple(
            (source, title, value)
            for source, values in found.items()
            for title, value in zip(titles, values, strict=True)
        ),
        draw=draw,
        claims=tuple(
            Claim(
                f"modelling scheduling and contention reduces the error step by step (§II-B); {source}",
                all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(values)),
                ", ".join(f"{title} {value:.0f} %" for title, value in zip(titles, values, strict=True)),
            )
            for source, values in found.items()
        ),
        assumptions=(f"{FIGURE4_KERNEL} stands for the SRAD kernel, which is not in the text", RECORDED),
        summary=Table(
            ("|IPC error|, %", *found),
            tuple((title, *(values[index] for values in found.values())) for index, title in enumerate(titles)),
        ),
    )
