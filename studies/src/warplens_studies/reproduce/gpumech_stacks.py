"""GPUMech, MICRO 2014, Fig. 16: CPI stacks of three kernels over the warps per core, with the simulated CPI."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from warplens.models import MODELS
from warplens.models.papers import GPUMECH
from warplens.reports.style import CATEGORY_COLOURS

from ..validate.recorded import WARPS, recorded
from .applications import applications
from .base import FROM_SETS_SIMULATED, Claim, Findings, recipe
from .gpumech_errors import PARTS
from .kernels import OF_PROGRAMS, OF_SUITE, OURS, PROGRAMS, RECORDED, STANDINS, predicted, simulated

#: The paper's kernels, and how far their accesses diverge.
ROLES = (
    "cfd_step_factor: coalesced",
    "cfd_compute_flux: medium divergence",
    "kmeans_invert_mapping: divergent stores",
)
#: Our kernel for each of them: the programs' own, the suite's, and small ones chosen by divergence.
KERNELS = {
    PROGRAMS: (
        "rod-cfd: cuda_compute_step_factor",
        "rod-cfd: cuda_compute_flux",
        "hec-kmeans: feature_transpose",
    ),
    STANDINS: ("vector_add", "cfd_flux", "kmeans_invert_mapping"),
    OURS: ("copy", "strided8", "scatter"),
}
CATEGORIES = MODELS["gpumech"].categories or ()
_FLAT = 0.05


def _setting(warps: int) -> str:
    return "gpumech-rr" if warps == 32 else f"gpumech-warps{warps}"


@dataclass(frozen=True)
class _Stacks:
    """GPUMech's stacks of a kernel over the warps per core, and the simulated CPI."""

    simulated: list[float]
    stacks: list[dict[str, float]]

    @property
    def modelled(self) -> list[float]:
        return [sum(stack.values()) for stack in self.stacks]

    def share(self, warps: int, *names: str) -> float:
        stack = self.stacks[WARPS.index(warps)]
        return sum(stack[name] for name in names) / sum(stack.values())

    def largest(self, warps: int) -> str:
        stack = self.stacks[WARPS.index(warps)]
        return max(stack, key=lambda name: stack[name])


def _stacks_of(source: str, kernel: str) -> _Stacks:
    if source == PROGRAMS:
        runs = [applications()[kernel].runs[_setting(n)] for n in WARPS]
        return _Stacks([run.cpi for run in runs], [dict(run.stack) for run in runs])
    made = [predicted("gpumech", _setting(n), kernel) for n in WARPS]
    stacks = [{name: float((each.stack or {})[name]) for name in CATEGORIES} for each in made]
    if source == OURS:
        return _Stacks([recorded()[_setting(n), kernel].cpi for n in WARPS], stacks)
    results = [simulated(_setting(n), kernel) for n in WARPS]
    return _Stacks([float(each.cpi) for each in results if each is not None], stacks)


def _directions(values: list[float]) -> list[int]:
    """Direction of each step: 1 up, -1 down, 0 for a change below 5 %."""
    steps = [b / a - 1 for a, b in itertools.pairwise(values)]
    return [0 if abs(step) < _FLAT else 1 if step > 0 else -1 for step in steps]


def _percent(*shares: float) -> str:
    return ", ".join(f"{100 * value:.0f}" for value in shares) + " %"


