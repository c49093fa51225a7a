"""Hong & Kim, ISCA 2009: coalescing (Fig. 2), SVM (Figs. 3, 4), code (Figs. 12, 13) and times (Figs. 15, 16)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from warplens.analysis.events import collect_events
from warplens.api import load_workload
from warplens.frontends.cuda.module import cuda
from warplens.frontends.ptx.program import Instruction, Label, Symbol
from warplens.machine import load_gpu
from warplens.machine.occupancy import occupancy
from warplens.models.papers import HONG_KIM
from warplens.reports.style import LINE_COLOURS
from warplens.suite.catalog import SUITE
from warplens.suite.execution import compiled_kernel

from ..validate.h200_profiles import kept_comparison
from ..validate.suite import hardware
from .base import COMPARISON, FROM_H200, FROM_SUITE, Claim, Findings, Row, Table, compare, recipe
from .drawing import grouped_bars
from .hong_kim_merge import BENCHMARKS, TILED, merge_sweep

LINE_BYTES = 128

# -- Figure 2 ------------------------------------------------------------------------------

_LOADS = """extern "C" __global__ void loads(const float* x, float* y, int step) {
    y[threadIdx.x] = x[threadIdx.x * step];
}"""


@recipe(
    "hong-kim-fig2",
    HONG_KIM,
    "Figure 2: memory requests of a warp, coalesced and uncoalesced",
    "transactions of one warp whose lanes load 4 bytes side by side, and a line apart",
    data="a CUDA kernel of one line, run on the CPU",
)
def figure2() -> Findings:
    kernel = cuda(_LOADS).kernel("loads")
    touched: dict[str, list[int]] = {}
    for access, step in (("coalesced", 1), ("uncoalesced", 32)):
        trace = kernel.launch(1, 32, np.zeros(1024, np.float32), np.zeros(32, np.float32), step).trace()
        (events,) = collect_events(trace, LINE_BYTES, lambda _: 1.0)
        touched[access] = np.diff(events.line_start).tolist()
    loads = {access: lines[0] for access, lines in touched.items()}
    printed = load_gpu("fx5600").dram.uncoalesced_transactions

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(2, 1, figsize=(8.0, 3.0))
        for axis, (access, step) in zip(axes, (("coalesced", 1), ("uncoalesced", 32)), strict=True):
            lanes = np.arange(32)
            lines = lanes * 4 * step // LINE_BYTES
            for lane, line in zip(lanes, lines, strict=True):
                axis.plot([lane, line if step > 1 else 15.5], [0, 1], color=LINE_COLOURS[0], linewidth=0.8)
            axis.plot(lanes, np.zeros(32), "o", color=LINE_COLOURS[0], markersize=4)
            places = sorted(set(lines.tolist())) if step > 1 else [15.5]
            axis.plot(places, np.ones(len(places)), "s", color=LINE_COLOURS[1], markersize=7)
            axis.set_yticks([0, 1], ["threads", "transactions"], fontsize=8)
            axis.set_xticks([])
            axis.set_ylim(-0.3, 1.3)
            axis.grid(visible=False)
            axis.set_title(f"{access}: {loads[access]} transaction(s) of {LINE_BYTES} B", loc="left", fontsize=8.5)
        return figure

    return Findings(
        columns=("access", "transactions of the load"),
        rows=tuple(loads.items()),
        draw=draw,
        claims=(
            Claim(
                "sequential addresses are one transaction, others one for each address (§2.3)",
                loads == {"coalesced": 1, "uncoalesced": 32},
                f"{loads['coalesced']} and {loads['uncoalesced']}",
            ),
        ),
        summary=Table(
            COMPARISON,
            (
                compare("Coal_per_mw", 1, loads["coalesced"]),
                compare("Uncoal_per_mw", float(printed), loads["uncoalesced"]),
            ),
        ),
    )


# -- Figures 3 and 4 -----------------------------------------------------------------------

SVM = {"Naive": "svm_naive", "Constant": "svm_constant", "Constant+Optimized": "svm_optimised"}
#: How many times faster than Naive (§2.4).
SPEEDUPS = {"Naive": 1.0, "Constant": 1.79, "Constant+Optimized": 24.36}
SVM_MODELS = ("roofline", "mwp-cwp", "mdm", "pipeline")


@recipe(
    "hong-kim-fig3",
    HONG_KIM,
    "Figure 3: what optimising SVM gains",
    "times of three versions on an H200, measured and predicted, against the printed gains on an FX5600",
    data=FROM_H200,
)
def figure3() -> Findings:
    found = kept_comparison()
    ours = {
        "measured": {label: found.measured[kernel, 0].elapsed_cycles for label, kernel in SVM.items()},
        **{
            model: {label: found.predicted[kernel, 0].cycles[model] for label, kernel in SVM.items()}
            for model in SVM_MODELS
        },
    }
    gains = {what: {label: cycles["Naive"] / cycles[label] for label in SVM} for what, cycles in ours.items()}

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(8.4, 3.2))
        series = {what: [cycles[label] / 1000 for label in SVM] for what, cycles in ours.items()}
        grouped_bars(axis, list(SVM), series, label="%.0f")
        axis.set_ylabel("thousand cycles on an H200")
        figure.legend(loc="outside right upper", fontsize=8)
        return figure

    measured = gains["measured"]
    return Findings(
        columns=("version", "gain on FX5600, paper", *(f"gain on H200, {what}" for what in gains)),
        rows=tuple((label, SPEEDUPS[label], *(gain[label] for gain in gains.values())) for label in SVM),
        draw=draw,
        claims=(
            Claim(
                "Constant is faster than Naive, Constant+Optimized faster still (§2.4)",
                1 < measured["Constant"] < measured["Constant+Optimized"],
                f"measured on an H200: {measured['Constant']:.2f} and {measured['Constant+Optimized']:.2f} times",
            ),
            Claim(
                "Constant is 1.79 times, Constant+Optimized 24.36 times as fast as Naive (§2.4)",
                all(gain >= SPEEDUPS[label] / 2 for label, gain in measured.items()),
                f"{measured['Constant']:.2f} and {measured['Constant+Optimized']:.2f} times (counted: half of that); "
                "the paper's GPU has no data cache",
            ),
        ),
        assumptions=(
            "our SVM kernel, after what the paper says of it, with 347 200 windows in blocks of 128 threads",
        ),
        remarks=("the time over threads per block is not measured: the suite has one launch",),
    )


@recipe(
    "hong-kim-fig4",
    HONG_KIM,
    "Figure 4: occupancy of SVM over threads per block",
    "occupancy on an FX5600 with the registers of Table 5, and of our three versions on an H200",
    data="Table 5, and registers that the H200's compiler gives the suite's kernels",
)
def figure4() -> Findings:
    launch = load_workload("merge-svm").launch
    registers = {label: hardware("medium")[kernel].registers_per_thread for label, kernel in SVM.items()}
    cases = {
        "FX5600, Table 5": ("fx5600", launch.registers_per_thread or 0, launch.shared_memory_per_block_bytes or 0),
        **{f"H200, {label}": ("h200", count, 0) for label, count in registers.items()},
    }
    threads = list(range(32, 513, 32))
    curves = {}
    for label, (name, count, shared) in cases.items():
        gpu = load_gpu(name)
        curves[label] = [occupancy(gpu, size, count, shared).warps_per_sm / gpu.max_warps for size in threads]
    ours = [curves[f"H200, {label}"] for label in SVM]
    same = [size for size, *values in zip(threads, *ours, strict=True) if len(set(values)) == 1]

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(7.6, 3.2))
        for (label, values), colour in zip(curves.items(), LINE_COLOURS, strict=False):
            axis.plot(
                threads, values, marker="o", markersize=3, label=f"{label}, {cases[label][1]} registers", color=colour
            )
        axis.set_xlabel("threads per block")
        axis.set_ylabel("occupancy")
        axis.set_ylim(0, 1.05)
        figure.legend(loc="outside right center", fontsize=8)
        return figure

    table5 = curves["FX5600, Table 5"]
    return Findings(
        columns=("threads per block", *curves),
        rows=tuple(zip(threads, *curves.values(), strict=True)),
        draw=draw,
        claims=(
            Claim(
                "with fewer than 64 threads per block all three versions have the same occupancy (§2.4)",
                32 in same,
                f"ours on an H200: the same with {', '.join(map(str, same))} threads",
            ),
            Claim(
                "occupancy rises from about a third to 1 (§2.4, Constant), with the registers of Table 5",
                abs(table5[0] - 1 / 3) < 0.03 and max(table5) == 1,
                f"{table5[0]:.2f} with 32 threads, {max(table5):.2f} at most (8 blocks of 24 warps' room)",
            ),
        ),
        remarks=("the paper prints registers of one version only",),
        summary=Table(
            ("occupancy", *(f"{size} threads" for size in (32, 64, 128, 256, 512))),
            tuple(
                (label, *(values[threads.index(size)] for size in (32, 64, 128, 256, 512)))
                for label, values in curves.items()
            ),
        ),
    )


# -- Figures 12 and 13 ---------------------------------------------------------------------

#: Instructions of the loop of Fig. 13; of the unrolled inner loop it shows one step.
FIGURE13 = {
    "ld.global": 2,
    "st.shared": 2,
    "bar.sync": 2,
    "ld.shared, each inner step": 2,
    "multiply-add, each inner step": 1,
}


@recipe(
    "hong-kim-fig13",
    HONG_KIM,
    "Figures 12 and 13: CUDA and PTX code of the tiled matrix multiplication",
    "instructions of the loop that our compiler makes of the suite's tiled product, against those of the printed PTX",
    data=FROM_SUITE,
)
def figure13() -> Findings:
    kernel = compiled_kernel(SUITE["matmul_tiled"])
    body = kernel.ptx.functions["matmul_tiled"].body or ()
    labels = {item.name: index for index, item in enumerate(body) if isinstance(item, Label)}
    loops = [
        body[labels[target.name] : index + 1]
        for index, item in enumerate(body)
        if isinstance(item, Instruction) and item.opcode == "bra"
        for target in item.operands
        if isinstance(target, Symbol) and labels.get(target.name, index) < index
    ]
    loop = max(loops, key=len)
    found: Counter[str] = Counter()
    for item in loop:
        if isinstance(item, Instruction):
            found[".".join((item.opcode, *item.modifiers[:1]))] += 1
    steps = int.from_bytes(kernel.ptx.variables["kTile"].initial or b"", "little")  # as the source says
    counted = {
        "ld.global": float(found["ld.global"]),
        "st.shared": float(found["st.shared"]),
        "bar.sync": float(found["bar.sync"] + found["bar.cta"]),
        "ld.shared, each inner step": found["ld.shared"] / steps,
        "multiply-add, each inner step": found["fma.rn"] / steps,
    }
    rest = sum(found.values()) - sum(
        found[name] for name in ("ld.global", "st.shared", "bar.sync", "ld.shared", "fma.rn")
    )
    rows = tuple(compare(name, FIGURE13[name], value) for name, value in counted.items())

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(7.6, 2.8))
        series = {"Fig. 13": list(map(float, FIGURE13.values())), "ours": list(counted.values())}
        grouped_bars(axis, [name.replace(", ", ",\n") for name in FIGURE13], series, label="%g")
        axis.set_ylabel("instructions")
        axis.legend()
        return figure

    return Findings(
        columns=COMPARISON,
        rows=rows,
        draw=draw,
        claims=(
            Claim(
                "the loop loads two elements, stores them to shared memory, and has two barriers (Fig. 13)",
                all(counted[name] == FIGURE13[name] for name in FIGURE13),
                ", ".join(f"{name} {value:g}" for name, value in counted.items()),
            ),
        ),
        remarks=(
            f"the inner loop has {steps} steps; {rest} more instructions of ours compare, branch and keep addresses, "
            "and guard the edges of a matrix that is no multiple of the tile, which Fig. 12 does not",
            "the counts that Table 2 uses are the paper's (hong-kim-table2)",
        ),
    )


# -- Figures 15 and 16 ---------------------------------------------------------------------


def _times(gpu: str, number: int) -> Findings:
    sweep = merge_sweep()
    rows: list[Row] = [
        (benchmark, run.threads_per_block, 1000 * run.seconds)
        for benchmark in BENCHMARKS
        for run in sweep[benchmark, gpu]
    ]
    flat = {}
    for benchmark in BENCHMARKS:
        if benchmark != TILED:
            times = [run.seconds for run in sweep[benchmark, gpu]]
            flat[benchmark] = max(times) / min(times)
    tiled = [run.seconds for run in sweep[TILED, gpu]]

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(2, 3, figsize=(9.4, 4.2), sharex=True)
        for axis, benchmark in zip(axes.flat, BENCHMARKS, strict=True):
            runs = sweep[benchmark, gpu]
            axis.plot(
                [run.threads_per_block for run in runs],
                [1000 * run.seconds for run in runs],
                marker="o",
                markersize=2,
                linewidth=0.8,
                color=LINE_COLOURS[0],
            )
            axis.set_yscale("log")
            axis.set_title(benchmark, loc="left", fontsize=8.5)
        for axis in axes[1]:
            axis.set_xlabel("threads per block")
        for axis in axes[:, 0]:
            axis.set_ylabel("time [ms]")
        return figure

    return Findings(
        columns=("benchmark", "threads per block", "time [ms]"),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "the execution times are mostly the same over threads per block (§5.2)",
                max(flat.values()) < 1.5,
                ", ".join(f"{name} {ratio:.2g} times" for name, ratio in flat.items())
                + " (counted as the same: 1.5 times)",
            ),
            Claim(
                f"{TILED} gets faster with more threads (§5.2)",
                bool(np.all(np.diff(tiled) < 0)),
                f"{1000 * tiled[0]:.3g} ms with 16 threads, {1000 * tiled[-1]:.3g} ms with 400",
            ),
        ),
        remarks=(
            f"estimated times alone: the measured ones of Fig. {number} are in no text, and its GPU is not at hand",
            "steps are partial warps, which the model charges as full",
        ),
        summary=Table(
            ("estimated time [ms]", "64 threads", "128 threads", "256 threads", "512 threads"),
            tuple(
                (
                    name,
                    *(1000 * run.seconds for run in sweep[name, gpu] if run.threads_per_block in (64, 128, 256, 512)),
                )
                for name in BENCHMARKS
                if name != TILED
            ),
        ),
    )


@recipe(
    "hong-kim-fig15",
    HONG_KIM,
    "Figure 15: execution time of the Merge benchmarks on FX5600",
    "estimated times over threads per block; the text prints no values, so its claims are checked",
)
def figure15() -> Findings:
    return _times("FX5600", 15)


@recipe(
    "hong-kim-fig16",
    HONG_KIM,
    "Figure 16: execution time of the Merge benchmarks on GTX280",
    "estimated times over threads per block; the text prints no values, so its claims are checked",
)
def figure16() -> Findings:
    return _times("GTX280", 16)
