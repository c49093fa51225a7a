"""Launches that compute only what their trace depends on record the same trace."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from warplens.errors import KernelFault
from warplens.frontends.ptx import execute, parse_ptx, worker
from warplens.frontends.ptx.execute import compile_kernel
from warplens.frontends.ptx.flatten import flatten
from warplens.frontends.ptx.needed import needed_by_trace

from .comparing import records
from .launches import launches
from .programs import build


def assert_same_trace(text: str, entry: str, shape: Any, full: list[Any], part: list[Any], shared: int = 0) -> None:
    module, given = parse_ptx(text), {"dynamic_shared_memory_bytes": shared}
    wanted = execute(module, entry, *shape, full, **given)
    assert records(execute(module, entry, *shape, part, results=False, **given)) == records(wanted)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SLICE_INSTRUCTIONS", 1 if seed % 2 else 1000)
    program = build(Random(seed))
    shape = program.grid, program.block
    assert_same_trace(program.text, "program", shape, program.arguments(), program.arguments())


@pytest.mark.parametrize("name", launches())
def test_compiled_kernels(name: str) -> None:
    full, part = launches()[name], launches()[name]
    shared = full.dynamic_shared_memory_bytes
    assert_same_trace(full.text, name, full.dimensions, full.arguments, part.arguments, shared)


HEAD = """.version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .pred %p<3>; .shared .align 4 .b32 words[32];
  ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;
  mov.u32 %r2, words; mad.lo.u32 %r3, %r1, 4, %r2;
"""
#: What follows, whether the trace depends on memory, and registers it does not depend on.
CASES = {
    "a sum": ("ld.global.f32 %f1, [%d3]; add.f32 %f2, %f1, %f1; st.global.f32 [%d3], %f2;", False, {"%f1", "%f2"}),
    "an address from memory": (
        """and.b32 %r4, %r1, 3; st.shared.u32 [%r3], %r4; bar.sync 0; ld.shared.u32 %r5, [%r3];
        mul.wide.u32 %d4, %r5, 4; add.s64 %d5, %d1, %d4; mov.f32 %f1, 0f00000000; st.global.f32 [%d5], %f1;""",
        True,
        set(),
    ),
    "a branch on what was loaded": (
        "ld.global.f32 %f1, [%d3]; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra OUT; st.global.f32 [%d3], %f1; OUT:",
        True,
        set(),
    ),
    "a guard": ("setp.gt.u32 %p1, %r1, 7; @%p1 mov.u32 %r4, 1; st.global.u32 [%d3], %r4;", False, {"%r4"}),
    "an atomic": ("mov.u32 %r4, 1; atom.global.add.u32 %r5, [%d3], %r4; st.global.u32 [%d3], %r5;", False, {"%r5"}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_needed(case: str) -> None:
    body, memory, spared = CASES[case]
    text = f"{HEAD}{body} ret; }}"
    needed = needed_by_trace(flatten(parse_ptx(text), "k", None))
    assert needed.memory == memory == compile_kernel(parse_ptx(text), "k", results=False).reads_arrays
    assert spared.isdisjoint(needed.registers) and "%d1" in needed.registers
    start = np.random.default_rng(1).normal(size=32).astype(np.float32)
    full, part = start.copy(), start.copy()
    assert_same_trace(text, "k", (1, 32), [full], [part])
    assert memory or np.array_equal(part, start), "what is stored is not computed"


@pytest.mark.parametrize(("offset", "why"), [(124, "out of bounds"), (2, "not a multiple")])
def test_bad_accesses_are_found_all_the_same(offset: int, why: str) -> None:
    text = f"{HEAD}ld.shared.f32 %f1, [%r3+{offset}]; st.global.f32 [%d3], %f1; ret; }}"
    said = []
    for results in (True, False):
        with pytest.raises(KernelFault, match=why) as caught:
            execute(parse_ptx(text), "k", 1, 32, [np.zeros(32, np.float32)], results=results)
        said.append(str(caught.value))
    assert said[0] == said[1]
