"""Lemeire et al., Figs. 3, 6 and 12: Transit's balance, WFG's failure, and instruction mixes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from warplens.analysis import DependenceGraph, Instruction, InstructionMix, MixEntry
from warplens.api import load_workload, place, predict
from warplens.models import instruction_mix_forms as forms
from warplens.models.papers import LEMEIRE
from warplens.reports.style import LINE_COLOURS
from warplens.reports.transit import transit_diagram
from warplens.workload import Launch, Workload

from .base import COMPARISON, Claim, Findings, Row, Table, compare, recipe
from .lemeire import EXAMPLE, Array, example_without_ilp

# -- Figure 3 ---------------------------------------------------------------------------


@recipe(
    "lemeire-fig3",
    LEMEIRE,
    "Figure 3: Transit's steady state for the example kernel, ω = 5",
    "supply of the memory side, demand of the compute side and their crossing, against the k warps waiting on memory",
)
def figure3() -> Findings:
    warps = 5.0
    workload, gpu = place(EXAMPLE)
    placed = workload.with_overrides({"launch.warps_per_sm": warps})
    diagram = transit_diagram(placed, gpu, points=51)
    volkov = predict(example_without_ilp(), gpu, "volkov", overrides={"launch.warps_per_sm": warps})
    k, throughput = diagram.k, diagram.warps_per_cycle
    at_k = diagram.waiting.index(k)
    on_both = diagram.supply[at_k], diagram.demand[at_k]

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(6.2, 3.6))
        axis.plot(diagram.waiting, diagram.supply, color=LINE_COLOURS[0], label="memory side: supply f(k)")
        axis.plot(diagram.waiting, diagram.demand, color=LINE_COLOURS[1], label="compute side: demand g(ω − k)")
        axis.plot([k], [throughput], "o", color="black", zorder=3)
        axis.annotate(
            f"k = {k:.3f}\nWPC = {throughput:.4f}",
            (k, throughput),
            xytext=(34, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
        axis.set_xlabel("k: warps waiting for memory (the other 5 − k compute)")
        axis.set_ylabel("warps per cycle (WPC)")
        axis.set_ylim(0, 0.35)
        axis.legend(loc="upper center", ncols=2)
        return figure

    rows = tuple(zip(diagram.waiting, diagram.supply, diagram.demand, strict=True))
    return Findings(
        columns=("k", "memory supply [WPC]", "compute demand [WPC]"),
        rows=rows,
        draw=draw,
        claims=(
            Claim(
                "the crossing of both rooflines gives the throughput (§2.2.1)",
                bool(np.allclose(on_both, throughput, rtol=1e-12, atol=0)),
                f"both curves are {on_both[0]:.6f} at the model's k = {k:.4f}",
            ),
            Claim(
                "without ILP this is Volkov's WPC (Eq. 14)",
                bool(np.isclose(throughput, volkov.terms["WPC"], rtol=1e-12, atol=0)),
                f"Transit {throughput:.6f}, Volkov {volkov.terms['WPC']:.6f} (5/{warps / throughput:g})",
            ),
        ),
        remarks=("Transit has no ILP, so the independent computation of the example counts with its latency",),
        summary=Table(
            COMPARISON,
            (
                compare("k, Eq. (L-11)", None, k),
                compare("WPC, Eq. (L-13)", None, throughput),
            ),
        ),
    )


# -- Figure 6 ---------------------------------------------------------------------------

CASES = ("wfg-case1", "wfg-case2", "wfg-case3")
CASE_OCCUPANCIES = np.arange(1.0, 9.0)
#: CPR(2) as Eq. (L-40) gives it for the three cases.
PRINTED_AT_TWO = (16.0, 11.5, 23.5)
VOLKOV_CYCLES = 14.0


@recipe(
    "lemeire-fig6",
    LEMEIRE,
    "Figure 6: WFG's problem in the occupancy-bound case, and its correction",
    "cycles per run against occupancy for three kernels; Volkov's 14 and what Eq. (40) gives at ω = 2",
)
def figure6() -> Findings:
    rows: list[Row] = []
    values: list[Row] = []
    curves: dict[str, dict[str, Array]] = {}
    overrides = {"launch.warps_per_sm": CASE_OCCUPANCIES}
    for case, printed in zip(CASES, PRINTED_AT_TWO, strict=True):
        workload, gpu = place(case)
        assert workload.flow is not None
        compute = sum(
            gpu.timing(n.instruction_class).latency_cycles * n.count for n in workload.flow.of_kind("compute")
        )
        latency = gpu.timing("mem").latency_cycles
        label = f"{case[4:].replace('case', 'case ')}: α·Λ_comp = {compute:g}, Λ_mem = {latency:g}"
        w = CASE_OCCUPANCIES
        curves[label] = {
            "WFG": predict(workload, gpu, "wfg", overrides=overrides).terms["CPR"],
            "WFG corrected": predict(workload, gpu, "wfg-corrected", overrides=overrides).terms["CPR"],
            "Volkov": np.asarray(predict(_as_mix(case), gpu, "volkov", overrides=overrides).cycles),
            "Eq. (40)": compute + latency * w - (w - 1) * compute / 2,  # Eq. (L-40)
        }
        for name, series in curves[label].items():
            paper = {"Volkov": [VOLKOV_CYCLES] * len(w), "WFG": [VOLKOV_CYCLES, printed]}.get(name, [])
            for index, (warps, cycles) in enumerate(zip(w.tolist(), series.tolist(), strict=True)):
                rows.append((label, name, warps, cycles, paper[index] if index < len(paper) else None))
        values.append(compare(f"{label}: CPR(1), WFG", VOLKOV_CYCLES, float(curves[label]["WFG"][0])))
        values.append(compare(f"{label}: CPR(2), WFG", printed, float(curves[label]["WFG"][1])))
        values.append(compare(f"{label}: CPR(2), WFG corrected", None, float(curves[label]["WFG corrected"][1])))

    _, case2, case3 = curves.values()
    corrected = [series["WFG corrected"] for series in curves.values()]
    volkov = np.array([series["Volkov"] for series in curves.values()])
    return Findings(
        columns=("case", "model", "warps", "cycles per run", "paper"),
        rows=tuple(rows),
        draw=partial(_draw_figure6, curves),
        claims=(
            Claim(
                "Volkov gives 14 for all pairs and all occupancies (§2.4.2)",
                bool(np.allclose(volkov, VOLKOV_CYCLES, rtol=1e-12)),
                f"{volkov.min():g} … {volkov.max():g} for ω = 1 … 8",
            ),
            Claim(
                "case 2: the CPR drops for higher occupancies, which is impossible (§2.4.2)",
                bool(case2["WFG"][1] < case2["WFG"][0]),
                f"CPR = {', '.join(f'{c:g}' for c in case2['WFG'][:4])} for ω = 1 … 4 (no exposed latency is left "
                "from ω = 3 on)",
            ),
            Claim(
                "case 3: the CPR increases fast (§2.4.2)",
                bool(np.all(np.diff(case3["WFG"][:5]) > 0.5 * case3["WFG"][0])),
                f"CPR = {', '.join(f'{c:g}' for c in case3['WFG'][:5])} for ω = 1 … 5",
            ),
            Claim(
                "corrected: no number of warps finishes before one alone (§2.4.4)",
                all(bool(np.all(series >= series[0] * (1 - 1e-12))) for series in corrected),
                "CPR for ω = 1 … 8: " + "; ".join(f"{series.min():.4g} … {series.max():.4g}" for series in corrected),
            ),
        ),
        assumptions=(
            "λ = 0 for both kinds, as the cases look at latencies alone, and exposed latency is never below 0, which "
            "Eq. (40) leaves out",
        ),
        summary=Table(COMPARISON, tuple(values)),
    )


def _draw_figure6(curves: dict[str, dict[str, Array]], plt: Any) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), sharex=True)
    styles: dict[str, dict[str, Any]] = {
        "WFG": {"color": LINE_COLOURS[1], "marker": "o"},
        "WFG corrected": {"color": LINE_COLOURS[2], "marker": "s"},
        "Volkov": {"color": LINE_COLOURS[0], "linewidth": 4, "alpha": 0.35},
        "Eq. (40)": {"color": LINE_COLOURS[7], "linestyle": ":"},
    }
    for axis, (label, series) in zip(axes, curves.items(), strict=True):
        for name, cycles in series.items():
            shown = np.where(cycles >= 0, cycles, np.nan)
            axis.plot(CASE_OCCUPANCIES, shown, label=name, markersize=3.5, **styles[name])
        axis.set_title(label, loc="left", fontsize=8.5)
        axis.set_xlabel("occupancy ω [warps]")
        axis.set_ylim(0, 1.15 * np.nanmax(series["WFG"]))
    axes[0].set_ylabel("cycles per run (CPR)")
    axes[0].legend(loc="lower right", ncols=2, fontsize=8)
    return figure


def _as_mix(case: str) -> Workload:
    """A case of Fig. 6 as counts, for Volkov's model."""
    workload = load_workload(case)
    assert workload.flow is not None
    entries = {node.instruction_class: MixEntry(node.count) for node in workload.flow.nodes}
    return replace(workload, flow=None, mix=InstructionMix(entries))


