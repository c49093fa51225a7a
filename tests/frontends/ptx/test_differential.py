"""Random programs: native execution and the slow interpreter agree on memory, masks and addresses."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.reference.ptx import Launch

from warplens.frontends.ptx import execute, parse_ptx

from .comparing import assert_agrees, assert_same_records
from .programs import Program, programs

DATA = Path(__file__).parent / "data"
#: Programs are large for hypothesis, and compiling each takes a moment.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@settings(max_examples=25, suppress_health_check=QUIET)
@given(programs())
def test_random_programs(program: Program) -> None:
    assert_agrees(program)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=QUIET)
@given(programs())
def test_many_random_programs(program: Program) -> None:
    assert_agrees(program)


def shape() -> np.void:
    fields = np.dtype([("width", "i4"), ("scale", "f4"), ("kind", "i2"), ("weight", "f8")], align=True)
    return np.array([(3, 1.5, 2, 2.25)], fields)[0]


def launches() -> dict[str, tuple[str, tuple[int, int, int], tuple[int, int, int], list[object], int]]:
    """Compiled kernels by name: file, grid, block, arguments, dynamic shared memory."""
    random = np.random.default_rng(5)
    return {
        "saxpy": (
            "kernels",
            (3, 1, 1),
            (40, 1, 1),
            [100, np.float32(2.5), random.random(100, np.float32), random.random(100, np.float32)],
            0,
        ),
        "block_sum": (
            "kernels",
            (2, 1, 1),
            (64, 1, 1),
            [random.integers(-99, 99, 300).astype(np.int32), np.zeros(2, np.int32), 300],
            0,
        ),
        "collatz": (
            "kernels",
            (3, 1, 1),
            (32, 1, 1),
            [random.integers(1, 999, 70).astype(np.uint32), np.zeros(70, np.uint32), 70],
            0,
        ),
        "dispatch": (
            "more",
            (2, 1, 1),
            (33, 1, 1),
            [*(random.integers(-99, 99, 66).astype(np.int32) for _ in range(2)), np.zeros(66, np.int32), shape()],
            0,
        ),
        "halves": (
            "more",
            (1, 1, 1),
            (64, 1, 1),
            [
                random.random(64).astype(np.float16),
                random.random(128).astype(np.float16),
                np.zeros(128, np.float16),
                np.zeros(64, np.float32),
            ],
            256,
        ),
        "histogram": (
            "more",
            (1, 1, 1),
            (48, 1, 1),
            [random.integers(0, 256, 200).astype(np.uint8), np.zeros(16, np.uint32), 200, np.zeros(1, np.uint64)],
            0,
        ),
    }


@pytest.mark.parametrize("name", launches())
def test_compiled_kernels(name: str) -> None:
    """What a compiler emits; without .loc lines, so that records have lines of the PTX."""
    file, grid, block, mine, shared = launches()[name]
    theirs = launches()[name][3]
    text = re.sub(r"(?m)^\s*\.loc\s.*$", "", (DATA / f"{file}.ptx").read_text())
    module = parse_ptx(text)
    run = Launch(module, name, grid, block, theirs, shared).run()
    execution = execute(module, name, grid, block, mine, dynamic_shared_memory_bytes=shared)
    for one, two in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, two)
    assert_same_records(execution, run, text)
