"""Issue slots or a functional unit are full, and part of the instructions only steer loops."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...traces import StaticTable, WarpGroup
from ...traces.rewrite import keep_executions
from ..rule import Finding, Rule
from ..scene import Scene

#: How busy issue slots or a unit must be.
BUSY = 0.5
#: Iterations that an unrolled loop does at a time.
UNROLLED = 4
_NAMES = {"int32": "integer", "control": "branch", "move": "move", "fp32": "FP32", "conversion": "conversion"}


def look(scene: Scene) -> Iterable[Finding]:
    busy = max(scene.busy("issue"), scene.busy("units"))
    if busy < BUSY:
        return
    steering = loop_steering(scene)
    if not steering.any():
        return
    total = scene.executions.sum()
    by_class = {name: int(scene.executions[scene.classes == name].sum()) for name in np.unique(scene.classes)}
    most = max(by_class, key=by_class.__getitem__)
    executed = scene.executions * steering
    trips = scene.executions[steering].max() / scene.warps

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        mine = np.flatnonzero(steering[group.static])
        keep = np.ones(len(group.static), dtype=bool)
        order = np.argsort(group.static[mine], kind="stable")
        keep[mine[order]] = np.arange(len(mine)) % UNROLLED == UNROLLED - 1
        return keep_executions(group, static, keep)

    yield Finding(
        text=(
            f"Instruction-bound: issue slots or a unit are {100 * busy:.0f} % busy; "
            f"{100 * by_class[most] / total:.0f} % of the instructions are {_NAMES.get(most, most)}, and "
            f"{100 * executed.sum() / total:.0f} % only count and test a loop that runs {trips:.0f} times."
        ),
        removal=lambda seen: seen.with_trace(change),
        weights=executed,
    )


def loop_steering(scene: Scene) -> NDArray[np.bool_]:
    """Branches that a warp takes several times, and the integer instructions whose results only these read."""
    found = scene.kind("control") & (scene.executions > 2 * scene.warps)
    consumers = scene.flow.consumers()
    integer = scene.kind("int32") & (scene.executions > 2 * scene.warps)
    for _ in range(3):  # the test, the counter that it reads, and what that counts with
        for index in np.flatnonzero(integer & ~found).tolist():
            readers = consumers.get(index, set()) - {index}
            if readers and all(found[reader] for reader in readers):
                found[index] = True
    return found


RULE = Rule(
    name="instruction-bound",
    title="issue slots or a unit are full, partly with instructions that steer loops",
    look=look,
    remedy=(
        "Unroll the loop (#pragma unroll 4, or constant bounds that unroll it wholly), so that counting and testing "
        "are done once for several iterations and addresses become constant offsets."
    ),
    cost="More registers and code; trip counts that are no multiple need a remainder loop.",
)