# -- Figure 12 --------------------------------------------------------------------------

LAMBDA_1, LAMBDA_2, ISSUE_LIMIT = 1.0, 4.0, 1.0
RATIOS = tuple(float(beta) for beta in range(1, 21))
#: Warps and repetitions of the simulated kernel.
MIX_WARPS, MIX_REPEATS = 64, 64
#: Column of the figure, and its machine: subsystem of the second type, issue limit.
ARCHITECTURES = {
    "1 subsystem": ("compute", None),
    "2 subsystems": ("sfu", None),
    "2 subsystems, issue limit": ("sfu", ISSUE_LIMIT),
}


@recipe(
    "lemeire-fig12",
    LEMEIRE,
    "Figure 12: the instruction-mix kernel on three architectures",
    "Eqs. (43) to (45) as printed and as intended, against β, and our Roofline and Pipeline model beside them",
)
def figure12() -> Findings:
    curves: dict[str, list[float]] = {
        "1 subsystem": [forms.one_subsystem_ipc(b, LAMBDA_1, LAMBDA_2) for b in RATIOS],
        "2 subsystems": [forms.two_subsystems_ipc(b, LAMBDA_1, LAMBDA_2) for b in RATIOS],
        "2 subsystems, issue limit": [forms.issue_limited_ipc(b, LAMBDA_1, LAMBDA_2, ISSUE_LIMIT) for b in RATIOS],
        "2 subsystems, as printed": [forms.two_subsystems_ipc(b, LAMBDA_1, LAMBDA_2, printed=True) for b in RATIOS],
        "2 subsystems, issue limit, as printed": [
            forms.issue_limited_ipc(b, LAMBDA_1, LAMBDA_2, ISSUE_LIMIT, printed=True) for b in RATIOS
        ],
    }
    roofline = {name: [_mix_on(b, *machine) for b in RATIOS] for name, machine in ARCHITECTURES.items()}
    agree = all(np.allclose(curves[name], roofline[name], rtol=1e-12, atol=0) for name in roofline)
    simulated = {name: [_mix_simulated(b, *machine) for b in RATIOS] for name, machine in ARCHITECTURES.items()}
    ratios = np.array([np.divide(simulated[name], curves[name]) for name in ARCHITECTURES])
    others = {
        policy: min(
            _mix_simulated(b, *ARCHITECTURES[name], policy) / curves[name][int(b) - 1]
            for name in ARCHITECTURES
            for b in (2.0, 4.0, 8.0)
        )
        for policy in ("lrr", "gto", "oldest")
    }
    printed = curves["2 subsystems, as printed"]

    shown = (1, 4, 20)
    return Findings(
        columns=(
            "beta",
            *curves,
            *(f"Roofline: {name}" for name in roofline),
            *(f"Pipeline: {name}" for name in simulated),
        ),
        rows=tuple(zip(RATIOS, *curves.values(), *roofline.values(), *simulated.values(), strict=True)),
        draw=partial(_draw_figure12, curves, simulated),
        claims=(
            Claim(
                "Roofline with the same subsystems and issue limit gives the intended forms (ours, not the paper's)",
                agree,
                f"three architectures, β = 1 … {RATIOS[-1]:g}",
            ),
            Claim(
                "the Pipeline model with round robin gives the intended forms within 2 % (ours, not the paper's)",
                bool(np.all(ratios > 0.98) and np.all(ratios <= 1 + 1e-9)),
                f"{100 * ratios.min():.1f} … {100 * ratios.max():.1f} % of them",
            ),
            Claim(
                "Eq. (44) as printed lets throughput follow β, as Fig. 12 and §6.1's ridge at β = 4 need",
                max(printed) > min(printed),
                f"it is {printed[0]:g} for every β; with β/λ2 it rises to {max(curves['2 subsystems']):g} at "
                f"β = {LAMBDA_2 / LAMBDA_1:g}",
            ),
        ),
        assumptions=(
            "λ1 = 1, λ2 = 4 and IL = 1 as in the figure; β/λ2 is meant where Eqs. (44) and (45) print 1/λ2",
            f"Pipeline: {MIX_WARPS} warps, each a chain of {MIX_REPEATS} repetitions, Λ = λ, round robin",
        ),
        remarks=(
            "the forms are what full pipelines can do; other schedulers starve the second pipeline when both share "
            "the issue limit. Least part of a form at β = 2, 4, 8: "
            + ", ".join(f"{policy} {100 * part:.0f} %" for policy, part in others.items()),
        ),
        summary=Table(
            ("type 1 instructions per cycle", *(f"β = {beta}" for beta in shown)),
            tuple(
                (name, *(values[beta - 1] for beta in shown))
                for name, values in (*curves.items(), *((f"Pipeline: {n}", v) for n, v in simulated.items()))
            ),
        ),
    )


