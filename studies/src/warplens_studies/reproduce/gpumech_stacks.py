"""GPUMech, MICRO 2014, Fig. 16: CPI stacks of three kernels over the warps per core, with the simulated CPI."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from warplens.models import MODELS
from warplens.models.papers import GPUMECH
from warplens.reports.style import CATEGORY_COLOURS

from ..validate.recorded import WARPS, recorded
from .base import FROM_KERNELS, Claim, Findings, recipe
from .gpumech_errors import PARTS
from .kernels import RECORDED, predicted

#: Our kernel for each of the paper's, chosen by divergence.
KERNELS = {
    "copy": "cfd_step_factor: coalesced",
    "strided8": "cfd_compute_flux: medium divergence",
    "scatter": "kmeans_invert_mapping: divergent stores",
}
CATEGORIES = MODELS["gpumech"].categories or ()
_FLAT = 0.05


def _setting(warps: int) -> str:
    return "gpumech-rr" if warps == 32 else f"gpumech-warps{warps}"


def _directions(values: list[float]) -> list[int]:
    """Direction of each step: 1 up, -1 down, 0 for a change below 5 %."""
    steps = [b / a - 1 for a, b in itertools.pairwise(values)]
    return [0 if abs(step) < _FLAT else 1 if step > 0 else -1 for step in steps]


@recipe(
    "gpumech-fig16",
    GPUMECH,
    "Figure 16: CPI stacks over the number of warps per core",
    "GPUMech's CPI stacks and the CPI of our reference simulator, over the simulated one with 8 warps",
    data=FROM_KERNELS,
)
def figure16() -> Findings:
    simulated = {kernel: [recorded()[_setting(n), kernel].cpi for n in WARPS] for kernel in KERNELS}
    stacks: dict[str, list[dict[str, float]]] = {}
    for kernel in KERNELS:
        made = [predicted("gpumech", _setting(n), kernel) for n in WARPS]
        stacks[kernel] = [{name: float((each.stack or {})[name]) for name in CATEGORIES} for each in made]
    modelled = {kernel: [sum(stack.values()) for stack in found] for kernel, found in stacks.items()}
    trends = {kernel: (_directions(simulated[kernel]), _directions(modelled[kernel])) for kernel in KERNELS}

    def share(kernel: str, warps: int, *names: str) -> float:
        stack = stacks[kernel][WARPS.index(warps)]
        return sum(stack[name] for name in names) / sum(stack.values())

    def largest(kernel: str, warps: int) -> str:
        stack = stacks[kernel][WARPS.index(warps)]
        return max(stack, key=lambda name: stack[name])

    contention = [share("copy", n, "MSHR", "QUEUE") for n in WARPS[:3]]
    mshr = [share("copy", n, "MSHR") for n in WARPS]
    dram = share("scatter", 8, "DRAM")

    return Findings(
        columns=("kernel", "warps per core", "simulated CPI", "GPUMech CPI", *CATEGORIES),
        rows=tuple(
            (kernel, n, simulated[kernel][i], modelled[kernel][i], *(stacks[kernel][i][name] for name in CATEGORIES))
            for kernel in KERNELS
            for i, n in enumerate(WARPS)
        ),
        draw=partial(_draw_figure16, simulated, stacks),
        claims=(
            *(
                Claim(
                    f"GPUMech predicts the scaling trend (§VII-A); {kernel}",
                    ours == theirs,
                    "CPI of 8, 16, 32, 48 warps: simulated "
                    f"{', '.join(f'{v:.1f}' for v in simulated[kernel])}, GPUMech "
                    f"{', '.join(f'{v:.1f}' for v in modelled[kernel])} (steps below 5 % count as none)",
                )
                for kernel, (theirs, ours) in trends.items()
            ),
            Claim(
                "coalesced: MSHR delays appear with 48 warps only (§VII-A)",
                max(mshr[:3]) < 0.01 < mshr[3],
                "MSHR's share " + ", ".join(f"{100 * value:.0f}" for value in mshr) + " %",
            ),
            Claim(
                "coalesced: MSHR and QUEUE are negligible with fewer than 48 warps (§VII-A)",
                max(contention) < 0.1,
                ", ".join(f"{100 * value:.0f}" for value in contention) + " % of the CPI (counted: 10 %)",
            ),
            Claim(
                "medium divergence: with 32 warps MSHR dominates (§VII-A)",
                largest("strided8", 32) == "MSHR",
                f"largest is {largest('strided8', 32)}, {100 * share('strided8', 32, 'MSHR'):.0f} %",
            ),
            Claim(
                "divergent stores: QUEUE is high with 8 warps (§VII-A)",
                largest("scatter", 8) == "QUEUE",
                f"{100 * share('scatter', 8, 'QUEUE'):.0f} % of the CPI",
            ),
            Claim(
                "divergent stores: DRAM is negligible with 8 warps (§VII-A)",
                dram < 0.1,
                f"{100 * dram:.0f} % of the CPI: loads of our kernel are not in L1 (theirs: 90.5 %)",
            ),
        ),
        assumptions=(
            "three kernels of the validation data stand for the paper's, by how far their accesses diverge",
            RECORDED,
            PARTS,
        ),
    )


def _draw_figure16(simulated: dict[str, list[float]], stacks: dict[str, list[dict[str, float]]], plt: Any) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.3), sharey=True)
    for axis, (kernel, role) in zip(axes, KERNELS.items(), strict=True):
        scale = simulated[kernel][0]
        bottom = [0.0] * len(WARPS)
        for name in CATEGORIES:
            heights = [stack[name] / scale for stack in stacks[kernel]]
            axis.bar(range(len(WARPS)), heights, 0.65, bottom=bottom, color=CATEGORY_COLOURS[name], label=name)
            bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
        line = [value / scale for value in simulated[kernel]]
        axis.plot(range(len(WARPS)), line, color="black", marker="o", markersize=4, label="simulated")
        axis.set_xticks(range(len(WARPS)), [str(n) for n in WARPS])
        axis.set_xlabel("warps per core")
        axis.set_title(f"{kernel}\n({role})", fontsize=8.5)
        axis.grid(axis="x", visible=False)
    axes[0].set_ylabel("CPI over the simulated one, 8 warps")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    return figure
