"""Integer division and modulo by values that are known only at run time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...traces import StaticTable
from ..rule import Finding, InTriton, Rule
from ..scene import LEAST_GAIN, Scene

#: Machine code divides by way of a floating-point reciprocal: its first conversion, and instructions from there on.
_FIRST, _SEQUENCE = "I2F.U32.RP", 16

#: Instructions in place of a division: multiply, shift and subtract, or add, compare and select for a running index.
INSTEAD = 3


def look(scene: Scene) -> Iterable[Finding]:
    divisions, others = division_rows(scene.static, scene.kind("int32_div"))
    whole = divisions | others
    if scene.most_gain(whole) < LEAST_GAIN:
        return
    executed = scene.executions * divisions
    modulo = np.array([opcode.startswith("rem") for opcode in scene.static.opcode])
    counts = {"divisions": executed[~modulo].sum(), "modulos": executed[modulo].sum()}
    parts = [f"{count / scene.warps:.3g} {name}" for name, count in counts.items() if count]
    timing = scene.gpu.timing("int32_div", "advice")
    yield Finding(
        text=(
            f"Integer division: a warp executes {' and '.join(parts)} by run-time values, each a sequence that "
            f"takes {float(timing.latency_cycles):.0f} cycles."
        ),
        removal=lambda seen: (
            seen.without_rows(others).with_repeats(divisions, INSTEAD).with_classes(divisions, "int32")
        ),
        weights=executed,
    )


def division_rows(static: StaticTable, of_class: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(One instruction for each division, the others of its sequence)."""
    first, others = of_class.copy(), np.zeros(len(static), dtype=bool)
    for index, opcode in enumerate(static.opcode):
        if opcode.startswith(_FIRST):
            first[index] = True
            others[index + 1 : index + _SEQUENCE] = static.access_bytes[index + 1 : index + _SEQUENCE] == 0
    return first, others & ~first


RULE = Rule(
    name="integer-division",
    title="integer division and modulo by values that are known only at run time",
    look=look,
    remedy=(
        "Make the divisor a constant (template parameter) or a power of two (shift and mask), keep running indices "
        "in place of i / n and i % n, or multiply by a reciprocal computed once (__umulhi)."
    ),
    cost="A template is compiled once per divisor; a running index is one more register.",
    benefits=("B_fp",),
    in_triton=InTriton(
        "Make the divisor a tl.constexpr or a power of two, or give each index an axis of the grid "
        "(tl.program_id(1)) in place of // and %.",
        "A tl.constexpr is compiled once per value.",
    ),
)