def _draw_figure12(curves: dict[str, list[float]], simulated: dict[str, list[float]], plt: Any) -> Any:
    figure, axis = plt.subplots(figsize=(7.4, 3.6))
    for (name, values), colour in zip(curves.items(), (*LINE_COLOURS[:3], *LINE_COLOURS[1:3]), strict=True):
        style = ":" if "printed" in name else "-"
        axis.plot(RATIOS, values, style, color=colour, label=name, marker=None if style == ":" else "o", markersize=3)
    for (name, values), colour in zip(simulated.items(), LINE_COLOURS, strict=False):
        label = f"Pipeline: {name}"
        axis.plot(RATIOS, values, "x", color=colour, label=label, markersize=5.5, markeredgewidth=1.1)
    axis.set_xlabel("β: instructions of type 1 for each one of type 2")
    axis.set_ylabel("type 1 instructions per cycle")
    axis.set_xticks(range(0, 21, 2))
    axis.set_ylim(0, 1.08)
    figure.legend(loc="outside right center")
    return figure


def _mix_on(beta: float, second_subsystem: str, issue_limit: float | None) -> float:
    """Type 1 instructions per cycle that Roofline gives: floating point is type 1, special functions type 2."""
    kernel = Workload(
        "instruction-mix", machine=EXAMPLE, mix=InstructionMix({"fp32": MixEntry(beta), "sfu": MixEntry(1.0)})
    )
    overrides = _mix_machine(second_subsystem, issue_limit)
    return float(predict(kernel, model="roofline", overrides=overrides).terms["WPC_roof"] * beta)


