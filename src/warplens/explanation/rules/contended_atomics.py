"""Atomics on global memory that meet at few addresses."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...analysis.atomics import words_of
from ..rule import Finding, Rule
from ..scene import Scene
from ..staging import arrays_of, reuse_of, staged

#: Atomics of a block on one address, from which on a copy of its own may pay.
LEAST = 2.0
IN_WARP = (
    "Add up the values of a warp first (__reduce_add_sync, or __shfl_down_sync) and those of a block in shared "
    "memory; then do one atomic per block and address."
)


def look(scene: Scene) -> Iterable[Finding]:
    atomics = scene.kind("atomic_global")
    if not scene.executions[atomics].any():
        return
    arrays = arrays_of(scene, atomics)
    reuse = reuse_of(scene, arrays)
    arrays = np.where(np.isin(arrays, [array for array, times in reuse.items() if times >= LEAST]), arrays, -1)
    chosen = arrays >= 0
    if not chosen.any():
        return
    executed = scene.executions * chosen
    lanes = scene.addresses(chosen)
    of_request = len(lanes.address) / len(words_of(lanes)[0])
    of_block = len(lanes.address) / sum(
        len(scene.addresses(arrays == array).address) / reuse[array] for array in np.unique(arrays[chosen]).tolist()
    )
    yield Finding(
        text=(
            f"Contended atomics: {of_request:.1f} lanes of a request and {of_block:.0f} of a block share an address, "
            "and the L2 does them one after the other."
        ),
        removal=lambda seen: staged(seen, arrays, "atomic_shared"),
        weights=executed * scene.lanes,
        remedy=IN_WARP if of_request >= LEAST else "",
    )


RULE = Rule(
    name="contended-atomics",
    title="atomics on global memory that meet at few addresses",
    look=look,
    remedy=(
        "Give each block a copy of the counters in shared memory, and add it to those in global memory once at the "
        "end."
    ),
    cost="The copy takes shared memory and two barriers; sums in another order round differently.",
)
