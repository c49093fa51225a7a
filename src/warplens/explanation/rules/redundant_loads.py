"""Data that the threads of a block load again and again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..patterns import gathers
from ..rule import Finding, Rule
from ..scene import Scene
from ..staging import arrays_of, reuse_of, staged

#: Threads of a block that load an element, from which on keeping it may pay.
LEAST = 4.0
#: Results of a thread that a value read from the tile serves at least, once it makes several.
SERVES = 2


def look(scene: Scene) -> Iterable[Finding]:
    loads = scene.kind("load_global")
    for index in np.flatnonzero(loads).tolist():
        loads[index] = not gathers(scene, index)  # which data a block shares is not known beforehand
    arrays = arrays_of(scene, loads)
    reuse = reuse_of(scene, arrays)
    chosen = np.isin(arrays, [array for array, times in reuse.items() if times >= LEAST])
    if not chosen.any():
        return
    arrays = np.where(chosen, arrays, -1)
    executed = scene.executions * chosen
    loaded = executed * scene.lanes
    elements = sum(loaded[arrays == array].sum() / reuse[array] for array in np.unique(arrays[chosen]).tolist())
    share = float(executed.sum() / scene.executions.sum())
    yield Finding(
        text=(
            f"Redundant loads: a block loads each element {float(loaded.sum() / elements):.0f} times, "
            f"and these loads are {100 * share:.0f} % of its instructions."
        ),
        removal=lambda seen: staged(seen, arrays, "load_shared", SERVES),
        weights=executed.astype(np.float64),
    )


RULE = Rule(
    name="redundant-loads",
    title="data that the threads of a block load again and again",
    look=look,
    remedy=(
        "Stage tiles in shared memory, and let each thread make several results (2 x 2 of a product, 4 in a column) "
        "from the values that it reads."
    ),
    cost="A tile takes shared memory and barriers, and several results per thread take registers.",
)
