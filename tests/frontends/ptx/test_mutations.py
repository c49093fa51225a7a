"""Damaged PTX gives an error of ours or a correct run: never another exception, a crash, a hang or a wild access."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .launches import asynchronous, launches
from .mutating import executed, outcome, run

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("entry", launches())
def test_undamaged(entry: str) -> None:
    assert outcome(launches()[entry].text, entry) == "right"


def test_floats_cannot_be_packed_literals() -> None:
    """A word of single precision is no pair of half precision."""
    text = launches()["tensor"].text
    assert outcome(text.replace("mov.f32 %f3, 0f3F800000", "mov.f16x2 %f3, 0f3F800000"), "tensor") == "refused"


@pytest.mark.parametrize("seed", range(0, 80, 20))
def test_damaged(seed: int) -> None:
    for each in range(seed, seed + 20):
        entry, what = run(each)
        assert not what.startswith("wrong"), f"seed {each}, {entry}: {what}"


def test_undamaged_copies_and_products() -> None:
    launch = asynchronous()
    assert executed(launch.text, launch.file, launch) == ""
    b, out, tiles = launch.arguments
    factors = b[:128].astype(np.float32).reshape(2, 8, 8).transpose(0, 2, 1).reshape(16, 8)
    sums = tiles.array[:, :16].astype(np.float32) @ factors + np.arange(8) % 2
    lanes = out.reshape(4, 8, 4, 2, 2)  # warp, row, columns, half of the rows, column
    np.testing.assert_allclose(lanes.transpose(0, 3, 1, 2, 4).reshape(64, 8), sums, rtol=1e-5)


def _in_another_process(first: int, last: int, *what: str) -> None:
    command = [sys.executable, "-m", "frontends.ptx.mutating", str(first), str(last), *what]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=1.0 * (last - first) + 60, cwd=ROOT / "tests"
    )
    assert done.returncode == 0, done.stdout.splitlines()[-1:] + done.stderr.splitlines()[-5:]
    assert "wrong" not in done.stdout, [line for line in done.stdout.splitlines() if "wrong" in line]
    assert len(done.stdout.splitlines()) == last - first


def test_no_crash() -> None:
    _in_another_process(1000, 1060)


def test_no_crash_of_copies_and_products() -> None:
    _in_another_process(3000, 3040, "asynchronous")


@pytest.mark.slow
@pytest.mark.parametrize("what", [(), ("asynchronous",)])
def test_no_crash_of_many(what: tuple[str, ...]) -> None:
    _in_another_process(2000, 2400, *what)