def _claims(source: str, found: Mapping[str, _Stacks]) -> list[Claim]:
    """What §VII-A says of the three kernels."""
    coalesced, medium, stores = found.values()
    mshr = [coalesced.share(n, "MSHR") for n in WARPS]
    contention = [coalesced.share(n, "MSHR", "QUEUE") for n in WARPS[:3]]
    trends = [
        Claim(
            f"GPUMech predicts the scaling trend (§VII-A); {kernel}, {source}",
            _directions(each.modelled) == _directions(each.simulated),
            f"CPI of 8, 16, 32, 48 warps: simulated {', '.join(f'{v:.1f}' for v in each.simulated)}, GPUMech "
            f"{', '.join(f'{v:.1f}' for v in each.modelled)} (steps below 5 % count as none)",
        )
        for kernel, each in found.items()
    ]
    return [
        *trends,
        Claim(
            f"coalesced: MSHR delays appear with 48 warps only (§VII-A); {source}",
            max(mshr[:3]) < 0.01 < mshr[3],
            f"MSHR's share {_percent(*mshr)}",
        ),
        Claim(
            f"coalesced: MSHR and QUEUE are negligible with fewer than 48 warps (§VII-A); {source}",
            max(contention) < 0.1,
            f"{_percent(*contention)} of the CPI (counted: 10 %)",
        ),
        Claim(
            f"medium divergence: with 8 warps MSHR, 10.8 %, and QUEUE, 3.8 %, are the lesser part (§VII-A); {source}",
            medium.share(8, "MSHR", "QUEUE") < 0.5,
            f"{_percent(medium.share(8, 'MSHR'), medium.share(8, 'QUEUE'))} of the CPI",
        ),
        Claim(
            f"medium divergence: with 32 warps MSHR dominates (§VII-A); {source}",
            medium.largest(32) == "MSHR",
            f"largest is {medium.largest(32)}, MSHR {_percent(medium.share(32, 'MSHR'))}",
        ),
        Claim(
            f"divergent stores: QUEUE is high with 8 warps (§VII-A); {source}",
            stores.largest(8) == "QUEUE",
            f"{_percent(stores.share(8, 'QUEUE'))} of the CPI",
        ),
        Claim(
            f"divergent stores: DRAM is negligible with 8 warps, as 90.5 % of the loads hit L1 (§VII-A); {source}",
            stores.share(8, "DRAM") < 0.1,
            f"{_percent(stores.share(8, 'DRAM'))} of the CPI",
        ),
    ]


@recipe(
    "gpumech-fig16",
    GPUMECH,
    "Figure 16: CPI stacks over the number of warps per core",
    "GPUMech's CPI stacks and the CPI of our reference simulator, over the simulated one with 8 warps",
    data=FROM_SETS_SIMULATED,
)
def figure16() -> Findings:
    found = {
        source: {kernel: _stacks_of(source, kernel) for kernel in kernels} for source, kernels in KERNELS.items()
    }
    return Findings(
        columns=("reference", "kernel", "warps per core", "simulated CPI", "GPUMech CPI", *CATEGORIES),
        rows=tuple(
            (source, kernel, n, each.simulated[i], each.modelled[i], *(each.stacks[i][name] for name in CATEGORIES))
            for source, kernels in found.items()
            for kernel, each in kernels.items()
            for i, n in enumerate(WARPS)
        ),
        draw=partial(_draw_figure16, found),
        claims=tuple(claim for source, kernels in found.items() for claim in _claims(source, kernels)),
        assumptions=(
            OF_PROGRAMS,
            OF_SUITE,
            "the suite has no cfd_step_factor; vector_add streams as it does. Small kernels stand for the paper's by "
            "how far their accesses diverge",
            RECORDED,
            PARTS,
        ),
    )


def _draw_figure16(found: Mapping[str, Mapping[str, _Stacks]], plt: Any) -> Any:
    figure, axes = plt.subplots(len(found), 3, figsize=(9.6, 0.2 + 3.0 * len(found)))
    for row, (source, kernels) in zip(axes, found.items(), strict=True):
        for axis, (kernel, each), role in zip(row, kernels.items(), ROLES, strict=True):
            scale = each.simulated[0]
            bottom = [0.0] * len(WARPS)
            for name in CATEGORIES:
                heights = [stack[name] / scale for stack in each.stacks]
                axis.bar(range(len(WARPS)), heights, 0.65, bottom=bottom, color=CATEGORY_COLOURS[name], label=name)
                bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
            line = [value / scale for value in each.simulated]
            axis.plot(range(len(WARPS)), line, color="black", marker="o", markersize=4, label="simulated")
            axis.set_xticks(range(len(WARPS)), [str(n) for n in WARPS])
            axis.set_title(f"{kernel}\n({role})", fontsize=8)
            axis.grid(axis="x", visible=False)
        row[0].set_ylabel(f"CPI over the simulated one, 8 warps\n({source})", fontsize=8.5)
    for axis in axes[-1]:
        axis.set_xlabel("warps per core")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    return figure
