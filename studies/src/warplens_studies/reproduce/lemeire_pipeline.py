"""Lemeire et al., Figs. 8, 9 and 16: execution profiles of the example, and barriers against group sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warplens.analysis import DependenceGraph, Instruction
from warplens.api import place
from warplens.machine import Gpu, load_gpu
from warplens.models.papers import LEMEIRE
from warplens.reports.style import LINE_COLOURS
from warplens.reports.timeline import panels
from warplens.simulators.pipeline import PipelineResult, simulate_pipeline
from warplens.workload import Launch, Workload

from .base import COMPARISON, Claim, Findings, Row, Table, compare, recipe
from .lemeire import EXAMPLE, PAPER_LATENCY

PROFILE_COLUMNS = ("occupancy", "warp", "instruction", "class", "pipeline", "start", "end of lambda", "end of Lambda")
PROFILE_ASSUMPTION = (
    "round robin without an issue limit (the text names no scheduler, and Table 2 no limit); the graph of Fig. 1 as "
    "the text describes it, as the picture is not in it"
)
READING = (
    "each box is an instruction (warp.instruction), dark while it holds its pipeline (λ), pale until its result is "
    "there (Λ); colours are warps; arrows lead to instructions that waited for the result"
)


def example_profile(warps: int) -> PipelineResult:
    """The example kernel with `warps` warps, recorded."""
    workload, gpu = place(EXAMPLE, overrides={"launch.warps_per_sm": float(warps)})
    return simulate_pipeline(workload, gpu, policy="rr", issue_limit=False, record=True)


def _profile_findings(occupancies: tuple[int, int], claims: Any) -> Findings:
    results = {warps: example_profile(warps) for warps in occupancies}
    rows: list[Row] = []
    values: list[Row] = []
    for warps, result in results.items():
        profile = result.profile
        assert profile is not None
        for row in range(len(profile)):
            rows.append(
                (
                    float(warps),
                    float(profile.warp[row] + 1),
                    float(profile.instruction[row] + 1),
                    profile.instruction_class[row],
                    profile.pipelines[profile.pipeline[row]],
                    float(profile.start[row]),
                    float(profile.busy_until[row]),
                    float(profile.done[row]),
                )
            )
        values.append(compare(f"cycles, ω = {warps}", PAPER_LATENCY if warps == 1 else None, result.cycles))
        for name, use in result.pipelines.items():
            values.append(compare(f"fill rate of {name}, ω = {warps}", None, use.fill_rate))

    def draw(plt: Any) -> Any:
        return panels(
            [
                (f"ω = {warps}: {result.cycles:g} cycles", result.profile)
                for warps, result in results.items()
                if result.profile is not None
            ],
            plt,
        )

    return Findings(
        columns=PROFILE_COLUMNS,
        rows=tuple(rows),
        draw=draw,
        claims=claims(results),
        assumptions=(PROFILE_ASSUMPTION,),
        remarks=(READING,),
        summary=Table(COMPARISON, tuple(values)),
    )


@recipe(
    "lemeire-fig8",
    LEMEIRE,
    "Figure 8: execution profile of the example kernel, 1 and 2 warps",
    "which instruction holds which pipeline when, simulated; cycles of one warp against Λ_app",
)
def figure8() -> Findings:
    def claims(results: dict[int, PipelineResult]) -> tuple[Claim, ...]:
        one, two = results[1], results[2]
        assert one.profile is not None
        waited = int(np.count_nonzero(one.profile.waited_for >= 0))
        return (
            Claim(
                "one warp alone takes Λ_app = 25 cycles (§2.2)",
                one.cycles == PAPER_LATENCY,
                f"{one.cycles:g} cycles; {waited} of 6 instructions wait for a result",
            ),
            Claim(
                "successive warps cannot be hidden completely behind the first (§5.1)",
                one.cycles < two.cycles < 2 * one.cycles,
                f"two warps take {two.cycles:g} cycles",
            ),
        )

    return _profile_findings((1, 2), claims)


@recipe(
    "lemeire-fig9",
    LEMEIRE,
    "Figure 9: execution profile of the example kernel, 4 and 10 warps",
    "which instruction holds which pipeline when, simulated; where the pipelines are idle",
)
def figure9() -> Findings:
    def claims(results: dict[int, PipelineResult]) -> tuple[Claim, ...]:
        idle = {name: _idle_inside(results[10], name) for name in results[10].pipelines}
        four = {name: _idle_inside(results[4], name) for name in results[4].pipelines}
        return (
            Claim(
                "10 warps: almost at the peak, no idle periods but for fill and drain (Fig. 9), memory pipeline",
                idle["memory"] == 0,
                f"{idle['memory']:g} idle cycles between its first and last instruction ({four['memory']:g} with 4 "
                f"warps): busy for {results[10].pipelines['memory'].busy_cycles:g} cycles without a pause, of "
                f"{results[10].cycles:g} with fill and drain",
            ),
            Claim(
                "the same, compute pipeline",
                idle["compute"] == 0,
                f"{idle['compute']:g} idle cycles: computations wait for the memory pipeline, which is full",
            ),
        )

    return _profile_findings((4, 10), claims)


def _idle_inside(result: PipelineResult, pipeline: str) -> float:
    """Idle cycles of a pipeline between its first and its last instruction."""
    profile = result.profile
    assert profile is not None
    rows = profile.pipeline == profile.pipelines.index(pipeline)
    span = profile.busy_until[rows].max() - profile.start[rows].min()
    return float(span - result.pipelines[pipeline].busy_cycles)


# -- Figure 16 --------------------------------------------------------------------------

BARRIER_REPEATS = 64
#: Table 8: mean absolute percentage error of the paper's own simulation on this kernel.
BARRIER_GPUS = {"Fermi": ("tesla-c2050", 3.8), "Pascal": ("gtx1060", 5.1)}
LARGEST_GROUP = 1024


@dataclass(frozen=True)
class BarrierRun:
    """One point of Fig. 16."""

    occupancy: int
    group_warps: int
    result: PipelineResult

    @property
    def performance(self) -> float:
        """Computational instructions per cycle of one SM."""
        return self.result.warps_per_cycle * BARRIER_REPEATS


def barrier_kernel(repeats: int = BARRIER_REPEATS) -> DependenceGraph:
    """Fig. 15: computations that depend on each other, with a barrier after each."""
    names = ("fp32", "barrier") * repeats
    return DependenceGraph(tuple(Instruction(name, (i - 1,) if i else ()) for i, name in enumerate(names)))


def barrier_runs(gpu: Gpu) -> list[BarrierRun]:
    """All occupancies and group sizes, sorted like the figure: by occupancy, then by group size."""
    graph = barrier_kernel()
    runs = []
    for occupancy in range(1, int(gpu.max_warps) + 1):
        for size in range(1, min(occupancy, LARGEST_GROUP // int(gpu.warp_size)) + 1):
            groups = occupancy // size
            if groups * size != occupancy or groups > gpu.max_blocks:
                continue
            launch = Launch(threads_per_block=size * int(gpu.warp_size), blocks_per_sm=float(groups))
            kernel = Workload("iterative-barrier", launch, graph=graph)
            runs.append(BarrierRun(occupancy, size, simulate_pipeline(kernel, gpu)))
    return runs


@recipe(
    "lemeire-fig16",
    LEMEIRE,
    "Figure 16: the iterative barrier kernel, all occupancies and group sizes",
    "computational instructions per cycle of one SM on Fermi and Pascal, sorted on occupancy, then on group size",
)
def figure16() -> Findings:
    found = {device: barrier_runs(load_gpu(name)) for device, (name, _) in BARRIER_GPUS.items()}
    rows: list[Row] = []
    values: list[Row] = []
    claims: list[Claim] = []
    for device, runs in found.items():
        name, error = BARRIER_GPUS[device]
        for run in runs:
            use = run.result.pipelines["compute"]
            held = use.idle_cycles["barrier"] / run.result.simulated_cycles
            threads = float(run.group_warps * 32)
            rows.append((device, name, float(run.occupancy), threads, run.performance, use.fill_rate, held))
        best = max(runs, key=lambda run: run.performance)
        occupancy, spread = _largest_spread(runs)
        there = [run for run in runs if run.occupancy == occupancy]
        text = ", ".join(f"{run.performance:.3f} with {32 * run.group_warps} threads" for run in there)
        claims.append(
            Claim(
                f"the performance is highly influenced by the group size (§6.2), {device}",
                spread > 1.2,
                f"most at {occupancy} warps: {text}",
            )
        )
        values += [
            compare(f"{device}: experiments", None, float(len(runs))),
            compare(f"{device}: highest performance", None, best.performance),
            compare(f"{device}: best over worst group size at one occupancy, at most", None, spread),
            (f"{device}: error of the paper's simulation against measurements (Table 8)", f"{error} %", "–", ""),
        ]

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(len(found), 1, figsize=(9.6, 2.7 * len(found)), squeeze=False)
        for axis, (device, runs) in zip(axes[:, 0], found.items(), strict=True):
            _draw_runs(axis, runs)
            axis.set_title(f"{device} ({BARRIER_GPUS[device][0]})", loc="left", fontsize=9)
            axis.set_ylabel("instructions per cycle")
        axes[-1, 0].set_xlabel("experiments, sorted on occupancy [warps], within it on group size")
        return figure

    return Findings(
        columns=(
            "gpu",
            "machine",
            "occupancy [warps]",
            "group size [threads]",
            "instructions per cycle",
            "fill rate of compute",
            "part of the time that compute waits for barriers",
        ),
        rows=tuple(rows),
        draw=draw,
        claims=tuple(claims),
        assumptions=(
            f"the computation is mul.f32, {BARRIER_REPEATS} of them with a barrier after each; one run of the "
            "resident groups; scheduler of the machine file",
            "every group size of whole warps that divides the occupancy and fits the blocks an SM can hold; the text "
            "does not list the experiments",
        ),
        remarks=(
            "the text has no measured values for this figure, only the errors of Table 8: shapes can be compared, "
            "numbers cannot",
        ),
        summary=Table(COMPARISON, tuple(values)),
    )


def _largest_spread(runs: list[BarrierRun]) -> tuple[int, float]:
    """(the occupancy at which the group size matters most, best over worst performance there)."""
    by_occupancy: dict[int, list[float]] = {}
    for run in runs:
        by_occupancy.setdefault(run.occupancy, []).append(run.performance)
    spreads = {occupancy: max(values) / min(values) for occupancy, values in by_occupancy.items()}
    occupancy = max(spreads, key=spreads.__getitem__)
    return occupancy, spreads[occupancy]


def _draw_runs(axis: Any, runs: list[BarrierRun]) -> None:
    places = np.arange(len(runs))
    occupancies = np.array([run.occupancy for run in runs])
    starts = np.flatnonzero(np.diff(occupancies, prepend=0))
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(runs)], strict=True)):
        if number % 2:
            axis.axvspan(start - 0.5, end - 0.5, color="#f3f3f3", zorder=0)
    axis.plot(
        places, [run.performance for run in runs], color=LINE_COLOURS[0], marker="o", markersize=2.2, linewidth=0.9
    )
    shown = [start for start in starts if occupancies[start] % 4 == 0 or occupancies[start] == 1]
    axis.set_xticks(shown, [str(occupancies[start]) for start in shown])
    axis.set_xlim(-1, len(runs))
    axis.set_ylim(0)
    axis.grid(axis="x", visible=False)
