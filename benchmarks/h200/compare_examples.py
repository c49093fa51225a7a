"""The examples from source, CUDA and Triton, without a GPU, against an H200 (examples.csv).

    python benchmarks/h200/compare_examples.py docs/validation/examples.md

renews the table of the page. After measure_examples.py and measure_triton.py,

    python benchmarks/h200/compare_examples.py examples.json triton.json > benchmarks/h200/examples.csv

keeps the medians. Of a Triton launch, at most BLOCKS thread blocks are run; the rest is assumed alike. After
trace_examples.py, whose traces of machine code are too large to be kept here,

    python benchmarks/h200/compare_examples.py OUT > benchmarks/h200/traced_examples.csv

keeps what is predicted from them: from the traces in OUT, and from those that were left on the machine with the GPU
as OUT/sass.jsonl has it.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEPT, TRACED = (Path(__file__).parent / name for name in ("examples.csv", "traced_examples.csv"))
COLUMNS = ("elapsed_cycles", "duration_ns", "warp_instructions", "registers", "l2_sectors")
BLOCKS = 528
BEGIN, END = "<!-- examples -->", "<!-- /examples -->"
NAMES = "example", "measured, µs", "cycles", "from source", "error, %", "of the time, %", "machine code", "error, %"
HEADER = f"| {' | '.join(NAMES)} |\n| --- |{' --: |' * (len(NAMES) - 1)}\n"


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


def runs(rows: list[dict[str, str]]) -> Iterator[tuple[dict[str, str], Any]]:
    """Each measured launch, run from source."""
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
        yield row, run


def predictions(rows: list[dict[str, str]]) -> Iterator[tuple[dict[str, str], Any]]:
    """What is predicted from source for each measured launch."""
    import warplens

    for row, run in runs(rows):
        yield row, warplens.predict(run, "h200")


def keep_traced(folder: Path) -> None:
    """Print the cycles that are predicted from traces of machine code, and the sectors that these send to the L2."""
    import warplens
    from warplens.workload.traced import cache_misses

    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("kind", "example", "cycles", "l2_sectors", "predicted"))
    gpu = warplens.load_gpu("h200")
    for line in sorted((folder / "sass.jsonl").read_text().splitlines()):
        row = json.loads(line)
        path, kind = folder / row["trace"], {"examples": "cuda"}.get(row["kind"], row["kind"])
        if path.exists():
            workload = warplens.load_workload(path)
            made, misses = warplens.predict(workload, gpu), cache_misses(workload, gpu)
            traced = workload.trace.header.extra["blocks_traced"] / workload.trace.header.blocks
            sectors = (misses.column("requests") - misses.column("l1_hits")).sum() / traced
            numbers = f"{float(made.cycles):.0f}", f"{sectors:.0f}"
            out.writerow((kind, row["example"], *numbers, "from the kept trace"))
        elif "cycles" in row:
            out.writerow((kind, row["example"], f"{row['cycles']:.0f}", "", "where it was traced"))


def renew(page: Path) -> None:
    """Put the table, and what it sums to, between the page's markers."""
    with KEPT.open() as kept, TRACED.open() as traced:
        rows = list(csv.DictReader(kept))
        from_code = {(row["kind"], row["example"]): float(row["cycles"]) for row in csv.DictReader(traced)}
    lines: list[str] = []
    errors: dict[str, list[float]] = {"cycles": [], "time": [], "cycles from machine code": []}
    for row, made in predictions(rows):
        cycles, seconds = float(row["elapsed_cycles"]), float(row["duration_ns"]) * 1e-9
        errors["cycles"].append(float(made.cycles) / cycles - 1.0)
        errors["time"].append(float(made.seconds) / seconds - 1.0)
        name = row["example"] if row["kind"] == "cuda" else f"Triton {row['example']}"
        cells = [f"{1e6 * seconds:.1f}", f"{cycles:.0f}", f"{float(made.cycles):.0f}"]
        cells += [f"{100 * errors[each][-1]:+.0f}" for each in ("cycles", "time")]
        code = from_code.get((row["kind"], row["example"]))
        if code is not None:
            errors["cycles from machine code"].append(code / cycles - 1.0)
            cells += [f"{code:.0f}", f"{100 * errors['cycles from machine code'][-1]:+.0f}"]
        else:
            cells += ["–", "–"]
        lines.append(f"| {' | '.join((name, *cells))} |\n")
        print(lines[-1], end="", flush=True)
    said = [
        f"{100 * statistics.mean(map(abs, each)):.1f} % in {what} ({len(each)} launches, "
        f"{sum(abs(one) > 0.4 for one in each)} above 40 %)"
        for what, each in errors.items()
    ]
    table = f"{HEADER}{''.join(lines)}\nMean error: {', '.join(said)}.\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1].endswith(".md"):
        renew(Path(sys.argv[1]))
    elif Path(sys.argv[1]).is_dir():
        keep_traced(Path(sys.argv[1]))
    else:
        keep(*sys.argv[1:])
