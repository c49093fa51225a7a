"""Accurate transcendental functions, division and square root, where fast ones may do."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...traces import CLASS_IDS
from ..rule import Finding, InTriton, Rule
from ..scene import LEAST_GAIN, Scene

#: Instructions of the intrinsic that takes the place of a function.
_FAST = {
    "sinf": 2,
    "cosf": 2,
    "sincosf": 3,
    "tanf": 4,
    "expf": 2,
    "exp2f": 1,
    "exp10f": 2,
    "powf": 3,
    "tanhf": 1,
    "logf": 2,
    "log2f": 1,
    "log10f": 2,
}
#: Special functions among them, where it is more than one.
_SPECIAL = {"sincosf": 2, "tanf": 3, "powf": 2}
_CALL = re.compile(rf"(?<!\w)({'|'.join(_FAST)}|{'|'.join(name[:-1] for name in _FAST)})\s*\(")
#: An instruction that occurs once in the sequence of a function, in PTX and in machine code.
_ANCHORS = {
    **dict.fromkeys(("sin", "cos", "sincos", "tan"), ("cvt.rni.s32.f32", "F2I")),
    **dict.fromkeys(("exp", "exp2", "exp10", "tanh"), ("ex2.", "MUFU.EX2")),
    **dict.fromkeys(("log", "log2", "log10"), ("cvt.rn.f32.s32", "I2F")),
    "pow": ("rcp.", "MUFU.RCP"),
}
_OPERATOR = re.compile(r"[-+*/%<>?&|^]=?")
_COMPUTE = (
    *("fp32", "fp32_div", "fp64", "sfu", "conversion", "conversion_fp64"),
    *("int32", "int32_mad", "uniform", "move", "control"),
)


def look(scene: Scene) -> Iterable[Finding]:
    static = scene.static
    divisions = np.array(
        [name == "fp32_div" and "approx" not in opcode and ".full" not in opcode for name, opcode in _rows(scene)]
    )
    dropped, calls = sequences(scene)
    kept = np.zeros(len(static), dtype=bool)
    for copies in calls.values():
        for rows, name in copies:
            kept[rows[-_SPECIAL.get(name, 1) :]] = True
    if scene.most_gain(divisions | dropped) < LEAST_GAIN:
        return
    executed = scene.executions * (divisions | dropped | kept)
    told = []
    cost = {line: sum(executed[rows].sum() for rows, _ in copies) for line, copies in calls.items()}
    for line, ((rows, name), *_) in sorted(calls.items(), key=lambda each: -cost[each[0]])[:1]:
        count = scene.executions[rows].sum() / max(scene.executions[rows].max(), 1)
        in_triton = "tl.exp2" if name == "exp2f" else f"libdevice.fast_{name}"
        fast = in_triton if scene.is_triton else f"__{name}"
        told.append(f"line {line} with its {name} takes {count:.0f} instructions, where {fast} takes {_FAST[name]}")
    if divisions.any():
        count = (scene.executions * divisions).sum() / scene.warps
        told.append(f"a warp executes {count:.3g} exact {'division' if count == 1 else 'divisions'}")
    classes = np.where(divisions | kept, CLASS_IDS["sfu"], static.class_id).astype(np.uint8)
    yield Finding(
        text=f"Special functions: {', and '.join(told)}.",
        removal=lambda seen: seen.without_rows(dropped).with_trace(class_id=classes),
        weights=executed,
    )


def _rows(scene: Scene) -> Iterable[tuple[str, str]]:
    return zip(scene.classes.tolist(), scene.static.opcode, strict=True)


def sequences(scene: Scene) -> tuple[NDArray[np.bool_], dict[int, list[tuple[NDArray[np.int64], str]]]]:
    """(Instructions that intrinsics would save, by line the instructions of a function and its name, copy by copy).

    The line's own operators stay; the first instruction stays too, as it waits for the argument.
    """
    dropped = np.zeros(len(scene.static), dtype=bool)
    found: dict[int, list[tuple[NDArray[np.int64], str]]] = {}
    compute = scene.kind(*_COMPUTE) & (scene.executions > 0)
    for line in np.unique(scene.static.line[compute & (scene.static.line > 0)]).tolist():
        text = scene.text_of(line).partition("#" if scene.is_triton else "//")[0]
        names = [name if name.endswith("f") else f"{name}f" for name in _CALL.findall(text)]
        if scene.is_triton and "libdevice" not in text:  # tl.exp and tl.exp2 are fast already
            names = [name for name in names if name not in ("expf", "exp2f")]
        rows = np.flatnonzero(compute & (scene.static.line == line))
        own = len(_OPERATOR.findall(text)) + sum(_FAST[name] for name in names)
        if not names:
            continue
        anchor = _ANCHORS[names[0].removesuffix("f")]
        anchors = sum(scene.static.opcode[row].startswith(anchor) for row in rows.tolist())
        for copy in np.array_split(rows, max(anchors // names.count(names[0]), 1)):  # the loop may be unrolled
            if len(copy) > own + 1:
                dropped[copy[1 : len(copy) - own]] = True
                found.setdefault(line, []).append((copy, names[0]))
    return dropped, found


RULE = Rule(
    name="special-functions",
    title="accurate functions and divisions where fast ones may do",
    look=look,
    remedy=(
        "Use intrinsics (__sinf, __expf, __powf, __fdividef) or compile with --use_fast_math; multiply by a "
        "reciprocal that is computed once; write x * x for powf(x, 2)."
    ),
    cost="Intrinsics are less accurate, above all far from 0; --use_fast_math also flushes denormals.",
    benefits=("B_fp", "B_serial"),
    in_triton=InTriton(
        "Use the fast functions of triton.language.extra.libdevice (fast_sinf, fast_logf, fast_powf, "
        "fast_dividef); multiply by a reciprocal that is computed once; write x * x for a power of 2.",
        "They are less accurate, above all far from 0.",
    ),
)
