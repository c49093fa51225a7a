"""MDM, MICRO 2020: where a miss spends its time (Fig. 3), design spaces (Figs. 11, 12) and CPI stacks (Fig. 14)."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.models import MODELS
from warplens.models.papers import MDM
from warplens.reports.style import CATEGORY_COLOURS, LINE_COLOURS

from ..validate import accelsim
from ..validate.recorded import (
    BANDWIDTH_KERNEL,
    BANDWIDTHS,
    GRID,
    GRID_KERNELS,
    bandwidth_name,
    grid_name,
    recorded,
)
from .base import FROM_KERNELS, Claim, Findings, Row, Table, recipe
from .kernels import (
    RECORDED,
    STAND_IN,
    cycles_of,
    divergence,
    divergent_kernels,
    other_kernels,
    predicted,
)
from .mdm_errors import SHOWN

# -- Figure 3 ------------------------------------------------------------------------------

#: Parts of a miss as the simulator names them, as the figure does, and their colour.
_PARTS = {
    "L1": ("L1", CATEGORY_COLOURS["L1"]),
    "MSHR": ("MSHR", CATEGORY_COLOURS["MSHR"]),
    "NOC": ("NoC queue", CATEGORY_COLOURS["NOC"]),
    "LLC": ("LLC", CATEGORY_COLOURS["L2"]),
    "QUEUE": ("DRAM queue", CATEGORY_COLOURS["QUEUE"]),
    "DRAM": ("DRAM", CATEGORY_COLOURS["DRAM"]),
}


@recipe(
    "mdm-fig3",
    MDM,
    "Figure 3: L1 miss latency breakdown",
    "mean cycles of an L1 miss in each part of our reference simulator, for every kernel",
    data=FROM_KERNELS,
)
def figure3() -> Findings:
    return miss_latency("base")


def miss_latency(setting: str) -> Findings:
    """Where the L1 misses of every kernel spend their time on the machine of a setting."""
    kernels = [*other_kernels(), *divergent_kernels()]
    latency = {kernel: recorded()[setting, kernel].miss_latency for kernel in kernels}
    kinds = {"NMD": other_kernels(), "MD": divergent_kernels()}

    def mean(kind: str, *parts: str) -> float:
        return float(np.mean([sum(latency[kernel][part] for part in parts) for kernel in kinds[kind]]))

    whole = {kind: mean(kind, *_PARTS) for kind in kinds}
    mshr = {kind: mean(kind, "MSHR") for kind in kinds}
    queues = {kind: mean(kind, "NOC", "QUEUE") for kind in kinds}
    waits = {kernel: sum(latency[kernel][part] for part in ("MSHR", "NOC", "QUEUE")) for kernel in kinds["NMD"]}
    calm = [kernel for kernel in kinds["NMD"] if waits[kernel] < 0.2 * sum(latency[kernel].values())]

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(9.2, 3.6))
        bottom = np.zeros(len(kernels))
        for part, (label, colour) in _PARTS.items():
            heights = np.array([latency[kernel][part] for kernel in kernels])
            axis.bar(range(len(kernels)), heights, 0.7, bottom=bottom, color=colour, label=label)
            bottom += heights
        axis.axvline(len(kinds["NMD"]) - 0.5, color="#999999", linewidth=0.8, linestyle=":")
        for place, kind in ((-0.45, "NMD"), (len(kinds["NMD"]) - 0.42, "MD")):
            axis.text(place, 0.97 * bottom.max(), kind, fontsize=8, color="#777777", va="top")
        axis.set_xticks(range(len(kernels)), kernels, rotation=30, ha="right", fontsize=8)
        axis.set_ylabel("cycles of an L1 miss")
        axis.grid(axis="x", visible=False)
        axis.margins(x=0.02)
        figure.legend(loc="outside upper right", ncols=len(_PARTS), fontsize=8)
        return figure

    return Findings(
        columns=("kernel", "type", *(f"{label} [cycles]" for label, _ in _PARTS.values()), "sum [cycles]"),
        rows=tuple(
            (
                kernel,
                "MD" if kernel in kinds["MD"] else "NMD",
                *(latency[kernel][part] for part in _PARTS),
                sum(latency[kernel].values()),
            )
            for kernel in kernels
        ),
        draw=draw,
        claims=(
            Claim(
                "the memory latency is higher for MD-applications (§III-A)",
                whole["MD"] > whole["NMD"],
                f"means of {whole['MD']:.0f} and {whole['NMD']:.0f} cycles",
            ),
            Claim(
                "MD-applications spend a lot of time waiting for MSHRs (§III-A)",
                mshr["MD"] >= 2 * mshr["NMD"],
                f"means of {mshr['MD']:.0f} and {mshr['NMD']:.0f} cycles (counted: twice the others')",
            ),
            Claim(
                "MD-applications have much larger NoC or DRAM queueing delays (§III-A)",
                queues["MD"] >= 2 * queues["NMD"],
                f"means of {queues['MD']:.0f} and {queues['NMD']:.0f} cycles (counted: twice the others')",
            ),
            Claim(
                "NMD-applications are hardly affected by MSHRs and queues (Fig. 3)",
                len(calm) == len(kinds["NMD"]),
                f"less than a fifth of the miss for {len(calm)} of {len(kinds['NMD'])}: {', '.join(calm)}",
            ),
        ),
        assumptions=(STAND_IN, RECORDED),
        remarks=(
            "the LLC's part has the wait for a bank, which is long where the bank waits for a full DRAM queue",
            "MSHR is the wait at the L1's tags; what waits before them, in the load-store unit, is not counted",
        ),
    )


# -- Figures 11 and 12 ---------------------------------------------------------------------


def _grid(kernel: str) -> dict[str, list[float]]:
    """Performance at each grid point by simulator or model, relative to the simulated one at 28 SMs and 480 GB/s."""
    names = [grid_name(*point) for point in GRID]
    base = recorded()["base", kernel].cycles
    return {
        "simulation": [base / recorded()[name, kernel].cycles for name in names],
        "GPUMech": [base / cycles_of(SHOWN["GPUMech"], name, kernel) for name in names],
        "MDM": [base / cycles_of(SHOWN["MDM"], name, kernel) for name in names],
    }


def _accelsim_grid(kernel: str) -> dict[tuple[int, int], float]:
    """The same for the points that Accel-Sim has run."""
    found = accelsim.measurements()
    base = found["base", kernel].cycles
    return {
        point: base / found[grid_name(*point), kernel].cycles
        for point in GRID
        if (grid_name(*point), kernel) in found
    }


def _design_space(kernel: str, claims: tuple[Claim, ...], performance: dict[str, list[float]]) -> Findings:
    theirs = _accelsim_grid(kernel)
    counts = sorted({sms for sms, _ in GRID})
    bandwidths = sorted({bandwidth for _, bandwidth in GRID})
    few, many = (GRID.index((sms, 480)) for sms in (14, 56))

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.1), sharey=True)
        for axis, (name, values) in zip(axes, performance.items(), strict=True):
            by_point = dict(zip(GRID, values, strict=True))
            for bandwidth, colour in zip(bandwidths, LINE_COLOURS, strict=False):
                heights = [by_point[sms, bandwidth] for sms in counts]
                axis.plot(counts, heights, marker="o", color=colour, label=f"DRAM {bandwidth} GB/s")
                if name == "simulation":
                    known = [sms for sms in counts if (sms, bandwidth) in theirs]
                    axis.plot(
                        known,
                        [theirs[sms, bandwidth] for sms in known],
                        linestyle="",
                        marker="x",
                        markersize=8,
                        color=colour,
                    )
            axis.set_title(name, loc="left", fontsize=9)
            axis.set_xticks(counts)
            axis.set_xlabel("SMs")
        axes[0].plot([], [], linestyle="", marker="x", color="#555555", label="Accel-Sim")
        axes[0].set_yscale("log", base=2)
        axes[0].yaxis.set_major_formatter("{x:g}")
        axes[0].set_ylabel("performance over simulation\nwith 28 SMs, 480 GB/s")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)
        return figure

    rows: list[Row] = [
        (sms, bandwidth, *(values[index] for values in performance.values()), theirs.get((sms, bandwidth)))
        for index, (sms, bandwidth) in enumerate(GRID)
    ]
    return Findings(
        columns=("SMs", "DRAM [GB/s]", *performance, "Accel-Sim, over its own at 28 SMs and 480 GB/s"),
        rows=tuple(rows),
        draw=draw,
        claims=claims,
        assumptions=(
            f"kernel {kernel} of the validation data ({divergence(kernel):.0f} divergent loads per thousand "
            "instructions) stands for the paper's",
            RECORDED,
            "an SM has a NoC port of 43.75 GB/s, so 14 SMs cannot use all of the NoC's 1050 GB/s",
        ),
        remarks=(
            "56 SMs over 14 SMs at 480 GB/s: "
            + ", ".join(f"{name} {values[many] / values[few]:.2f}" for name, values in performance.items()),
        ),
    )


@recipe(
    "mdm-fig11",
    MDM,
    f"Figure 11: performance over SM count and DRAM bandwidth, non-divergent kernel ({GRID_KERNELS[0]})",
    "performance of simulation, GPUMech and MDM over the simulated one at 28 SMs and 480 GB/s",
    data=FROM_KERNELS,
)
def figure11() -> Findings:
    found = _grid(GRID_KERNELS[0])
    logs = {name: np.log(values) for name, values in found.items()}
    trend = {name: float(np.corrcoef(logs[name], logs["simulation"])[0, 1]) for name in ("GPUMech", "MDM")}
    return _design_space(
        GRID_KERNELS[0],
        tuple(
            Claim(
                f"{name} captures the performance trend (Fig. 11)",
                value >= 0.9,
                f"correlation of log performance with simulation over the nine machines {value:.2f} (counted: 0.9)",
            )
            for name, value in trend.items()
        ),
        found,
    )


@recipe(
    "mdm-fig12",
    MDM,
    f"Figure 12: performance over SM count and DRAM bandwidth, divergent kernel ({GRID_KERNELS[1]})",
    "performance of simulation, GPUMech and MDM over the simulated one at 28 SMs and 480 GB/s",
    data=FROM_KERNELS,
)
def figure12() -> Findings:
    found = _grid(GRID_KERNELS[1])
    middle, corner = GRID.index((28, 480)), GRID.index((56, 960))
    gain = {name: values[corner] / values[middle] for name, values in found.items()}
    over = {name: float(np.mean(np.divide(found[name], found["simulation"]))) for name in ("GPUMech", "MDM")}
    distance = {name: max(value, 1 / value) for name, value in over.items()}
    return _design_space(
        GRID_KERNELS[1],
        (
            Claim(
                "GPUMech grossly overestimates the performance (§VII)",
                over["GPUMech"] > 2,
                f"{over['GPUMech']:.1f} times the simulated one on average (counted: twice)",
            ),
            Claim(
                "MDM is nearer to simulation than GPUMech (Fig. 12)",
                distance["MDM"] < distance["GPUMech"],
                f"{over['MDM']:.2f} and {over['GPUMech']:.2f} times the simulated performance on average",
            ),
            Claim(
                "GPUMech over-predicts the speed-up with more SMs and bandwidth (Fig. 12)",
                gain["GPUMech"] > 1.1 * gain["simulation"],
                f"{gain['GPUMech']:.2f} against {gain['simulation']:.2f} from 28 SMs and 480 GB/s to 56 and 960",
            ),
            Claim(
                "MDM's speed-up is that of simulation (Fig. 12)",
                abs(gain["MDM"] / gain["simulation"] - 1) < 0.15,
                f"{gain['MDM']:.2f} against {gain['simulation']:.2f} (counted: within 15 %)",
            ),
            Claim(
                "the gain of more SMs and bandwidth is small, as simulation confirms (§VII)",
                gain["simulation"] < 1.2,
                f"{gain['simulation']:.2f}: this kernel is bound by DRAM bandwidth at 480 GB/s",
            ),
        ),
        found,
    )


# -- Figure 14 -----------------------------------------------------------------------------

#: This kernel has no barriers: no SYNC.
_CATEGORIES = (*(MODELS["mdm"].categories or ()), "IDLE")


def _stacks() -> dict[str, list[dict[str, float]]]:
    """CPI stacks over the simulated CPI of the base machine: one per pair of bandwidths."""
    names = [bandwidth_name(*pair) for pair in BANDWIDTHS]
    base = recorded()["base", BANDWIDTH_KERNEL].cpi
    found = {"simulation": [recorded()[name, BANDWIDTH_KERNEL].stack for name in names]}
    for title in ("GPUMech", "MDM"):
        made = [predicted(SHOWN[title], name, BANDWIDTH_KERNEL) for name in names]
        found[title] = [{key: float(value) for key, value in (each.stack or {}).items()} for each in made]
    return {
        title: [{name: stack.get(name, 0.0) / base for name in _CATEGORIES} for stack in stacks]
        for title, stacks in found.items()
    }


@recipe(
    "mdm-fig14",
    MDM,
    f"Figure 14: CPI over NoC and DRAM bandwidth, divergent kernel ({BANDWIDTH_KERNEL})",
    "CPI stacks of our reference simulator, GPUMech and MDM over the simulated CPI at 1050 and 480 GB/s",
    data=FROM_KERNELS,
)
def figure14() -> Findings:
    stacks = _stacks()
    totals = {title: [sum(stack.values()) for stack in found] for title, found in stacks.items()}
    errors = {
        title: [abs(a / b - 1) for a, b in zip(totals[title], totals["simulation"], strict=True)]
        for title in ("GPUMech", "MDM")
    }
    ipc_errors = {
        title: 100 * float(np.mean(np.abs(np.divide(totals["simulation"], totals[title]) - 1))) for title in errors
    }
    nearer = sum(m < g for m, g in zip(errors["MDM"], errors["GPUMech"], strict=True))
    share = [sum(each[name] for name in ("MSHR", "NOC", "QUEUE")) / sum(each.values()) for each in stacks["MDM"]]

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, len(BANDWIDTHS), figsize=(10.2, 3.5), sharey=True)
        for index, (axis, pair) in enumerate(zip(axes, BANDWIDTHS, strict=True)):
            for place, title in enumerate(stacks):
                bottom = 0.0
                for name in _CATEGORIES:
                    height = stacks[title][index][name]
                    label = name if (index, place) == (0, 0) else None
                    axis.bar(place, height, 0.75, bottom=bottom, color=CATEGORY_COLOURS[name], label=label)
                    bottom += height
                axis.text(place, bottom, f"{bottom:.2f}", ha="center", va="bottom", fontsize=6.5)
            axis.set_xticks(range(3), ("sim", "GPUMech", "MDM"), rotation=60, fontsize=7.5)
            axis.set_title(f"NoC {pair[0]} GB/s\nDRAM {pair[1]} GB/s", fontsize=7.5)
            axis.grid(axis="x", visible=False)
        axes[0].set_ylim(0, 1.08 * max(map(max, totals.values())))
        axes[0].set_ylabel("CPI over the simulated one at 1050, 480")
        figure.legend(loc="outside right upper", fontsize=8)
        return figure

    return Findings(
        columns=("NoC [GB/s]", "DRAM [GB/s]", "model", "normalized CPI", *_CATEGORIES),
        rows=tuple(
            (*pair, title, totals[title][index], *(stacks[title][index][name] for name in _CATEGORIES))
            for index, pair in enumerate(BANDWIDTHS)
            for title in stacks
        ),
        draw=draw,
        claims=(
            Claim(
                "MDM predicts the CPI accurately, in contrast to GPUMech (§VII): IPC error",
                ipc_errors["MDM"] * 2 < ipc_errors["GPUMech"],
                f"means of {ipc_errors['MDM']:.0f} and {ipc_errors['GPUMech']:.0f} % (counted: half)",
            ),
            Claim(
                "the same, nearer to the simulated CPI on every machine",
                nearer == len(BANDWIDTHS),
                f"nearer on {nearer} of {len(BANDWIDTHS)}: GPUMech's CPI is at most "
                f"{100 * max(errors['GPUMech']):.0f} % off, as it cannot be lower than 0",
            ),
            Claim(
                "MSHR blocking, NoC and DRAM queues are most of MDM's CPI (§VII)",
                min(share) > 0.5,
                f"{100 * min(share):.0f} to {100 * max(share):.0f} %",
            ),
        ),
        assumptions=(f"kernel {BANDWIDTH_KERNEL} of the validation data stands for BFS", RECORDED),
        remarks=("the simulator books a slot to what its nearest warp waits for; BASE of a model is one warp's",),
        summary=Table(
            ("NoC and DRAM, GB/s", *totals),
            tuple(
                (f"{pair[0]}, {pair[1]}", *(values[index] for values in totals.values()))
                for index, pair in enumerate(BANDWIDTHS)
            ),
        ),
    )
