"""The Triton examples from source, without a GPU, against their times on an H200 (triton.csv).

    python benchmarks/h200/compare_triton.py [EXAMPLE...]

The times were measured around a CUDA graph of one kernel, with Triton 3.6. Events and the graph add some 7.7 µs to
each: the row `one-element fill`, less the launch overhead that the model predicts for any kernel. This difference is
uncertain by about a microsecond, which is much for kernels of 2 or 3 µs.
"""

from __future__ import annotations

import csv
import importlib
import statistics
import sys
from pathlib import Path

import warplens

HERE = Path(__file__).parent
#: Thread blocks to run of a launch; the others are assumed to be like them.
BLOCKS = 528


def main(*names: str) -> None:
    sys.path.insert(0, str(HERE.parents[1] / "examples" / "triton"))
    *rows, smallest = csv.DictReader((HERE / "triton.csv").open())
    errors = []
    print(f"{'example':50} {'measured':>9} {'predicted':>9} {'error':>7}   µs")
    for row in rows:
        if names and row["example"] not in names:
            continue
        size = {key: int(value) for key, _, value in (part.partition("=") for part in row["size"].split())}
        case = importlib.import_module(row["example"]).example(**size)
        run = warplens.triton(case.kernel, "h200", blocks=BLOCKS)[case.grid](*case.arguments, **case.options)
        made = warplens.predict(run, "h200")
        launch_seconds = made.terms["launch"] * made.seconds / made.cycles
        measured = float(row["seconds"]) - (float(smallest["seconds"]) - launch_seconds)
        errors.append(made.seconds / measured - 1)
        label = f"{row['example']} {row['size']}"
        print(f"{label:50} {1e6 * measured:9.2f} {1e6 * made.seconds:9.2f} {100 * errors[-1]:+6.0f} %", flush=True)
    if errors:
        mean = statistics.mean(map(abs, errors))
        print(f"mean error {100 * mean:.0f} %, largest {100 * max(map(abs, errors)):.0f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
