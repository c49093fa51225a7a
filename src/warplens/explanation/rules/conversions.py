"""Conversions between integers and floating point, or between floating-point types."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from ...traces.machine_code import code_of
from ..rule import Finding, InTriton, Rule
from ..scene import LEAST_GAIN, Scene

_FLOATS = re.compile(r"b?f\d+|e\dm\d")
_NUMBERS = re.compile(r"b?f\d+|[us]\d+|e\dm\d\w*")


def look(scene: Scene) -> Iterable[Finding]:
    kinds = np.array([conversion(opcode) for opcode in scene.static.opcode])
    chosen = scene.kind("conversion", "conversion_fp64") & (kinds != "")
    if code := code_of(scene.trace.header):  # a compiler makes a shift of bf16 to f32, and arithmetic of f16 to f32
        made = zip(code.opcodes, code.origins, strict=True)
        chosen &= np.isin(np.arange(len(kinds)), [origin for opcode, origin in made if conversion(opcode)])
    if scene.most_gain(chosen) < LEAST_GAIN:
        return
    executed = scene.executions * chosen
    counts = {kind: int(executed[kinds == kind].sum()) for kind in np.unique(kinds[chosen])}
    most = max(counts, key=counts.__getitem__)
    share = executed.sum() / scene.executions.sum()
    kind = str(scene.classes[np.argmax(executed * (kinds == most))])
    yield Finding(
        text=(
            f"Type conversions are {100 * share:.0f} % of the instructions, most of them {most}; an SM executes one "
            f"warp's in {float(scene.gpu.timing(kind, 'advice').interval_cycles):.3g} cycles."
        ),
        removal=lambda seen: seen.without_rows(chosen),
        weights=executed,
    )


def conversion(opcode: str) -> str:
    """What a conversion converts ("from s32 to f32"); "" for integers made wider or rounding within a type."""
    name, *parts = opcode.split(".")
    if name == "cvt":
        types = [part for part in parts if _NUMBERS.fullmatch(part)]
        to, of = (types[0], types[-1]) if len(types) > 1 else ("", "")
    elif name.lstrip("U") in ("I2F", "I2FP", "F2I", "F2F", "F2FP"):
        of, to = name.lstrip("U").removesuffix("P").split("2")
        of, to = of.replace("I", "integer").replace("F", "float"), to.replace("I", "integer").replace("F", "float")
        return f"from {of} to {to}" if of != to else "between float types"
    else:
        return ""
    floats = [bool(_FLOATS.match(each)) for each in (of, to)]
    return f"from {of} to {to}" if any(floats) and of != to else ""


RULE = Rule(
    name="conversions",
    title="conversions between types at a low rate",
    look=look,
    remedy=(
        "Convert once, outside the loop, or keep a value in one type: a float counter beside the integer one, "
        "data stored in the type that is computed with, packed conversions (__half22float2)."
    ),
    cost="A second variable takes a register; wider stored data take bandwidth.",
    benefits=("B_fp",),
    in_triton=InTriton(
        "Convert once, before the loop, store data in the type that is computed with, and give tl.dot its "
        "operands as they are stored, without .to(tl.float32).",
        "Wider stored data take bandwidth.",
    ),
)
