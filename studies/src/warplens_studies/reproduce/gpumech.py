"""GPUMech, MICRO 2014: the examples of Figs. 2, 8 and 9, from the equations and from explicit simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from warplens.analysis import IntervalProfile
from warplens.api import load_workload, place, predict
from warplens.models import Prediction
from warplens.models.papers import GPUMECH
from warplens.reports.style import LINE_COLOURS
from warplens.workload import Workload

from .base import COMPARISON, Claim, Findings, Row, Table, compare, recipe
from .warp_issue import Interval, Issue, Miss, count_nonoverlapped, issue_timeline, mshr_timeline, stall_of

#: Ways to count non-overlapped instructions: model and its options.
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "naive (G-1)": ("naive-interval", {}),
    "RR as printed (G-11)": ("gpumech-mt", {"policy": "rr"}),
    "RR corrected (Lemeire)": ("gpumech-rr-corrected", {}),
    "GTO (G-16)": ("gpumech-mt", {"policy": "gto"}),
}
SIMULATED = {"rr": "RR simulated", "gto": "GTO simulated"}
WARP_COLOURS = ("#444444", LINE_COLOURS[0], LINE_COLOURS[2], LINE_COLOURS[3])


def _core_ipc(prediction: Prediction) -> float:
    return float(1.0 / prediction.cpi)


def _intervals(workload: Workload) -> list[Interval]:
    """The workload's intervals for the simulation, in whole cycles."""
    assert workload.profile is not None
    columns = (workload.profile.column("instructions"), workload.profile.column("stall_cycles"))
    return [Interval(int(instructions), int(stall)) for instructions, stall in zip(*columns, strict=True)]


def _repeated(intervals: list[Interval]) -> list[Interval]:
    """Append the first interval again: its first issue shows when the representative warp continues."""
    return [*intervals, intervals[0]]


def _resident_warps(workload: Workload) -> int:
    return int(workload.launch.warps_per_sm)


# -- Figure 2 ---------------------------------------------------------------------------


@recipe(
    "gpumech-fig2",
    GPUMECH,
    "Figure 2: three warps with intervals of 1 and 4 instructions, 10 stall cycles each",
    "IPC of the first interval alone (3/11), and of both intervals under each scheduling model and a simulation",
)
def figure2() -> Findings:
    both = load_workload("gpumech-fig2")
    first = _first_interval(both)
    warps, intervals = _resident_warps(both), _intervals(both)
    rows: list[Row] = []
    ipc: dict[str, list[float]] = {}
    for label, (model, options) in POLICIES.items():
        alone, whole = (predict(kernel, model=model, options=options) for kernel in (first, both))
        ipc[label] = [_core_ipc(alone), _core_ipc(whole)]
        terms = whole.terms
        paper = 3 / 11 if model == "naive-interval" else None
        rows.append((label, ipc[label][0], paper, ipc[label][1], terms["nonoverlapped_insts"], terms["C"]))
    simulated: dict[str, tuple[Issue, ...]] = {}
    for policy, label in SIMULATED.items():
        issued = simulated[policy] = issue_timeline(policy, _repeated(intervals), warps)
        starts = [i.cycle for i in issued if i.warp == 0 and i.instruction == 0]
        instructions = [warps * intervals[0].instructions, warps * sum(each.instructions for each in intervals)]
        ipc[label] = [instructions[0] / starts[1], instructions[1] / starts[2]]
        idle = sum(count_nonoverlapped(issued, _repeated(intervals), number) for number in range(len(intervals)))
        rows.append((label, ipc[label][0], 3 / 11, ipc[label][1], float(idle), float(starts[2])))

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(3, 1, figsize=(8.6, 4.9), height_ratios=(1, 1, 1.7))
        for axis, (policy, issued) in zip(axes, simulated.items(), strict=False):
            _draw_timeline(axis, issued, _repeated(intervals), warps, last=32)
            axis.set_title(f"{policy.upper()}, simulated", loc="left", fontsize=8.5)
        axes[1].set_xlabel("cycle")
        bars = axes[2].barh(list(ipc), [values[1] for values in ipc.values()], color=LINE_COLOURS[0], height=0.6)
        axes[2].bar_label(bars, fmt="%.4f", fontsize=8, padding=3)
        axes[2].invert_yaxis()
        axes[2].set_xlim(0, 0.72)
        axes[2].grid(axis="y", visible=False)
        axes[2].set_xlabel("IPC of the core, both intervals")
        return figure

    return Findings(
        columns=(
            "model",
            "IPC, interval 1 alone",
            "paper",
            "IPC, both intervals",
            "non-overlapped instructions",
            "cycles of the representative warp",
        ),
        rows=tuple(rows),
        draw=draw,
        claims=_figure2_claims(ipc, simulated["rr"], intervals),
        remarks=(
            "simulated: one instruction a cycle, warps aligned; cycles until the representative warp's next interval",
        ),
        summary=Table(
            COMPARISON,
            (
                compare("IPC of interval 1, naive (G-1)", 3 / 11, ipc["naive (G-1)"][0]),
                *(compare(f"IPC of both, {label}", None, values[1]) for label, values in ipc.items()),
            ),
        ),
    )


