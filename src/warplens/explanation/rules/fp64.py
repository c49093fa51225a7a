"""Double precision: arithmetic in double, or float code that a double literal pulls into it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...traces import CLASS_IDS, StaticTable, WarpGroup
from ...traces.rewrite import keep_executions, lane_addresses, with_addresses
from ..rule import Finding, InTriton, Rule
from ..scene import LEAST_GAIN, Scene

_LITERAL = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+)(?:e[+-]?\d+)?(?![\w.])", re.IGNORECASE)
_WIDENS = ("cvt.f64.f32", "F2F.F64.F32")
_NARROWS = ("cvt.rn.f32.f64", "F2F.F32.F64")


def look(scene: Scene) -> Iterable[Finding]:
    static = scene.static
    double = scene.kind("fp64", "fp64_div")
    between = np.array([opcode.startswith((*_WIDENS, *_NARROWS)) for opcode in static.opcode])
    if scene.most_gain(double | between) < LEAST_GAIN:
        return
    executed = scene.executions * (double | between)
    stored = wide_accesses(scene)
    share = 100.0 * float((scene.executions * double).sum()) / float(scene.executions.sum())
    fp64, fp32 = (float(scene.gpu.timing(name, "advice").interval_cycles) for name in ("fp64", "fp32"))
    slower = f"an SM executes FP32 {fp64 / fp32:.3g} times as fast"
    if stored.any():
        text = f"Double precision: {share:.0f} % of the instructions are FP64 on data stored as double; {slower}."
        remedy, cost = "Use float where its 24 bits are enough, for example with a double accumulator.", ""
    else:
        line = None if scene.is_triton else literal_line(scene, executed)
        why = f"the literal {line[1]} of line {line[0]} has no f" if line else "values become double and float again"
        text = f"Double precision in float code: {share:.0f} % of the instructions are FP64, as {why}; {slower}."
        remedy, cost = "", ""

    def change(group: WarpGroup, before: StaticTable) -> WarpGroup:
        lanes = lane_addresses(group, before, stored)
        group = with_addresses(group, before, lanes.moved(lanes.address // np.uint64(2)))
        return keep_executions(group, before, ~between[group.static])

    classes = static.class_id.copy()
    for name in ("fp64", "fp64_div"):
        classes[scene.kind(name)] = CLASS_IDS[name.replace("64", "32")]
    width = np.where(stored, static.access_bytes // 2, static.access_bytes).astype(static.access_bytes.dtype)
    yield Finding(
        text=text,
        removal=lambda seen: seen.with_trace(change, class_id=classes, access_bytes=width),
        weights=executed,
        remedy=remedy,
        cost=cost,
    )


def wide_accesses(scene: Scene) -> NDArray[np.bool_]:
    """Accesses to data that are stored as double."""
    arithmetic = np.flatnonzero(scene.kind("fp64", "fp64_div")).tolist()
    reads = {writer for reader in arithmetic for writer in scene.flow.of(reader)}
    named = [".f64" in opcode or index in reads for index, opcode in enumerate(scene.static.opcode)]
    return np.array(named) & (scene.static.access_bytes >= 8)


def literal_line(scene: Scene, executed: NDArray[np.float64]) -> tuple[int, str] | None:
    """The line with most FP64 instructions that has a double literal, and the literal."""
    for line in scene.lines_of(executed):
        if found := _LITERAL.search(line.text.partition("//")[0]):
            return line.line, found.group()
    return None


RULE = Rule(
    name="fp64",
    title="double-precision arithmetic, or a double literal in float code",
    look=look,
    remedy="Write literals with f (2.5f) and call the float functions (sqrtf, expf), so that nothing becomes double.",
    cost="Results have the 24 bits of float.",
    in_triton=InTriton(
        "Use float32 arrays and scalars where 24 bits are enough, for example with a tl.float64 accumulator.",
        "Results have the 24 bits of float32.",
    ),
)
