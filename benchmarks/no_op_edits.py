"""Edits that change nothing raise no alarm: predictions of the suite's kernels after random no-op edits.

    python benchmarks/no_op_edits.py [--count 1000] [--seed 1] [--output benchmarks/no_op_edits.csv]

Each edit mixes comments, blank lines, other white space, renamed parameters and variables, reordered kernels, and
functions that nobody calls. The edited source is compiled, run and predicted from scratch, and compared with the
kernel as it is, as `warplens check` does. The table counts verdicts by kernel.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

from warplens.errors import CompileError
from warplens.gate import Snapshot, verdict
from warplens.suite.catalog import SUITE
from warplens.suite.kernel import SuiteKernel
from warplens_studies.validate.editing import Version
from warplens_studies.validate.edits import snapshot

SIZE = "small"
_PARAMETERS = re.compile(r"__global__ void \w+\(([^)]*)\)")
_VARIABLE = re.compile(r"\b(?:int|float|bool|unsigned|double|long long)\s+(\w\w+)\s*=")


def with_comments(text: str, chance: random.Random) -> str:
    """A comment before some lines and behind others; never inside a macro or behind a line that goes on."""
    found = []
    for line in text.split("\n"):
        if chance.random() < 0.2 and not line.startswith("#"):
            found.append(f"  // {chance.choice(('TODO', 'see above', 'a[i] += 1;', '/* ?'))}")
        plain = line.strip() and not line.startswith("#") and "//" not in line and not line.endswith("\\")
        found.append(f"{line}  // as before" if plain and chance.random() < 0.2 else line)
    return "\n".join(found)


def with_other_lines(text: str, chance: random.Random) -> str:
    """Blank lines, and another indentation."""
    lines = [f"{' ' * chance.randrange(3)}{line}" if not line.startswith("#") else line for line in text.split("\n")]
    return "\n" * chance.randrange(9) + "\n".join(line + "\n" * (chance.random() < 0.2) for line in lines)


def with_other_names(text: str, chance: random.Random) -> str:
    """Some parameters and variables renamed throughout."""
    parameters = {part.split()[-1].lstrip("*") for match in _PARAMETERS.findall(text) for part in match.split(",")}
    names = sorted({*parameters, *_VARIABLE.findall(text)})
    for name in chance.sample(names, min(len(names), 3)):
        if len(name) > 1 and name.isidentifier() and not re.search(rf"(?:\.|->){name}\b", text):
            text = re.sub(rf"(?<![\w.]){name}\b", f"{name}_renamed", text)
    return text


def with_other_functions(text: str, chance: random.Random) -> str:
    """Kernels that follow each other in another order, and a function that nobody calls."""
    parts = re.split(r"\n\n(?=(?://[^\n]*\n)*extern \"C\")", text)
    kernels = parts[1:]
    chance.shuffle(kernels)
    unused = "__device__ int nobody_calls(int x) { return 3 * x + 1; }"
    return "\n\n".join([unused, parts[0], *kernels] if chance.random() < 0.5 else [parts[0], *kernels, unused])


EDITS: tuple[Callable[[str, random.Random], str], ...] = (
    with_comments,
    with_other_lines,
    with_other_names,
    with_other_functions,
)


def edited(text: str, chance: random.Random) -> str:
    for edit in chance.sample(EDITS, chance.randrange(1, len(EDITS) + 1)):
        text = edit(text, chance)
    return text


def predicted(kernel: SuiteKernel, text: str) -> Snapshot:
    return snapshot(kernel.name, Version(text, kernel.options, kernel.prepare(SIZE)))


def write(output: Path, rows: dict[str, list[float]]) -> None:
    """The table so far."""
    edits, alarms, changes = zip(*rows.values(), strict=True)
    with output.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", "no_op_edits", "alarms", "largest_change"])
        writer.writerows([name, *row[:2], f"{row[2]:.3g}"] for name, row in rows.items())
        writer.writerow(["all", sum(edits), sum(alarms), f"{max(changes):.3g}"])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    given = parser.parse_args()
    kernels = list(SUITE.values())
    chance = random.Random(given.seed)
    before: dict[str, Snapshot] = {}
    rows: dict[str, list[float]] = {kernel.name: [0, 0, 0.0] for kernel in kernels}
    done, tries = 0, 0
    while done < given.count:
        kernel = kernels[tries % len(kernels)]
        tries += 1
        if kernel.name not in before:
            before[kernel.name] = predicted(kernel, kernel.source_text())
        try:
            found = verdict(before[kernel.name], predicted(kernel, edited(kernel.source_text(), chance)))
        except CompileError as error:
            print(f"{kernel.name}: {error}", file=sys.stderr)
            continue
        done += 1
        row = rows[kernel.name]
        rows[kernel.name] = [row[0] + 1, row[1] + (found.outcome != "same"), max(row[2], abs(found.change))]
        if done % 50 == 0 or done == given.count:
            write(given.output, rows)
            print(f"{done} of {given.count}, {sum(row[1] for row in rows.values())} alarms", flush=True)
    return int(any(row[1] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