def _first_interval(workload: Workload) -> Workload:
    profile = workload.profile
    assert profile is not None
    return replace(workload, profile=IntervalProfile(profile.matrix[:1], profile.causes[:1]))


def _figure2_claims(
    ipc: dict[str, list[float]], issued: tuple[Issue, ...], intervals: list[Interval]
) -> tuple[Claim, ...]:
    stall = stall_of(issued, _repeated(intervals), 1)
    outside = [f"i{i.instruction + 2}" for i in issued if i.warp == 2 and i.interval == 1 and i.cycle not in stall]
    naive, corrected = ipc["naive (G-1)"], ipc["RR corrected (Lemeire)"]
    return (
        Claim(
            "interval 1: three instructions are issued in 11 cycles (§II-B)",
            abs(ipc["RR simulated"][0] - 3 / 11) < 1e-12 and abs(naive[0] - 3 / 11) < 1e-12,
            f"simulated {ipc['RR simulated'][0]:.5f}, naive {naive[0]:.5f}",
        ),
        Claim(
            "both intervals: the naive IPC is optimistic (§II-B), round robin",
            naive[1] > ipc["RR simulated"][1],
            f"naive {naive[1]:.4f}, simulated {ipc['RR simulated'][1]:.4f}; RR as printed "
            f"{ipc['RR as printed (G-11)'][1]:.4f}",
        ),
        Claim(
            "both intervals: the naive IPC is optimistic (§II-B), greedy-then-oldest",
            naive[1] > ipc["GTO simulated"][1],
            f"naive {naive[1]:.4f}, simulated {ipc['GTO simulated'][1]:.4f}: the two other warps' "
            f"{2 * intervals[1].instructions} instructions fit in {intervals[1].stall_cycles} stall cycles",
        ),
        Claim(
            "interval 2: warp 3 cannot issue instructions 4 and 5 during the stall of warp 1 (§II-B), round robin",
            {"i4", "i5"} <= set(outside),
            f"outside the stall: {', '.join(outside)}; the figure itself is not in the text",
        ),
        Claim(
            "Lemeire's round robin counts what the simulation issues",
            abs(corrected[1] - ipc["RR simulated"][1]) < 1e-12,
            f"{corrected[1]:.5f} and {ipc['RR simulated'][1]:.5f}",
        ),
    )


def _draw_timeline(axis: Any, issued: Sequence[Issue], intervals: list[Interval], warps: int, last: int) -> None:
    """One lane per warp; shaded where the representative warp stalls."""
    for number in range(len(intervals) - 1):
        stall = stall_of(issued, intervals, number)
        axis.axvspan(stall.start, stall.stop, color="#eeeeee", zorder=0)
    for issue in issued:
        if issue.cycle >= last:
            continue
        position = sum(each.instructions for each in intervals[: issue.interval]) + issue.instruction + 1
        axis.barh(issue.warp, 1, left=issue.cycle, height=0.8, color=WARP_COLOURS[issue.warp], edgecolor="white")
        axis.text(
            issue.cycle + 0.5, issue.warp, f"i{position}", ha="center", va="center", color="white", fontsize=6.5
        )
    axis.set_yticks(range(warps), ["WR", *(f"W{number}" for number in range(1, warps))])
    axis.invert_yaxis()
    axis.set_xlim(0, last)
    axis.grid(visible=False)


# -- Figure 8 ---------------------------------------------------------------------------

