"""Lemeire et al., Figs. 2 and 14: the example kernel under all models, as published and corrected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warplens.analysis import COLUMNS, IntervalProfile
from warplens.api import place, predict
from warplens.models import Prediction
from warplens.models.papers import LEMEIRE
from warplens.reports.style import LINE_COLOURS
from warplens.workload import Needs, Workload, analyse

from .base import COMPARISON, Claim, Findings, Row, Table, compare, recipe

Array = NDArray[np.float64]

EXAMPLE = "lemeire-example"
OCCUPANCIES = np.arange(1.0, 21.0)
PAPER_ROOF = 1 / 4
PAPER_LATENCY = 25

#: How GPUMech is applied to the example (§2.5, §2.5.1): no compute latency, an issue rate of 1, as printed.
GPUMECH_OPTIONS = {"compute_latency": False, "clamp": False}
READINGS = {
    True: "memory accesses take issue slots, as GPUMech counts instructions",
    False: "memory accesses take no issue slot, as Lemeire's memory pipeline is apart",
}
GPUMECH_ASSUMPTION = (
    "GPUMech: no compute latencies (§2.5), issue rate 1 (§2.5.1), no contention (the interval profile has no "
    "requests). Solid: a memory access takes no issue slot; dotted: it takes one, as GPUMech itself counts"
)
#: Table 2 gives no issue limit, so the Pipeline model runs without one; each occupancy is one run of ω warps.
PIPELINE_OPTIONS = {"issue_limit": False}
PIPELINE_ASSUMPTION = (
    "Pipeline: one run of ω warps in one group without an issue limit (Table 2 has none), instructions of a warp in "
    "any order that the dependences allow. The paper does not say which scheduler it draws; round robin is solid, "
    "greedy-then-oldest dashed"
)


@dataclass(frozen=True)
class Line:
    """One curve of Figs. 2 and 14."""

    label: str
    model: str
    colour: str
    options: Mapping[str, Any] = field(default_factory=dict)
    memory_issues: bool | None = None
    """GPUMech only: the entry of `READINGS` that its intervals follow."""
    style: str = "-"

    def prediction(self, warps: Array = OCCUPANCIES) -> Prediction:
        overrides: dict[str, Any] = {"launch.warps_per_sm": warps}
        if self.memory_issues is None:
            return predict(EXAMPLE, model=self.model, overrides=overrides, options=self.options)
        kernel = example_intervals(memory_issues=self.memory_issues)
        return predict(
            kernel,
            model=self.model,
            overrides={**overrides, "schedulers": 1},
            options={**GPUMECH_OPTIONS, **self.options},
        )


def warps_per_cycle(prediction: Prediction) -> Array:
    """WPC of a core: ω warps in the cycles of one run."""
    return np.asarray(prediction.terms["W"] / prediction.cycles)


def example_intervals(*, memory_issues: bool) -> Workload:
    """The example as intervals without compute latency or requests, see `READINGS`."""
    workload, gpu = place(EXAMPLE, overrides={"schedulers": 1})
    facts = analyse(workload, gpu, Needs("interval_profile", compute_latency=False), "GPUMech")
    _, profile = next(iter(facts.intervals))
    matrix = profile.matrix.copy()
    if not memory_issues:
        matrix[:, COLUMNS.index("instructions")] -= profile.column("memory_instructions")
    for name in ("memory_instructions", "read_misses", "llc_miss_ratio"):
        matrix[:, COLUMNS.index(name)] = 0.0
    return replace(workload, graph=None, profile=IntervalProfile(matrix, profile.causes))


PIPELINE = (
    Line("Pipeline RR", "pipeline", LINE_COLOURS[6], {**PIPELINE_OPTIONS, "policy": "rr"}),
    Line("Pipeline GTO", "pipeline", LINE_COLOURS[6], {**PIPELINE_OPTIONS, "policy": "gto"}, style="--"),
)
FIGURE2 = (
    Line("Roofline", "roofline", LINE_COLOURS[7]),
    Line("Volkov", "volkov", LINE_COLOURS[0]),
    Line("Transit", "transit", LINE_COLOURS[5]),
    Line("MWP-CWP", "mwp-cwp", LINE_COLOURS[1], {"form": "lemeire"}),
    Line("WFG", "wfg", LINE_COLOURS[2]),
    Line("GPUMech RR", "gpumech-mt", LINE_COLOURS[3], {"policy": "rr"}, False),
    Line("GPUMech RR", "gpumech-mt", LINE_COLOURS[3], {"policy": "rr"}, True),
    Line("GPUMech GTO", "gpumech-mt", LINE_COLOURS[4], {"policy": "gto"}, False),
    Line("GPUMech GTO", "gpumech-mt", LINE_COLOURS[4], {"policy": "gto"}, True),
    *PIPELINE,
)
FIGURE14 = (
    Line("Volkov", "volkov", LINE_COLOURS[0]),
    Line("MWP-CWP*", "mwp-cwp-corrected", LINE_COLOURS[1]),
    Line("WFG*", "wfg-corrected", LINE_COLOURS[2]),
    Line("GPUMech RR*", "gpumech-rr-corrected", LINE_COLOURS[3], {}, False),
    Line("GPUMech RR*", "gpumech-rr-corrected", LINE_COLOURS[3], {}, True),
    Line("GPUMech GTO", "gpumech-mt", LINE_COLOURS[4], {"policy": "gto"}, False),
    Line("GPUMech GTO", "gpumech-mt", LINE_COLOURS[4], {"policy": "gto"}, True),
    *PIPELINE,
)


def _curves(lines: tuple[Line, ...], made: list[Prediction], printed: dict[tuple[str, float], float]) -> list[Row]:
    return [
        (
            line.label,
            line.model,
            "" if line.memory_issues is None else READINGS[line.memory_issues],
            warps,
            value,
            printed.get((line.label, warps)),
        )
        for line, prediction in zip(lines, made, strict=True)
        for warps, value in zip(OCCUPANCIES.tolist(), warps_per_cycle(prediction).tolist(), strict=True)
    ]


def _draw_curves(lines: tuple[Line, ...], made: list[Prediction], zoom: float | None = None) -> Any:
    """Draw all curves; with `zoom`, after a panel of low occupancies up to that height."""

    def panel(axis: Any) -> None:
        axis.axhline(PAPER_ROOF, color="#bbbbbb", linewidth=6, alpha=0.5, zorder=0)
        for line, prediction in zip(lines, made, strict=True):
            dotted = line.memory_issues is True
            axis.plot(
                OCCUPANCIES,
                warps_per_cycle(prediction),
                color=line.colour,
                linestyle=":" if dotted else line.style,
                marker=None if dotted or line.style != "-" else "o",
                markersize=3,
                label=f"{line.label}, memory issued" if dotted else line.label,
            )
        axis.set_xlabel("occupancy ω [warps]")
        axis.set_xlim(0, OCCUPANCIES[-1] + 0.4)
        axis.set_xticks(range(0, 21, 2))
        axis.set_ylim(0, 1.1 * max(warps_per_cycle(prediction).max() for prediction in made))

    def draw(plt: Any) -> Any:
        count = 1 if zoom is None else 2
        figure, axes = plt.subplots(1, count, figsize=(3.4 + 4.0 * count, 4.0), squeeze=False)
        for axis in axes[0]:
            panel(axis)
        if zoom is not None:
            axes[0, 0].set_xlim(0, 8.4)
            axes[0, 0].set_xticks(range(9))
            axes[0, 0].set_ylim(0, zoom)
            axes[0, 0].set_title("low occupancies", loc="left", fontsize=9)
        axes[0, 0].set_ylabel("warps per cycle (WPC)")
        roof = (0.2, PAPER_ROOF)
        axes[0, 0].annotate("roof 1/4", roof, xytext=(0, 5), textcoords="offset points", fontsize=8, color="#777777")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
        return figure

    return draw


def _summary(lines: tuple[Line, ...], made: list[Prediction], extra: list[Row]) -> Table:
    at = (1, 4, 7, 20)
    rows: list[Row] = [*extra]
    for line, prediction in zip(lines, made, strict=True):
        values = warps_per_cycle(prediction)
        note = ", memory issued" if line.memory_issues else ""
        shown = ", ".join(f"{values[warps - 1]:.4f}" for warps in at)
        rows.append((f"{line.label}{note}: WPC at ω = {', '.join(map(str, at))}", None, shown, ""))
    return Table(COMPARISON, tuple(rows))


# -- Figure 2 ---------------------------------------------------------------------------


@recipe(
    "lemeire-fig2",
    LEMEIRE,
    "Figure 2: the example kernel under the models as published",
    "warps per cycle against occupancy; Λ_app, WPC(1), the roof, MWP and CWP, and what the text says of the curves",
)
def figure2() -> Findings:
    made = [line.prediction() for line in FIGURE2]
    by_line = {(line.label, line.memory_issues): p for line, p in zip(FIGURE2, made, strict=True)}
    volkov, mwp_cwp = by_line["Volkov", None], by_line["MWP-CWP", None]
    values: list[Row] = [
        compare("Λ_app (Volkov)", PAPER_LATENCY, float(volkov.terms["Lambda_app"][0])),
        compare("WPC(1) (Volkov)", 1 / PAPER_LATENCY, float(warps_per_cycle(volkov)[0])),
        compare("WPC of the roof (Roofline)", PAPER_ROOF, float(by_line["Roofline", None].terms["WPC_roof"][0])),
        compare("warps that reach the roof (Volkov)", 7, _first_at(warps_per_cycle(volkov), PAPER_ROOF)),
        compare("MWP", 3, float(mwp_cwp.terms["MWP"][0])),
        compare("CWP", 4, float(mwp_cwp.terms["CWP"][0])),
    ]
    printed = {("Volkov", 1.0): 1 / PAPER_LATENCY, ("Volkov", 7.0): PAPER_ROOF, ("Roofline", 7.0): PAPER_ROOF}
    return Findings(
        columns=("model", "warplens model", "reading", "warps", "warps per cycle", "paper"),
        rows=tuple(_curves(FIGURE2, made, printed)),
        draw=_draw_curves(FIGURE2, made, zoom=0.3),
        claims=_figure2_claims(by_line),
        assumptions=(GPUMECH_ASSUMPTION, PIPELINE_ASSUMPTION),
        summary=_summary(FIGURE2, made, values),
    )


def _figure2_claims(by_line: dict[tuple[str, bool | None], Prediction]) -> tuple[Claim, ...]:
    wpc = {key: warps_per_cycle(prediction) for key, prediction in by_line.items()}
    volkov, wfg, mwp_cwp = wpc["Volkov", None], wpc["WFG", None], wpc["MWP-CWP", None]
    without_ilp = warps_per_cycle(
        predict(example_without_ilp(), model="volkov", overrides={"launch.warps_per_sm": OCCUPANCIES})
    )
    above = [int(w) for w in OCCUPANCIES if wfg[int(w) - 1] > volkov[int(w) - 1] * (1 + 1e-9)]
    higher = [int(w) for w in OCCUPANCIES if mwp_cwp[int(w) - 1] > volkov[int(w) - 1]]
    below_roof = wpc["Roofline", None] > volkov * (1 + 1e-9)
    claims = [
        Claim(
            "Volkov and Transit give the same roofline if ILP is not considered (Theorem 1)",
            bool(np.allclose(wpc["Transit", None], without_ilp, rtol=1e-12, atol=0)),
            f"both 1/{1 / without_ilp[0]:g} at ω = 1; with one independent instruction Volkov has "
            f"1/{1 / volkov[0]:g}",
        ),
        Claim(
            "MWP-CWP is higher than Volkov for low occupancies (§2.3.2)",
            bool(higher) and higher == list(range(1, len(higher) + 1)),
            f"ω = {higher[0]} … {higher[-1]}; at ω = 1 {mwp_cwp[0]:.4f} against {volkov[0]:.4f}",
        ),
        Claim(
            "WFG is slightly above Volkov's roofline for ω = 3 or 4 (§2.4.4)",
            {3, 4} <= set(above),
            f"ω = 3: {wfg[2]:.4f} against {volkov[2]:.4f}, ω = 4: {wfg[3]:.4f} against {volkov[3]:.4f}"
            + (
                f"; also at ω = 1 ({wfg[0]:.4f} against {volkov[0]:.4f}), as ILP of a block halves both latencies"
                if 1 in above
                else ""
            ),
        ),
    ]
    for issues, reading in READINGS.items():
        through = wpc["GPUMech RR", issues] > PAPER_ROOF * (1 + 1e-9)
        claims.append(
            Claim(
                f"GPUMech with RR goes through the roof (§2.5); {reading}",
                bool(np.any(through)),
                f"above 1/4 from ω = {OCCUPANCIES[np.argmax(through)]:g}, "
                f"{wpc['GPUMech RR', issues][-1]:.3f} at ω = 20",
            )
        )
    for issues, reading in READINGS.items():
        greedy, profile = wpc["GPUMech GTO", issues], example_intervals(memory_issues=issues).profile
        instructions = 0.0 if profile is None else profile.total_instructions
        claims.append(
            Claim(
                f"GPUMech with GTO converges to Volkov's roof (§2.5); {reading}",
                bool(np.isclose(greedy[-1], PAPER_ROOF, rtol=1e-9)),
                f"{greedy[-1]:.4f} at ω = 20: one issue a cycle for {instructions:g} instructions",
            )
        )
    greedy = wpc["GPUMech GTO", False]
    claims.append(
        Claim(
            "GPUMech with GTO is above Volkov before the roof, as it has no compute latencies (§2.5.2)",
            bool(np.all(greedy[below_roof] > volkov[below_roof])),
            f"ω = 1: {greedy[0]:.4f} against {volkov[0]:.4f}; ω = 6: {greedy[5]:.4f} against {volkov[5]:.4f}",
        )
    )
    pipeline = [wpc[line.label, None] for line in PIPELINE]
    claims.append(
        Claim(
            "Pipeline: one warp alone takes Λ_app = 25 cycles (§2.2)",
            all(bool(np.isclose(series[0], 1 / PAPER_LATENCY, rtol=1e-12)) for series in pipeline),
            ", ".join(f"{line.label} 1/{1 / wpc[line.label, None][0]:g}" for line in PIPELINE),
        )
    )
    claims.append(
        Claim(
            "Volkov gives an upper bound of the performance under limited occupancy (§2.2), Pipeline",
            all(bool(np.all(series <= volkov * (1 + 1e-9))) for series in pipeline),
            f"ω = 7: {pipeline[0][6]:.4f} (RR), {pipeline[1][6]:.4f} (GTO) against {volkov[6]:.4f}; ω = 20: "
            f"{pipeline[0][-1]:.4f}, {pipeline[1][-1]:.4f} against {volkov[-1]:.4f}",
        )
    )
    return tuple(claims)


def example_without_ilp() -> Workload:
    """The example's counts with every instruction dependent."""
    workload, gpu = place(EXAMPLE)
    mix = analyse(workload, gpu, Needs("instruction_mix"), "Volkov").mix
    dependent = {name: replace(entry, independent=0.0) for name, entry in mix.entries.items()}
    return replace(workload, graph=None, mix=replace(mix, entries=dependent))


