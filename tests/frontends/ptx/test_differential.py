"""Random programs: native execution and the slow interpreter agree on memory, masks and addresses."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from reference.ptx import Launch
from warplens.frontends.ptx import execute, parse_ptx

from .comparing import assert_agrees, assert_same_records
from .launches import launches
from .programs import build

#: More instructions meet in independent programs than in those that hypothesis makes of one another.
SEEDS = [*range(25), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(25, 100))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    assert_agrees(build(Random(seed)))


@pytest.mark.parametrize("name", launches())
def test_compiled_kernels(name: str) -> None:
    """What a compiler emits."""
    mine, theirs = launches()[name], launches()[name]
    module = parse_ptx(mine.text)
    grid, block = mine.dimensions
    shared = mine.dynamic_shared_memory_bytes
    run = Launch(module, name, grid, block, theirs.arguments, shared).run()
    execution = execute(module, name, grid, block, mine.arguments, dynamic_shared_memory_bytes=shared)
    for one, two in zip(mine.arguments, theirs.arguments, strict=True):
        np.testing.assert_array_equal(one, two)
    assert_same_records(execution, run, mine.text)
