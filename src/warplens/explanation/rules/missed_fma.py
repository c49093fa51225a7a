"""Multiplications whose product only an addition reads: one fused instruction would do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..rule import Finding, InTriton, Rule
from ..scene import LEAST_GAIN, Scene

#: PTX without a rounding mode is left to the assembler, which fuses it.
_PRODUCTS = ("mul.rn.f", "mul.rz.f", "FMUL", "DMUL", "HMUL2")
_SUMS = ("add.rn.f", "sub.rn.f", "add.rz.f", "FADD", "DADD", "HADD2")


def look(scene: Scene) -> Iterable[Finding]:
    chosen = unfused(scene)
    if scene.most_gain(chosen) < LEAST_GAIN:
        return
    executed = scene.executions * chosen
    share = executed.sum() / scene.executions.sum()
    yield Finding(
        text=(
            f"Missed FMA: {100 * share:.0f} % of the instructions are multiplications whose product is only added to "
            "something: each such pair takes two instructions where one would do."
        ),
        removal=lambda seen: seen.without_rows(chosen),
        weights=executed,
    )


def unfused(scene: Scene) -> NDArray[np.bool_]:
    """Products that one sum alone reads."""
    opcodes, consumers = scene.static.opcode, scene.flow.consumers()
    found = np.zeros(len(opcodes), dtype=bool)
    for index in np.flatnonzero(scene.kind("fp32", "fp64", "fp16")).tolist():
        readers = consumers.get(index, set())
        if opcodes[index].startswith(_PRODUCTS) and len(readers) == 1:
            found[index] = all(opcodes[reader].startswith(_SUMS) for reader in readers)
    return found


RULE = Rule(
    name="missed-fma",
    title="multiplications and additions that could be one fused instruction",
    look=look,
    remedy=(
        "Compile without --fmad=false, and write a * b + c or fmaf(a, b, c) where __fmul_rn and __fadd_rn "
        "forbid the fusion."
    ),
    cost="The product is no longer rounded by itself: last digits change.",
    in_triton=InTriton(
        "Launch with enable_fp_fusion=True, or write tl.fma(a, b, c).",
        "The product is no longer rounded by itself: last digits change.",
    ),
)
