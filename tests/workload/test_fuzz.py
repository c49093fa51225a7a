"""Mutated workload files give a workload or an `InputError`, never anything else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from warplens import example_names, load_workload
from warplens.api import compare
from warplens.errors import InputError
from warplens.workload import Workload, example_folder

#: Files that between them use every table and key.
FILES = ["gpumech-fig9", "hong-kim-table2", "lemeire-example", "mdm-baseline", "wfg-case2"]
VALUES = [
    "0", "-1", "1", "1e18", "1e19", "-0.0", "1e-300", "nan", "inf", "-inf", "true", '""', '"x"', "[]", "[1]", "{}",
    '["c1"]', '["c1", "m2"]', "{ count = 2 }", "2026-01-01", "99999999999999999999", "0x7f", '"comp"', '"mem"',
]  # fmt: skip


def mutate(rng: random.Random, text: str) -> bytes:
    """One to three changes to a file: of bytes, lines, keys or values."""
    for _ in range(rng.randint(1, 3)):
        lines = text.split("\n")
        line = rng.randrange(len(lines))
        kind = rng.randrange(8)
        if kind == 0:
            del lines[line]
        elif kind == 1:
            lines.insert(line, lines[rng.randrange(len(lines))])
        elif kind == 2:
            other = rng.randrange(len(lines))
            lines[line], lines[other] = lines[other], lines[line]
        elif kind == 3 and "=" in lines[line]:
            lines[line] = lines[line].split("=")[0] + "= " + rng.choice(VALUES)
        elif kind == 4 and "=" in lines[line]:
            lines[line] = (
                rng.choice(["x", "count", "class", "depends", "set", "repeat", "name"]) + " = " + rng.choice(VALUES)
            )
        elif kind == 5 and lines[line]:
            at = rng.randrange(len(lines[line]))
            lines[line] = (
                lines[line][:at] + rng.choice("[]{}=\"'.,#\\\t\0é–0-x") + lines[line][at + rng.randrange(2) :]
            )
        elif kind == 6:
            lines[line] = re.sub(r"\d+(\.\d+)?", lambda _: rng.choice(VALUES[:10]), lines[line])
        else:
            lines = lines[: line + 1]
        text = "\n".join(lines)
    raw = text.encode()
    if rng.random() < 0.05:
        at = rng.randrange(len(raw) + 1)
        raw = raw[:at] + bytes([rng.randrange(256)]) + raw[at:]
    return raw


def check(path: Path) -> str:
    """Load the file and run every model on it; the outcome, or the error for the report."""
    try:
        workload = load_workload(path)
    except InputError as error:
        assert str(path) in str(error) or "machine" in str(error)
        return "refused"
    assert isinstance(workload, Workload)
    try:
        compare(workload)
    except InputError:
        return "loaded"
    return "predicted"


def fuzz(tmp_path: Path, count: int, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    sources = [(example_folder() / f"{name}.toml").read_text(encoding="utf-8") for name in FILES]
    outcomes: dict[str, int] = {}
    path = tmp_path / "fuzzed.toml"
    for number in range(count):
        raw = mutate(rng, rng.choice(sources))
        path.write_bytes(raw)
        try:
            outcome = check(path)
        except Exception as error:
            raise AssertionError(f"mutation {number} of seed {seed} gives {error!r}:\n{raw!r}") from error
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return outcomes


def test_mutated_files_give_a_workload_or_an_input_error(tmp_path):
    outcomes = fuzz(tmp_path, 300, seed=1)
    # The mutations are mild enough that both happen, or the test would show little.
    assert min(outcomes["refused"], outcomes["predicted"]) > 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_thousands_of_mutated_files(tmp_path, seed):
    fuzz(tmp_path, 1000, seed)


def test_the_fuzzed_files_exist():
    assert set(FILES) <= set(example_names())