#: Non-overlapped instructions that §IV-A counts in the figure.
FIGURE8_PRINTED = {"rr": 6, "gto": 3}


@recipe(
    "gpumech-fig8",
    GPUMECH,
    "Figure 8: non-overlapped instructions of RR and GTO; 4 warps, 3 instructions and 6 stall cycles",
    "instructions of other warps that hide no stall: equations as printed and corrected, and an explicit simulation",
)
def figure8() -> Findings:
    workload = load_workload("gpumech-fig8")
    warps, intervals = _resident_warps(workload), _intervals(workload)
    counted = {
        label: float(predict(workload, model=model, options=options).terms["nonoverlapped_insts"])
        for label, (model, options) in POLICIES.items()
        if model != "naive-interval"
    }
    timelines = {policy: issue_timeline(policy, _repeated(intervals), warps) for policy in SIMULATED}
    simulated = {policy: count_nonoverlapped(issued, _repeated(intervals), 0) for policy, issued in timelines.items()}
    resumed = {
        policy: next(i.cycle for i in issued if i.warp == 0 and i.interval == 1)
        for policy, issued in timelines.items()
    }
    stall = intervals[0].stall_cycles
    hidden = {
        policy: sum(i.warp != 0 and i.cycle in stall_of(issued, _repeated(intervals), 0) for i in issued)
        for policy, issued in timelines.items()
    }
    rows: list[Row] = [
        ("RR as printed (G-11)", FIGURE8_PRINTED["rr"], counted["RR as printed (G-11)"], None),
        ("RR corrected (Lemeire)", FIGURE8_PRINTED["rr"], counted["RR corrected (Lemeire)"], None),
        ("RR simulated", FIGURE8_PRINTED["rr"], simulated["rr"], resumed["rr"]),
        ("GTO (G-16)", FIGURE8_PRINTED["gto"], counted["GTO (G-16)"], None),
        ("GTO simulated", FIGURE8_PRINTED["gto"], simulated["gto"], resumed["gto"]),
    ]

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(2, 1, figsize=(7.6, 3.6), sharex=True)
        for axis, (policy, issued) in zip(axes, timelines.items(), strict=True):
            _draw_timeline(axis, issued, _repeated(intervals), warps, last=18)
            axis.set_title(
                f"{policy.upper()}: {simulated[policy]} instructions of W1 … W3 hide no stall, {hidden[policy]} do",
                loc="left",
                fontsize=8.5,
            )
        axes[1].set_xlabel("cycle (shaded: WR stalls; WR's i4 begins its next interval)")
        axes[1].set_xticks(range(19))
        return figure

    return Findings(
        columns=("model", "paper", "non-overlapped instructions", "cycle in which WR goes on"),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "Fig. 8(a): round robin leaves 6 non-overlapped instructions and 3 stall cycles (§IV-A)",
                simulated["rr"] == FIGURE8_PRINTED["rr"] and stall - hidden["rr"] == 3,
                f"simulated {simulated['rr']} and {stall - hidden['rr']}",
            ),
            Claim(
                "Eq. (11) as printed gives what Fig. 8(a) shows",
                counted["RR as printed (G-11)"] == FIGURE8_PRINTED["rr"],
                f"it gives {counted['RR as printed (G-11)']:g}; Lemeire's correction "
                f"{counted['RR corrected (Lemeire)']:g}",
            ),
            Claim(
                "Fig. 8(b): greedy-then-oldest leaves 3 non-overlapped instructions (§IV-A)",
                simulated["gto"] == FIGURE8_PRINTED["gto"] and counted["GTO (G-16)"] == FIGURE8_PRINTED["gto"],
                f"simulated {simulated['gto']}, Eq. (16) {counted['GTO (G-16)']:g}; WR is ready in cycle "
                f"{stall_of(timelines['gto'], _repeated(intervals), 0).stop} and waits for W3 until {resumed['gto']}",
            ),
        ),
        summary=Table(
            COMPARISON, tuple(compare(str(row[0]), float(row[1] or 0), float(row[2] or 0)) for row in rows)
        ),
    )


# -- Figure 9 ---------------------------------------------------------------------------

FIGURE9_PRINTED = 0.25