def _first_at(values: Array, level: float) -> float:
    return float(OCCUPANCIES[np.argmax(values >= level * (1 - 1e-9))])


# -- Figure 14 --------------------------------------------------------------------------


@recipe(
    "lemeire-fig14",
    LEMEIRE,
    "Figure 14: the example kernel under the corrected models",
    "warps per cycle against occupancy with Lemeire's corrections, and what the text says of the curves",
)
def figure14() -> Findings:
    made = [line.prediction() for line in FIGURE14]
    wpc = {(line.label, line.memory_issues): warps_per_cycle(p) for line, p in zip(FIGURE14, made, strict=True)}
    volkov, wfg, mwp_cwp = wpc["Volkov", None], wpc["WFG*", None], wpc["MWP-CWP*", None]
    tolerance = 1 + 1e-9
    rising = volkov < PAPER_ROOF / tolerance
    wfg_above = [int(w) for w in OCCUPANCIES if wfg[int(w) - 1] > volkov[int(w) - 1] * tolerance]
    claims = [
        Claim(
            "Volkov is an upper bound for occupancy-bound kernels (§5.1), MWP-CWP*",
            bool(np.all(mwp_cwp <= volkov * tolerance)),
            f"equal at ω = 1 ({mwp_cwp[0]:.4f}), then below: fill and drain cost {mwp_cwp[6]:.4f} against "
            f"{volkov[6]:.4f} at ω = 7",
        ),
        Claim(
            "Volkov is an upper bound for occupancy-bound kernels (§5.1), WFG*",
            not wfg_above,
            f"above at ω = {', '.join(map(str, wfg_above)) or 'none'} (1/{1 / wfg[0]:g} against 1/{1 / volkov[0]:g} "
            "at ω = 1: WFG's ILP of a block halves the latency of both its computations, Volkov lets one overlap)",
        ),
        *(
            Claim(
                f"GPUMech is a bit above Volkov's curve, as it ignores compute latencies (footnote 2), {label}",
                bool(np.all(series[rising] > volkov[rising])),
                f"ω = 1: {series[0]:.4f} against {volkov[0]:.4f}; ω = 6: {series[5]:.4f} against {volkov[5]:.4f}",
            )
            for (label, issues), series in wpc.items()
            if issues is False
        ),
    ]
    for issues, reading in READINGS.items():
        robin = wpc["GPUMech RR*", issues]
        claims.append(
            Claim(
                f"corrected RR no longer goes through the roof (§2.5.1); {reading}",
                bool(np.all(robin <= PAPER_ROOF * tolerance)),
                f"largest {robin.max():.4f}, reached at ω = {_first_at(robin, robin.max()):g}",
            )
        )
    for line in PIPELINE:
        series = wpc[line.label, None]
        claims += [
            Claim(
                f"Volkov is an upper bound for occupancy-bound kernels (§5.1), {line.label}",
                bool(np.all(series <= volkov * tolerance)),
                f"equal at ω = 1 ({series[0]:.4f}), then below: {series[6]:.4f} against {volkov[6]:.4f} at ω = 7",
            ),
            Claim(
                f"a real scheduler flattens the curve further than fill and drain, MWP-CWP*, do (§5.1), {line.label}",
                bool(np.all(series <= mwp_cwp * tolerance)) and bool(series[-1] < mwp_cwp[-1]),
                f"ω = 4: {series[3]:.4f} against {mwp_cwp[3]:.4f}, ω = 10: {series[9]:.4f} against {mwp_cwp[9]:.4f}, "
                f"ω = 20: {series[-1]:.4f} against {mwp_cwp[-1]:.4f}",
            ),
        ]
    cycles = OCCUPANCIES / mwp_cwp
    rows: list[Row] = [
        compare("CPR(1) of MWP-CWP*, Λ_app", PAPER_LATENCY, float(cycles[0])),
        compare("CPR(20) of MWP-CWP*, Eq. (L-26): 4ω + 6", 86, float(cycles[-1])),
    ]
    return Findings(
        columns=("model", "warplens model", "reading", "warps", "warps per cycle", "paper"),
        rows=tuple(_curves(FIGURE14, made, {("Volkov", 1.0): 1 / PAPER_LATENCY, ("Volkov", 7.0): PAPER_ROOF})),
        draw=_draw_curves(FIGURE14, made),
        claims=tuple(claims),
        assumptions=(GPUMECH_ASSUMPTION, PIPELINE_ASSUMPTION),
        summary=_summary(FIGURE14, made, rows),
    )
