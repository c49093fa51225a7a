"""Tune a matrix product in CUDA in three steps, each with the models' advice.

    python examples/tuning.py [-o FOLDER]

The sources are in examples/tuning. The advice follows from the CPI stack, and
from what doubling a part of the machine would gain.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import warplens
from warplens.reports.style import CATEGORY_COLOURS, LINE_COLOURS, pyplot, save
from warplens.sweeps import sensitivity
from warplens.workload import workload_of_trace

HERE = Path(__file__).parent
GPU = "mdm2020"
N = 256
#: Grid and block of each step.
LAUNCHES = {
    "1 as written first": ("step1.cu", (8, 32), (32, 8)),
    "2 coalesced": ("step2.cu", (8, 32), (32, 8)),
    "3 tiles in shared memory": ("step3.cu", (8, 8), (32, 8)),
}
MODELS = ("roofline", "mdm", "pipeline")
PARTS = ("l1.mshrs", "noc.bandwidth", "dram.bandwidth")
#: What to do about the largest part of a CPI stack.
REMEDIES = {
    "MSHR": "loads are uncoalesced: let neighbouring threads load neighbouring addresses",
    "NOC": "the network is saturated: load each line once and keep it in shared memory",
    "L2": "warps wait for L2: reuse data in shared memory or registers",
    "QUEUE": "DRAM is saturated: read fewer bytes",
    "DRAM": "warps wait for DRAM: use more independent loads per warp, or more warps",
    "L1": "warps wait for L1: keep values in registers",
    "DEP": "warps wait for dependent instructions: give each warp more independent work",
    "BASE": "the issue slots are full: execute fewer instructions",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/examples"), help="folder of the picture")
    folder = parser.parse_args().output
    random = np.random.default_rng(1)
    a, b = (random.random((N, N), dtype=np.float32) for _ in range(2))
    seconds: dict[str, list[float]] = {}
    stacks: dict[str, dict[str, float]] = {}
    for step, (source, grid, block) in LAUNCHES.items():
        c = np.zeros((N, N), np.float32)
        kernel = warplens.cuda(HERE / "tuning" / source).kernel("matmul")
        run = kernel.launch(grid, block, np.int32(N), a, b, c)
        assert np.allclose(c, a @ b, rtol=1e-4), "the product is wrong"
        workload = workload_of_trace(run.trace())
        made = warplens.compare(workload, [GPU], list(MODELS))
        by_model = {each.model: each for each in made.predictions}
        mdm = by_model["mdm"]
        seconds[step] = [by_model[name].seconds for name in MODELS]
        stacks[step] = {name: value / mdm.cpi for name, value in mdm.stack.items()}
        largest = max(stacks[step], key=stacks[step].__getitem__)
        print(f"step {step}")
        print("  time:   " + ", ".join(f"{name} {1e6 * by_model[name].seconds:.0f} µs" for name in MODELS))
        parts = [f"{name} {100 * part:.0f} %" for name, part in stacks[step].items() if part > 0.03]
        print(f"  stack:  {', '.join(parts)}")
        print(f"  loads:  {made.inputs[0]['dpki']:.0f} of 1000 instructions are divergent loads")
        gains = sensitivity(workload, GPU, "mdm", keys=PARTS)
        print("  twice:  " + ", ".join(f"{each.key} gives {each.at_double:.2f}×" for each in gains))
        print(f"  advice: {REMEDIES[largest]}\n")
    first, last = (seconds[step][1] for step in (next(iter(seconds)), list(seconds)[-1]))
    print(f"MDM: {first / last:.1f} times faster in three steps")
    draw(seconds, stacks, folder / "tuning.png")


def draw(seconds: dict[str, list[float]], stacks: dict[str, dict[str, float]], path: Path) -> None:
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.2))
    places = np.arange(len(seconds))
    for number, name in enumerate(MODELS):
        values = [1e6 * times[number] for times in seconds.values()]
        left.bar(places + (number - 1) * 0.27, values, 0.25, label=name, color=LINE_COLOURS[number])
    left.set_xticks(places, [step.replace(" ", "\n", 1) for step in seconds], fontsize=8)
    left.set_ylabel("predicted time, µs")
    left.legend()
    bottom = np.zeros(len(stacks))
    for category, colour in CATEGORY_COLOURS.items():
        heights = np.array([stack.get(category, 0.0) for stack in stacks.values()])
        if heights.max() > 0.01:
            right.barh(places, 100 * heights, 0.6, left=100 * bottom, color=colour, label=category)
        bottom += heights
    right.set_yticks(places, [step[0] for step in stacks])
    right.invert_yaxis()
    right.set_xlabel("share of the CPI, % (MDM)")
    figure.legend(loc="outside right upper", handles=right.get_legend_handles_labels()[0], fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    print(path.name)


if __name__ == "__main__":
    main()
