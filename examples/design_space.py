"""Compare a thousand GPUs for one kernel: which to build, and what limits it.

    python examples/design_space.py [-o FOLDER]

The kernel is the sparse matrix-vector product of examples/cuda, traced once. The
machines are a Latin hypercube around MDM's, over SMs, MSHRs, and network and DRAM
bandwidth. The cost is made up: an SM costs as much as 40 GB/s of DRAM bandwidth
or 100 GB/s of network bandwidth.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import warplens
from warplens.reports.style import LINE_COLOURS, pyplot, save
from warplens.sweeps import limits, pareto_front, parse_cost, ranking_agreement
from warplens.workload import workload_of_trace

HERE = Path(__file__).parent
GPU = "mdm2020"
SPACE = {
    "sms": "14,28,42,56",
    "l1.mshrs": "32,64,128,256",
    "noc.bandwidth": "400GB/s:2000GB/s",
    "dram.bandwidth": "200GB/s:1000GB/s",
}
COST = "sms + dram.bandwidth/40GB/s + noc.bandwidth/100GB/s"
MODELS = ["mdm", "gpumech", "pipeline"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/examples"), help="folder of the picture")
    folder = parser.parse_args().output
    workload = workload_of_trace(warplens.trace(HERE / "cuda" / "spmv.toml"))
    result = warplens.sweep(workload, GPU, SPACE, models=MODELS, sample=1000)
    print(f"{result.configurations} machines, {len(result)} predictions, {result.errors} errors")
    fronts = {model: pareto_front(result.table, [COST], model) for model in MODELS}
    for model, front in fronts.items():
        cheapest, fastest = front.slice(0, 1).to_pylist()[0], front.slice(front.num_rows - 1).to_pylist()[0]
        print(f"{model:9s}{front.num_rows:3d} on the Pareto front, from {named(cheapest)} to {named(fastest)}")
    for each in ranking_agreement(result.table):
        if (each.one, each.other) == ("gpumech", "mdm"):
            lost = f"{100 * (each.regret - 1):.0f} % of the speed lost (Kendall τ {each.kendall:.2f})"
            print(f"building GPUMech's favourite if MDM is right: {lost}")
    print("what limits it on MDM's machine, and then:")
    for step in limits(workload, GPU, "mdm", keys=list(SPACE), steps=3):
        print(f"  {step.key} doubled gives {step.gain:.2f}×; the largest stall was {step.category}")
    draw(result.table, fronts, folder / "design-space.png")


def named(row: dict[str, Any]) -> str:
    """A machine in a few words."""
    bandwidths = f"{row['noc.bandwidth'] / 1e9:.0f} and {row['dram.bandwidth'] / 1e9:.0f} GB/s"
    return f"{row['sms']:.0f} SMs, {row['l1.mshrs']:.0f} MSHRs, {bandwidths}"


def draw(table: Any, fronts: dict[str, Any], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, len(fronts), figsize=(9.6, 3.3), sharex=True, sharey=True)
    for axis, (model, front), colour in zip(axes, fronts.items(), LINE_COLOURS, strict=False):
        rows = table.filter([name == model for name in table.column("model").to_pylist()])
        seconds, cost = np.array(rows.column("seconds")), parse_cost(COST).of(rows)
        axis.plot(cost, 1e-3 / seconds, ".", color="#bbbbbb", markersize=3)
        best = [np.array(front.column(name)) for name in (f"cost: {COST}", "seconds")]
        axis.plot(best[0], 1e-3 / best[1], "o-", color=colour, markersize=4)
        axis.set_title(f"{model}: {front.num_rows} on the front", loc="left", fontsize=9)
        axis.set_xlabel("cost")
    axes[0].set_ylabel("products per millisecond")
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    print(path.name)


if __name__ == "__main__":
    main()
