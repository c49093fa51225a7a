"""Issue slots or a functional unit are full, and part of the instructions only steer loops or compute addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...traces import StaticTable, WarpGroup
from ...traces.rewrite import keep_executions
from ..rule import Finding, InTriton, Rule
from ..scene import LEAST_GAIN, Scene

#: How busy issue slots or a unit must be.
BUSY = 0.5
#: Iterations that an unrolled loop does at a time.
UNROLLED = 4
_NAMES = dict.fromkeys(("int32", "int32_mad"), "integer") | {
    "uniform": "warp-uniform",
    "control": "branch",
    "move": "move",
    "fp32": "FP32",
    "conversion": "conversion",
}


def look(scene: Scene) -> Iterable[Finding]:
    busy = max(scene.busy("issue"), scene.busy("units"))
    if busy < BUSY:
        return
    extra = overhead(scene)
    if scene.most_gain(extra) < LEAST_GAIN:
        return
    total = scene.executions.sum()
    by_kind: Counter[str] = Counter()
    for name in np.unique(scene.classes):
        by_kind[_NAMES.get(name, name)] += int(scene.executions[scene.classes == name].sum())
    ((most, count),) = by_kind.most_common(1)
    executed = scene.executions * extra
    trips = scene.executions[extra].max() / scene.warps

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        mine = np.flatnonzero(extra[group.static])
        keep = np.ones(len(group.static), dtype=bool)
        order = np.argsort(group.static[mine], kind="stable")
        keep[mine[order]] = np.arange(len(mine)) % UNROLLED == UNROLLED - 1
        return keep_executions(group, static, keep)

    yield Finding(
        text=(
            f"Instruction-bound: issue slots or a unit are {100 * busy:.0f} % busy; "
            f"{100 * count / total:.0f} % of the instructions are {most}, and "
            f"{100 * executed.sum() / total:.0f} % only compute addresses, count or test in loops that run up to "
            f"{trips:.0f} times."
        ),
        removal=lambda seen: seen.with_trace(change),
        weights=executed,
    )


def overhead(scene: Scene) -> NDArray[np.bool_]:
    """What a warp repeats to steer a loop or to compute addresses that follow a pattern: it reads no loaded data."""
    static, flow, consumers = scene.static, scene.flow, scene.flow.consumers()
    repeated = scene.executions > 2 * scene.warps
    found = scene.kind("control") & repeated
    fetched = static.access_bytes > 0
    integer = np.flatnonzero(scene.kind("int32", "move", "conversion", "conversion_fp64") & repeated).tolist()
    candidates = [index for index in integer if not any(fetched[origin] for origin in flow.behind([index]))]

    def only_address(index: int, reader: int) -> bool:
        """A store reads its address first, and then what it stores."""
        return bool(fetched[reader]) and not any(index in makers for makers in flow.producers[reader][1:])

    growing = True
    while growing:
        growing = False
        for index in candidates:
            readers = consumers.get(index, set()) - {index}
            if not found[index] and readers and all(found[each] or only_address(index, each) for each in readers):
                found[index] = growing = True
    return found


RULE = Rule(
    name="instruction-bound",
    title="issue slots or a unit are full, partly with addresses and tests of loops",
    look=look,
    remedy=(
        "Unroll the loop (#pragma unroll 4, or constant bounds) and advance one pointer, so that tests are made once "
        "for several iterations and addresses become constant offsets; treat borders apart from the interior."
    ),
    cost="More registers and code; trip counts that are no multiple need a remainder loop.",
    benefits=("B_fp",),
    in_triton=InTriton(
        "Use a larger BLOCK, make loop bounds tl.constexpr and unroll (tl.static_range, or tl.range with "
        "loop_unroll_factor), leave out masks where the BLOCK divides the size, and say what is aligned "
        "(tl.multiple_of).",
        "More registers and code; a tl.constexpr is compiled once per value.",
    ),
)