def mix_kernel(beta: int, repeats: int) -> DependenceGraph:
    """Fig. 11: a chain of β instructions of type 1 and one of type 2, repeated."""
    sequence = ["fp32"] * beta + ["sfu"]
    chain = [Instruction(name, (i - 1,) if i else ()) for i, name in enumerate(sequence * repeats)]
    return DependenceGraph(tuple(chain))


def _mix_simulated(beta: float, second_subsystem: str, issue_limit: float | None, policy: str = "rr") -> float:
    """The same from the Pipeline model: chains of repetitions (Fig. 11), in enough warps to fill the pipelines."""
    kernel = Workload(
        "instruction-mix",
        Launch(warps_per_sm=float(MIX_WARPS)),
        machine=EXAMPLE,
        graph=mix_kernel(int(beta), MIX_REPEATS),
    )
    made = predict(
        kernel,
        model="pipeline",
        overrides=_mix_machine(second_subsystem, issue_limit),
        options={"issue_limit": issue_limit is not None, "policy": policy},
    )
    return float(made.terms["WPC"] * beta * MIX_REPEATS)


def _mix_machine(second_subsystem: str, issue_limit: float | None) -> dict[str, Any]:
    overrides: dict[str, Any] = {
        "schedulers": 4096 if issue_limit is None else 1,
        "issue_width": 1.0 if issue_limit is None else issue_limit,
        "instructions.sfu.subsystem": second_subsystem,
    }
    for name, interval in (("fp32", LAMBDA_1), ("sfu", LAMBDA_2)):
        overrides |= {f"instructions.{name}.interval": interval, f"instructions.{name}.latency": interval}
    return overrides