@recipe(
    "gpumech-fig9",
    GPUMECH,
    "Figure 9: queueing for MSHRs; 6 entries, 4 warps with a load of two missing requests each",
    "expected queueing delay over average miss latency (0.25), and when each request holds an MSHR",
)
def figure9() -> Findings:
    workload, gpu = place("gpumech-fig9")
    profile = workload.profile
    assert profile is not None
    made = predict(workload, gpu, "gpumech-mt-mshr")
    warps, intervals = _resident_warps(workload), _intervals(workload)
    latency, entries = int(gpu.llc.latency_cycles), int(gpu.l1.mshrs)
    requests = int(profile.column("read_misses")[0])
    issued = issue_timeline("rr", intervals, warps)
    loads = [i.cycle for i in issued if i.instruction == intervals[0].instructions - 1]
    together = mshr_timeline([0] * warps, requests, entries, latency)
    in_turn = mshr_timeline(loads, requests, entries, latency)
    expected = float(made.terms["exp_queuing_delay"]) / latency
    means = [sum(miss.wait_cycles for miss in misses) / len(misses) / latency for misses in (together, in_turn)]
    rows = tuple(
        (when, f"W{miss.warp + 1}", miss.entry + 1, miss.asked, miss.start, miss.end, miss.wait_cycles)
        for when, misses in (("all at once", together), ("in RR order", in_turn))
        for miss in misses
    )

    return Findings(
        columns=(
            "loads issue",
            "warp",
            "MSHR entry",
            "asked [cycle]",
            "start [cycle]",
            "end [cycle]",
            "wait [cycles]",
        ),
        rows=rows,
        draw=partial(_draw_figure9, in_turn, latency, entries),
        claims=(
            Claim(
                "the MSHRs are saturated after three warps; W4 waits, and its latency doubles (§IV-B1)",
                {miss.warp for miss in together if miss.wait_cycles} == {warps - 1}
                and all(miss.end - miss.asked == 2 * latency for miss in together if miss.warp == warps - 1),
                f"W4 takes {together[-1].end - together[-1].asked} cycles from its load, the others {latency}",
            ),
            Claim(
                "that warps issue their loads at different cycles matters little (§IV-B1)",
                abs(means[1] / means[0] - 1) < 0.1,
                f"mean wait {means[1]:.4f} × latency in round-robin order, {means[0]:.4f} × if all issue at once",
            ),
        ),
        assumptions=(
            f"the loads hit L2 ({latency} cycles in Table I), as the figure gives no latency; the ratio is the same "
            "for any",
        ),
        summary=Table(
            COMPARISON,
            (
                compare("exp_queuing_delay / avg_miss_latency, Eq. (G-19)", FIGURE9_PRINTED, expected),
                compare("the same, counted in the simulation, all loads at once", FIGURE9_PRINTED, means[0]),
                compare("the same, counted in the simulation, loads in RR order", FIGURE9_PRINTED, means[1]),
                compare("MSHR_delay, Eq. (G-20) [cycles]", None, float(made.terms["MSHR_delay"])),
            ),
        ),
    )


def _draw_figure9(in_turn: Sequence[Miss], latency: int, entries: int, plt: Any) -> Any:
    figure, axis = plt.subplots(figsize=(8.0, 2.9))
    for miss in in_turn:
        axis.barh(
            miss.entry + 1,
            latency,
            left=miss.start,
            height=0.75,
            color=WARP_COLOURS[miss.warp],
            edgecolor="white",
        )
        axis.text(
            miss.start + latency / 2,
            miss.entry + 1,
            f"W{miss.warp + 1}",
            ha="center",
            va="center",
            color="white",
            fontsize=8,
        )
    waiting = next(miss for miss in in_turn if miss.wait_cycles)
    height = entries + 1
    axis.annotate(
        "", (waiting.start, height), (waiting.asked, height), arrowprops={"arrowstyle": "<->", "color": "#d1495b"}
    )
    axis.text(
        (waiting.start + waiting.asked) / 2,
        height + 0.15,
        f"W{waiting.warp + 1} waits {waiting.wait_cycles} cycles for an entry",
        ha="center",
        va="bottom",
        fontsize=8,
        color="#d1495b",
    )
    axis.set_xlim(left=0)
    axis.set_ylim(0.4, entries + 1.9)
    axis.set_yticks(range(1, entries + 1))
    axis.set_ylabel("MSHR entry")
    axis.set_xlabel("cycle (loads issued in round-robin order, after two computations of each warp)")
    axis.grid(axis="y", visible=False)
    return figure
