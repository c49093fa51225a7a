"""Data that the threads of a block load again and again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...analysis.spinning import seeing_accesses
from ..patterns import gathers
from ..rule import Finding, InTriton, Rule
from ..scene import Scene
from ..staging import arrays_of, reuse_of, served_by_tiles, staged, with_several_results

#: Threads of a block that load an element, from which on keeping it may pay.
LEAST = 4.0
#: Results that a thread makes of what it reads: 2 x 2 of a product, 4 in a column.
RESULTS = 4


def look(scene: Scene) -> Iterable[Finding]:
    loads = scene.kind("load_global") & ~seeing_accesses(scene.static)  # those wait for what others write
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

    def in_tiles(seen: Scene) -> Scene:
        serves = served_by_tiles(seen, chosen, RESULTS)
        return staged(with_several_results(seen, RESULTS), arrays, "load_shared", serves)

    yield Finding(
        text=(
            f"Redundant loads: a block loads each element {float(loaded.sum() / elements):.0f} times, "
            f"and these loads are {100 * share:.0f} % of its instructions."
        ),
        removal=in_tiles,
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
    in_triton=InTriton(
        "Load a tile once, before the loop, let a program make several rows or columns of the result from it, "
        "or multiply with tl.dot.",
        "Larger tiles take registers and shared memory.",
    ),
)
