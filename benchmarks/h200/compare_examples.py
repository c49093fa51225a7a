"""The examples from source, CUDA and Triton, without a GPU, against an H200 (examples.csv).

    python benchmarks/h200/compare_examples.py docs/validation/examples.md

renews the table of the page. After measure_examples.py and measure_triton.py,

    python benchmarks/h200/compare_examples.py examples.json triton.json > benchmarks/h200/examples.csv

keeps the medians. Of a Triton launch, at most BLOCKS thread blocks are run; the rest is assumed alike.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent / "examples.csv"
COLUMNS = ("elapsed_cycles", "duration_ns", "warp_instructions", "registers", "l2_sectors")
BLOCKS = 528
BEGIN, END = "<!-- examples -->", "<!-- /examples -->"
HEADER = """| example | measured, µs | cycles | predicted | error, % | of the time, % |
| --- | --: | --: | --: | --: | --: |
"""


def keep(*paths: str) -> None:
    """Print the medians of measured files, the first of CUDA, the second of Triton."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("kind", "example", *COLUMNS))
    for kind, path in zip(("cuda", "triton"), paths, strict=True):
        document = json.loads(Path(path).read_text())
        found: dict[str, list[dict[str, str]]] = {}
        for name, row in zip(document["launched"], document["rows"], strict=True):
            found.setdefault(name, []).append(row)
        for name, rows in found.items():
            medians = (statistics.median(float(row[each].replace(",", "")) for row in rows) for each in COLUMNS)
            out.writerow((kind, name, *(f"{each:.0f}" for each in medians)))


def predictions(rows: list[dict[str, str]]) -> Iterator[tuple[dict[str, str], Any]]:
    """What is predicted from source for each measured launch."""
    import measure_examples
    import measure_triton

    import warplens
    from warplens.workload.source import record_launch

    gpu = warplens.load_gpu("h200")
    launches = dict(measure_examples.launches())
    for row in rows:
        if row["kind"] == "cuda":
            run: Any = record_launch(launches[row["example"]], gpu).trace
        else:
            case = measure_triton.case_of(row["example"])
            run = warplens.triton(case.kernel, "h200", blocks=BLOCKS)[case.grid](*case.arguments, **case.options)
        yield row, warplens.predict(run, "h200")


def renew(page: Path) -> None:
    """Put the table, and what it sums to, between the page's markers."""
    lines, by_cycles, by_time = [], [], []
    with KEPT.open() as file:
        rows = list(csv.DictReader(file))
    for row, made in predictions(rows):
        cycles, seconds = float(row["elapsed_cycles"]), float(row["duration_ns"]) * 1e-9
        by_cycles.append(float(made.cycles) / cycles - 1.0)
        by_time.append(float(made.seconds) / seconds - 1.0)
        name = row["example"] if row["kind"] == "cuda" else f"Triton {row['example']}"
        lines.append(
            f"| {name} | {1e6 * seconds:.1f} | {cycles:.0f} | {float(made.cycles):.0f} "
            f"| {100 * by_cycles[-1]:+.0f} | {100 * by_time[-1]:+.0f} |\n"
        )
        print(lines[-1], end="", flush=True)
    said = [
        f"{100 * statistics.mean(map(abs, each)):.0f} % in {what} ({sum(abs(one) > 0.4 for one in each)} above 40 %)"
        for what, each in (("cycles", by_cycles), ("time", by_time))
    ]
    table = f"{HEADER}{''.join(lines)}\nMean error of {len(rows)} launches: {said[0]}, {said[1]}.\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1].endswith(".md"):
        renew(Path(sys.argv[1]))
    else:
        keep(*sys.argv[1:])
