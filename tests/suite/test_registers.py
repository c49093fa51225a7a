"""Registers estimated from the PTX against those that NVRTC's machine code uses, over the suite."""

from __future__ import annotations

import statistics

from warplens.frontends.cuda.module import cuda
from warplens.frontends.ptx.flatten import flatten
from warplens.frontends.ptx.flow import Flow
from warplens.frontends.ptx.registers import allocate_registers
from warplens.suite.catalog import SUITE


def test_the_estimate_is_near_the_compiler_on_average():
    ratios = []
    for kernel in SUITE.values():
        compiled = cuda(kernel.source_text(), options=kernel.options, name=kernel.source).kernel(kernel.entry)
        flat = flatten(compiled.ptx, compiled.entry)
        estimate = allocate_registers(flat, Flow(flat)).registers_per_thread
        ratios.append(estimate / compiled.registers_per_thread)
    assert statistics.mean(abs(ratio - 1) for ratio in ratios) < 0.25
    assert 0.9 < statistics.median(ratios) < 1.1
