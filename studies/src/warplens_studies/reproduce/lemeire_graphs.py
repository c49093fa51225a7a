"""Lemeire et al.: dependence graphs (Figs. 1, 11, 15), WFG (Fig. 5), overlap (Figs. 4, 7) and mixes (Fig. 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warplens.analysis import DependenceGraph, Instruction
from warplens.api import place, predict
from warplens.machine import load_gpu
from warplens.models import instruction_mix_forms as forms
from warplens.models.papers import LEMEIRE
from warplens.reports.style import LINE_COLOURS
from warplens.simulators.pipeline import PipelineResult, simulate_pipeline
from warplens.workload import Launch, Needs, Workload, analyse

from ..validate import h200
from .base import COMPARISON, FROM_H200, Claim, Findings, Table, compare, recipe
from .hong_kim_periods import simulate_periods
from .lemeire import EXAMPLE, PAPER_LATENCY
from .lemeire_parts import mix_kernel
from .lemeire_pipeline import barrier_kernel
from .machine_tables import TABLE4

_COLOURS = {"comp": LINE_COLOURS[0], "mem": LINE_COLOURS[1], "fp32": LINE_COLOURS[0], "sfu": LINE_COLOURS[2]}
_COLOURS["barrier"] = LINE_COLOURS[3]
DRAWN = "the picture is not in the text; the graph is what the text says of it"

# -- dependence graphs ---------------------------------------------------------------------


def _graph_findings(graph: DependenceGraph, names: Sequence[str], claims: tuple[Claim, ...], shown: int) -> Findings:
    """A graph as rows and as a picture: one column for each step of the longest chain."""
    depth: list[int] = []
    for item in graph.instructions:
        depth.append(1 + max((depth[source] for source in item.depends), default=-1))

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(8.0, 1.9))
        height: dict[int, int] = {}
        places = []
        for item, level in list(zip(graph.instructions, depth, strict=True))[:shown]:
            places.append((level, height.get(level, 0)))
            height[level] = height.get(level, 0) - 1
            for source in item.depends:
                axis.annotate(
                    "",
                    places[-1],
                    places[source],
                    arrowprops={"arrowstyle": "->", "color": "#888888", "shrinkA": 12, "shrinkB": 12},
                )
        for (x, y), item, name in zip(places, graph.instructions, names, strict=False):
            axis.plot(x, y, "o", markersize=21, color=_COLOURS[item.instruction_class])
            axis.text(x, y, name, ha="center", va="center", color="white", fontsize=8)
        axis.set_xlim(-0.6, max(x for x, _ in places) + 0.6)
        axis.set_ylim(min(y for _, y in places) - 0.6, 0.6)
        axis.axis("off")
        return figure

    return Findings(
        columns=("instruction", "class", "depends on"),
        rows=tuple(
            (name, item.instruction_class, " ".join(names[source] for source in item.depends))
            for name, item in zip(names, graph.instructions, strict=True)
        ),
        draw=draw,
        claims=claims,
        assumptions=(DRAWN,),
    )


@recipe(
    "lemeire-fig1",
    LEMEIRE,
    "Figure 1: the example kernel",
    "our dependence graph of four computations and two memory instructions, against what the text says of it",
)
def figure1() -> Findings:
    workload, gpu = place(EXAMPLE)
    graph = workload.graph
    assert graph is not None
    mix = graph.instruction_mix(lambda name: gpu.timing(name).latency_cycles)
    latency = predict(workload, gpu, "volkov").terms["Lambda_app"]
    claims = (
        Claim(
            "four computational instructions and two memory instructions (§2)",
            (mix.compute_count, mix.memory_count) == (4, 2),
            f"{mix.compute_count:g} and {mix.memory_count:g}",
        ),
        Claim(
            "with the dependences, one warp takes Λ_app = 25 (§2.2)",
            latency == PAPER_LATENCY,
            f"{latency:g}: one computation is independent",
        ),
    )
    return _graph_findings(graph, ("C1", "C2", "M1", "C3", "C4", "M2"), claims, 6)


@recipe(
    "lemeire-fig11",
    LEMEIRE,
    "Figure 11: dependence graph of the instruction-mix kernel",
    "a chain of β instructions of type 1 and one of type 2, repeated, as lemeire-fig12 and lemeire-fig13 use it",
)
def figure11() -> Findings:
    beta, repeats = 4, 2
    graph = mix_kernel(beta, repeats)
    mix = graph.instruction_mix(lambda _: 1.0)
    ratio = mix.entries["fp32"].count / mix.entries["sfu"].count
    claim = Claim("β instructions of type 1 for each one of type 2 (§4.2)", ratio == beta, f"{ratio:g}, β = {beta}")
    names = ["2" if item.instruction_class == "sfu" else "1" for item in graph.instructions]
    return _graph_findings(graph, names, (claim,), len(names))


@recipe(
    "lemeire-fig15",
    LEMEIRE,
    "Figure 15: dependence graph of the iterative barrier kernel",
    "computations that depend on each other with a barrier after each, as lemeire-fig16 uses it",
)
def figure15() -> Findings:
    graph = barrier_kernel(5)
    names = ["B" if item.instruction_class == "barrier" else "I" for item in graph.instructions]
    claim = Claim(
        "dependent instructions, each separated by a barrier (§6.2)",
        names == ["I", "B"] * 5 and all(item.depends == (i,) for i, item in enumerate(graph.instructions[1:])),
        "I and B take turns, and each depends on the one before",
    )
    return _graph_findings(graph, names, (claim,), len(names))


# -- Figure 5 ------------------------------------------------------------------------------


@recipe(
    "lemeire-fig5",
    LEMEIRE,
    "Figure 5: WFG of the example kernel, with the latency of each arc",
    "cycles of each arc over occupancy by Equations (30), (33) and (36); their sum against our model",
)
def figure5() -> Findings:
    workload, gpu = place(EXAMPLE)
    graph = analyse(workload, gpu, Needs("work_flow_graph"), "Fig. 5").flow
    warps = np.arange(1.0, 11.0)
    computing, memory = gpu.timing("comp"), gpu.timing("mem")
    transition = {
        index: node.count * np.maximum(computing.interval_cycles, computing.latency_cycles / (node.ilp * warps))
        for index, node in enumerate(graph.nodes)
        if node.kind == "compute"
    }  # Eq. (L-30)
    accesses = sum(node.count for node in graph.of_kind("memory"))
    busy = sum(transition.values()) + computing.interval_cycles * accesses  # Eq. (L-31)
    exposed = memory.latency_cycles - (warps - 1) * busy / (accesses + 1)  # Eq. (L-35, L-36)
    leaving = computing.interval_cycles + np.maximum(0.0, memory.interval_cycles - busy / accesses)  # Eq. (L-33)
    arcs: dict[str, Any] = {}
    for index, node in enumerate(graph.nodes):
        name = f"{node.kind} {index + 1}"
        arcs[name] = transition[index] if node.kind == "compute" else np.maximum(leaving, exposed)
    made = predict(workload, gpu, "wfg", overrides={"launch.warps_per_sm": warps})
    total = sum(arcs.values())

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(7.2, 3.2))
        bottom = np.zeros(len(warps))
        for (name, values), colour in zip(arcs.items(), LINE_COLOURS, strict=False):
            axis.bar(warps, values, 0.7, bottom=bottom, label=f"after {name}", color=colour)
            bottom = bottom + values
        axis.plot(warps, made.terms["CPW"], "ko", markersize=4, label="our model's CPW")
        axis.set_xlabel("occupancy ω [warps]")
        axis.set_ylabel("cycles of an arc")
        figure.legend(loc="outside right upper", fontsize=8)
        return figure

    return Findings(
        columns=("occupancy", *(f"arc after {name} [cycles]" for name in arcs), "sum [cycles]", "CPW of wfg"),
        rows=tuple(
            zip(*(values.tolist() for values in (warps, *arcs.values(), total, made.terms["CPW"])), strict=True)
        ),
        draw=draw,
        claims=(
            Claim(
                "the runtime of a warp is the sum of the arcs, of a memory node the larger one (§2.4.1)",
                bool(np.allclose(total, made.terms["CPW"], rtol=1e-12)),
                f"at ω = 1: {total[0]:g} from the arcs, {made.terms['CPW'][0]:g} from the model; same for ω = 2 … 10",
            ),
        ),
        assumptions=("nodes as our graph groups them: computations up to a memory instruction are one node",),
    )


# -- Figures 4 and 7 -----------------------------------------------------------------------


def _run(graph: DependenceGraph, warps: int, overrides: Mapping[str, Any]) -> PipelineResult:
    kernel = Workload("overlap", Launch(warps_per_sm=float(warps)), machine=EXAMPLE, graph=graph)
    placed, gpu = place(kernel, overrides=overrides)
    return simulate_pipeline(placed, gpu, policy="rr", issue_limit=False, record=True)


@recipe(
    "lemeire-fig4",
    LEMEIRE,
    "Figure 4: MWP-CWP and the Pipeline model on memory transactions",
    "when each of four transactions starts and ends, with MWP = 3 and with λ_mem between starts",
)
def figure4() -> Findings:
    _, gpu = place(EXAMPLE)
    memory = gpu.timing("mem")
    mwp = int(memory.latency_cycles / memory.interval_cycles)
    waves = [p for p in simulate_periods(4, 1, 0.0, memory.latency_cycles, mwp) if p.kind == "memory"]
    profile = _run(DependenceGraph((Instruction("mem"),)), 4, {}).profile
    assert profile is not None
    found = {
        "MWP-CWP": [(p.start, p.end) for p in waves],
        "Pipeline": [(float(a), float(b)) for a, b in zip(profile.start, profile.done, strict=True)],
    }

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.2), sharex=True)
        for axis, (name, spans) in zip(axes, found.items(), strict=True):
            for row, (start, end) in enumerate(spans):
                axis.barh(row + 1, end - start, left=start, color=LINE_COLOURS[row], height=0.7)
            axis.invert_yaxis()
            axis.set_title(name, loc="left", fontsize=9)
            axis.set_xlabel("cycle")
            axis.grid(axis="y", visible=False)
        axes[0].set_ylabel("transaction")
        return figure

    ends = {name: [end for _, end in spans] for name, spans in found.items()}
    rate = 3 / (ends["MWP-CWP"][2] - found["MWP-CWP"][0][0]), 1 / memory.interval_cycles
    return Findings(
        columns=("model", "transaction", "start [cycle]", "end [cycle]"),
        rows=tuple((name, i + 1, *span) for name, spans in found.items() for i, span in enumerate(spans)),
        draw=draw,
        claims=(
            Claim(
                "MWP-CWP: the fourth transaction waits until the first finishes (§2.3.4)",
                found["MWP-CWP"][3][0] == ends["MWP-CWP"][0],
                f"it starts in cycle {found['MWP-CWP'][3][0]:g}",
            ),
            Claim(
                "Pipeline: the second and third start later (§2.3.4)",
                [start for start, _ in found["Pipeline"]] == [0, 2, 4, 6],
                "starts in cycles " + ", ".join(f"{start:g}" for start, _ in found["Pipeline"]),
            ),
            Claim(
                "MWP-CWP: the first three finish at a rate above the bandwidth (§2.3.4)",
                rate[0] >= rate[1] and ends["MWP-CWP"][0] == ends["MWP-CWP"][2],
                f"all in cycle {ends['MWP-CWP'][2]:g}; the bandwidth is one in {memory.interval_cycles:g} cycles",
            ),
        ),
    )


@recipe(
    "lemeire-fig7",
    LEMEIRE,
    "Figure 7: overlap of λ_comp of the next warps with latencies of the first",
    "when computations of five warps issue, against the latencies of computation and memory of the first",
)
def figure7() -> Findings:
    latency, memory = 3.0, 6.0
    graph = DependenceGraph((Instruction("comp"), Instruction("mem", (0,))))
    overrides = {"instructions.comp.latency": latency, "instructions.mem.latency": memory}
    profile = _run(graph, 5, overrides).profile
    assert profile is not None
    rows = [
        (int(profile.warp[i]) + 1, profile.instruction_class[i], float(profile.start[i]), float(profile.done[i]))
        for i in range(len(profile))
    ]
    issue = {warp: start for warp, name, start, _ in rows if name == "comp"}
    under_compute = [warp for warp, start in issue.items() if warp > 1 and start < latency]
    under_memory = [warp for warp, start in issue.items() if start >= latency]

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(7.6, 2.4))
        for warp, name, start, end in rows:
            axis.barh(warp, end - start, left=start, color=_COLOURS[name], alpha=0.35, height=0.75)
            held = 1.0 if name == "comp" else 2.0
            axis.barh(warp, held, left=start, color=_COLOURS[name], height=0.75)
        axis.axvspan(0, latency, color="#dddddd", alpha=0.5, zorder=0)
        axis.set_yticks(range(1, 6), [f"warp {warp}" for warp in range(1, 6)], fontsize=8)
        axis.invert_yaxis()
        axis.set_xlabel("cycle (blue: computation, red: memory; pale: latency; shaded: computation of warp 1)")
        axis.grid(axis="y", visible=False)
        return figure

    return Findings(
        columns=("warp", "class", "start [cycle]", "done [cycle]"),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "λ_comp of warps 2 and 3 overlap with the computational latency of warp 1 (§2.4.4)",
                under_compute == [2, 3],
                f"warps {', '.join(map(str, under_compute))}",
            ),
            Claim(
                "only warps 4 and 5 overlap with its memory latency (§2.4.4)",
                under_memory == [4, 5],
                f"warps {', '.join(map(str, under_memory))}",
            ),
        ),
        assumptions=(f"λ_comp = 1, Λ_comp = {latency:g}, Λ_mem = {memory:g}: the figure's lengths are not printed",),
    )


# -- Figure 13 -----------------------------------------------------------------------------

BETAS = np.arange(1.0, 21.0)
MEASURED = {1: "instruction_mix_1", 4: "instruction_mix_4", 16: "instruction_mix_16"}


def _forms(alu: float, sfu: float, limit: float) -> dict[str, list[float]]:
    return {
        "1 subsystem": [forms.one_subsystem_ipc(b, alu, sfu) for b in BETAS],
        "2 subsystems": [forms.two_subsystems_ipc(b, alu, sfu) for b in BETAS],
        "2 subsystems, issue limit": [forms.issue_limited_ipc(b, alu, sfu, limit) for b in BETAS],
    }


@recipe(
    "lemeire-fig13",
    LEMEIRE,
    "Figure 13: the instruction-mix kernel on real GPUs, and three models",
    "the three models with the parameters of Table 4, and measured throughput of three mixes on an H200",
    data=FROM_H200,
)
def figure13() -> Findings:
    curves = {device: _forms(*numbers) for device, (_, *numbers) in TABLE4.items()}
    gpu = load_gpu("h200")
    curves["H200"] = _forms(
        gpu.timing("fp32").interval_cycles, gpu.timing("sfu").interval_cycles, float(gpu.issue_rate)
    )
    runs = h200.measurements()
    real = {
        beta: runs[name, 0].warp_instructions / runs[name, 0].active_cycles / gpu.sms * beta / (beta + 1)
        for beta, name in MEASURED.items()
    }
    errors = {
        model: float(np.mean([abs(values[beta - 1] / value - 1) for beta, value in real.items()]))
        for model, values in curves["H200"].items()
    }

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(2, 4, figsize=(10.0, 4.4), sharex=True)
        for axis, (device, models) in zip(axes.flat, curves.items(), strict=False):
            for (name, values), colour in zip(models.items(), LINE_COLOURS, strict=False):
                axis.plot(BETAS, values, label=name, color=colour)
            axis.set_title(device, loc="left", fontsize=9)
            axis.set_ylim(0)
        axes.flat[6].plot(list(real), list(real.values()), "ko", markersize=5, label="measured (H200)")
        axes.flat[7].axis("off")
        handles, labels = axes.flat[6].get_legend_handles_labels()
        axes.flat[7].legend(handles, labels, loc="center left", fontsize=8)
        for axis in axes[1]:
            axis.set_xlabel("β")
        for axis in axes[:, 0]:
            axis.set_ylabel("ALU instructions/cycle")
        return figure

    return Findings(
        columns=("gpu", "beta", *curves["H200"], "measured"),
        rows=tuple(
            (device, float(beta), *(v[i] for v in models.values()), real.get(int(beta)) if device == "H200" else None)
            for device, models in curves.items()
            for i, beta in enumerate(BETAS)
        ),
        draw=draw,
        claims=(
            Claim(
                "separate ALU and SFU with an issue limit model the GPU best (§4.2, Fermi and Kepler), here an H200",
                min(errors, key=errors.__getitem__) == "2 subsystems, issue limit",
                "mean error of three mixes: " + ", ".join(f"{model} {100 * e:.0f} %" for model, e in errors.items()),
            ),
        ),
        remarks=(
            "measured curves of the paper's GPUs are in no text, so their panels show the models alone",
            "measured: all instructions of our kernel, loads and stores too, count as the mix, over active cycles",
        ),
        summary=Table(
            COMPARISON,
            tuple(compare(f"H200, β = {beta}: type 1 per cycle and SM", None, value) for beta, value in real.items()),
        ),
    )
