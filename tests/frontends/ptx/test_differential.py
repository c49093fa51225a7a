"""Random programs: native execution and the slow interpreter agree on memory, masks and addresses."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from reference.ptx import Launch
from warplens.frontends.ptx import execute, parse_ptx, worker

from .comparing import assert_agrees, assert_same_records
from .launches import launches
from .programs import build

#: More instructions meet in independent programs than in those that hypothesis makes of one another.
SEEDS = [*range(25), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(25, 100))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    assert_agrees(build(Random(seed)))


@pytest.mark.parametrize("seed", range(3, 9))
def test_warps_that_are_interrupted_at_every_loop_head(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that wait elsewhere keep their registers."""
    monkeypatch.setattr(worker, "SLICE_INSTRUCTIONS", 1)
    assert_agrees(build(Random(seed)))


def test_lanes_that_wait_for_others_at_a_loop_keep_what_only_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes leave a loop with a value that the loop itself writes anew before each use."""
    text = """.version 8.0 .target sm_90 .address_size 64
    .visible .entry k(.param .u64 out) {
      .reg .b32 %r<6>; .reg .b64 %d<4>; .reg .pred %p<2>;
      ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
    LOOP: mul.lo.u32 %r3, %r2, 10;
      setp.ge.u32 %p1, %r2, %r1;
      @%p1 bra DONE;
      add.u32 %r2, %r2, 1;
      bra LOOP;
    DONE: mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r3; ret; }"""
    monkeypatch.setattr(worker, "SLICE_INSTRUCTIONS", 1)
    out = np.zeros(32, np.int32)
    execute(parse_ptx(text), "k", (1, 1, 1), (32, 1, 1), [out], record=False)
    np.testing.assert_array_equal(out, 10 * np.arange(32))


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
