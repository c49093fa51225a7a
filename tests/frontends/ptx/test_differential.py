"""Random programs: native execution and the slow interpreter agree on memory, masks and addresses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from reference.ptx import Launch
from warplens.frontends.ptx import execute, parse_ptx

from .comparing import assert_agrees, assert_same_records
from .launches import launches
from .programs import Program, programs

#: Programs are large for hypothesis, and compiling each takes a moment.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
#: Shrinking such a program takes minutes; the message names the line that differs.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


@settings(max_examples=25, suppress_health_check=QUIET, phases=PHASES)
@given(programs())
def test_random_programs(program: Program) -> None:
    assert_agrees(program)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=QUIET, phases=PHASES)
@given(programs())
def test_many_random_programs(program: Program) -> None:
    assert_agrees(program)


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
