"""Data that the threads of a block load again and again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..rule import Finding, Rule
from ..scene import Scene
from ..staging import arrays_of, reuse_of, staged

#: Threads of a block that load an element, from which on keeping it may pay.
LEAST = 4.0


def look(scene: Scene) -> Iterable[Finding]:
    arrays = arrays_of(scene, "load_global")
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
        removal=lambda seen: staged(seen, arrays),
        weights=executed.astype(np.float64),
    )


RULE = Rule(
    name="redundant-loads",
    title="data that the threads of a block load again and again",
    look=look,
    remedy=(
        "Stage tiles in shared memory and read them 16 bytes at a time, and let each thread make several results "
        "from values that it keeps in registers."
    ),
    cost="A tile takes shared memory and barriers, and several results per thread take registers.",
)
