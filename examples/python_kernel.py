"""Predict a numba-cuda kernel on two GPUs without having either.

    python examples/python_kernel.py [-o FOLDER]

The kernel is examples/python/mandelbrot.py. numba-cuda compiles it to PTX, and
warplens executes that on the CPU. Neighbouring points escape after different
numbers of steps, so lanes of a warp diverge; the picture shows how many are active.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import warplens
from warplens.reports.style import CATEGORY_COLOURS, pyplot, save

HERE = Path(__file__).parent
GPUS = ("h200", "a100-40gb")
MODELS = ("roofline", "mdm", "pipeline", "warplens")
WARPS_PER_ROW = 4  # of the picture: 128 points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/examples"), help="folder of the picture")
    folder = parser.parse_args().output
    trace = warplens.trace(HERE / "python" / "mandelbrot.toml")
    busy = busy_lanes(trace)
    mean, least = 100 * busy.mean(), 100 * busy.min()
    print(f"{busy.size} warps; {mean:.0f} % of the lanes are active on average, {least:.0f} % in the worst warp")
    made = warplens.compare(trace, GPUS, MODELS)
    print(f"{'time, µs':10s}" + "".join(f"{name:>10s}" for name in MODELS))
    for gpu in GPUS:
        found = {each.model: each for each in made.predictions if each.gpu == gpu}
        print(f"{gpu:10s}" + "".join(f"{1e6 * found[name].seconds:10.2f}" for name in MODELS))
        shares = {part: cycles / found["warplens"].cpi for part, cycles in found["warplens"].stack.items()}
        print(
            "  of which " + ", ".join(f"{part} {100 * share:.0f} %" for part, share in shares.items() if share > 0.03)
        )
    draw(busy, made.predictions, folder / "python-kernel.png")


def busy_lanes(trace: warplens.traces.LaunchTrace) -> np.ndarray:
    """The share of active lanes of each warp, averaged over its instructions."""
    parts: dict[tuple[int, int], float] = {}
    for group in trace.groups():
        bits = np.unpackbits(group.mask.view(np.uint8)).reshape(-1, 32).mean(axis=1)
        for index, (block, warp) in enumerate(zip(group.block, group.warp, strict=True)):
            parts[int(block), int(warp)] = float(bits[group.start[index] : group.start[index + 1]].mean())
    return np.array([parts[key] for key in sorted(parts)])


def draw(busy: np.ndarray, predictions: tuple[warplens.Prediction, ...], path: Path) -> None:
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.2), width_ratios=(1, 1.3))
    # Blocks are 32 points wide and 8 high, a warp is one row of a block.
    rows = busy.reshape(-1, WARPS_PER_ROW, 8).transpose(0, 2, 1).reshape(-1, WARPS_PER_ROW)
    shown = left.imshow(100 * rows, aspect="auto", cmap="viridis", extent=(0, 128, 128, 0))
    left.set_title("lanes at work, % (a warp is 32 points wide)", loc="left", fontsize=8.5)
    left.grid(visible=False)
    figure.colorbar(shown, ax=left)
    for place, gpu in enumerate(GPUS):
        made = next(each for each in predictions if (each.gpu, each.model) == (gpu, "warplens"))
        start = 0.0
        for part, cycles in made.stack.items():
            share, label = 100 * cycles / made.cpi, None if place else part
            right.barh(place, share, left=start, color=CATEGORY_COLOURS[part], label=label)
            start += share
    right.set_yticks(range(len(GPUS)), GPUS)
    right.set_xlabel("share of the time, %")
    right.grid(axis="y", visible=False)
    figure.legend(loc="outside right upper", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    print(path.name)


if __name__ == "__main__":
    main()
