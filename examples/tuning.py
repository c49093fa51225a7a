"""Tune a matrix product in CUDA in three steps, following the advice for each.

    python examples/tuning.py [-o FOLDER]

The sources are in examples/tuning. They run on the CPU and are checked against NumPy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import warplens
from warplens.reports.style import CATEGORY_COLOURS, LINE_COLOURS, pyplot, save

HERE = Path(__file__).parent
GPUS = ("h200", "a100-40gb")
N = 256
#: Source, grid and block of each step.
LAUNCHES = {
    "1 as written first": ("step1.cu", (8, 32), (32, 8)),
    "2 coalesced": ("step2.cu", (8, 32), (32, 8)),
    "3 tiles in shared memory": ("step3.cu", (8, 8), (32, 8)),
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
        trace = kernel.launch(grid, block, np.int32(N), a, b, c).trace()
        assert np.allclose(c, a @ b, rtol=1e-4), "the product is wrong"
        answer = warplens.explain(trace, GPUS[0])
        made = answer.prediction
        seconds[step] = [made.seconds, *(warplens.predict(trace, gpu).seconds for gpu in GPUS[1:])]
        stacks[step] = {name: value / made.cpi for name, value in made.stack.items()}
        print(f"step {step}")
        print("  time:   " + ", ".join(f"{gpu} {1e6 * s:.0f} µs" for gpu, s in zip(GPUS, seconds[step], strict=True)))
        print(f"  limit:  {answer.limiter.waits or answer.limiter.name}")
        advice = answer.advice[0]
        print(f"  advice: {advice.speedup:.1f} times faster without {advice.rule}\n")
    first, *_, last = (times[0] for times in seconds.values())
    print(f"{GPUS[0]}: {first / last:.1f} times faster in three steps")
    draw(seconds, stacks, folder / "tuning.png")


def draw(seconds: dict[str, list[float]], stacks: dict[str, dict[str, float]], path: Path) -> None:
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.2))
    places = np.arange(len(seconds))
    for number, gpu in enumerate(GPUS):
        values = [1e6 * times[number] for times in seconds.values()]
        left.bar(places + (number - 0.5) * 0.4, values, 0.38, label=gpu, color=LINE_COLOURS[number])
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
    right.set_xlabel(f"share of the time, % ({GPUS[0]})")
    figure.legend(loc="outside right upper", handles=right.get_legend_handles_labels()[0], fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    print(path.name)


if __name__ == "__main__":
    main()
