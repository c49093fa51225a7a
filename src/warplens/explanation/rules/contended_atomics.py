"""Atomics on global memory that meet at few addresses."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...analysis.atomics import words_of
from ...traces import CLASS_IDS, SPACES, StaticTable, WarpGroup
from ...traces.rewrite import (
    LaneAddresses,
    insert_executions,
    keep_executions,
    lane_addresses,
    with_addresses,
    with_rows,
)
from ..patterns import gathers
from ..rule import Finding, InTriton, Rule
from ..scene import Scene
from ..staging import SHARED_BY, arrays_of, reuse_of, staged

#: Part of the requests whose lanes must share an address for a warp to add them up.
MOST = 0.5
#: Steps in which a warp adds up 32 lanes.
_STEPS = 5
IN_WARP = "Add up the values of a warp first (__reduce_add_sync, or __shfl_down_sync){}."
#: Where a block knows its addresses beforehand, and where data tell them.
KNOWN = " and those of a block in shared memory; then do one atomic per block and address"
ACROSS = (
    "Let each block do the work of several in turn, add up in registers or shared memory, and then do one atomic per "
    "block and address; or write partial sums, and add them in a second kernel."
)
TOLD = " where its lanes have one address (__all_sync); then do one atomic per warp"


def look(scene: Scene) -> Iterable[Finding]:
    atomics = scene.kind("atomic_global")
    if not scene.executions[atomics].any():
        return
    arrays = arrays_of(scene, atomics)
    reuse = reuse_of(scene, arrays)
    arrays = np.where(np.isin(arrays, [array for array, times in reuse.items() if times >= SHARED_BY]), arrays, -1)
    chosen = arrays >= 0
    if not chosen.any():
        yield from _across_blocks(scene, atomics)
        return
    executed = scene.executions * chosen
    lanes = scene.addresses(chosen)
    of_request = len(lanes.address) / len(words_of(lanes)[0])
    in_warps = float(at_one_address(lanes).mean()) >= MOST
    of_block = len(lanes.address) / sum(
        len(scene.addresses(arrays == array).address) / reuse[array] for array in np.unique(arrays[chosen]).tolist()
    )
    told = any(gathers(scene, index) for index in np.flatnonzero(chosen).tolist())
    text = (
        f"Contended atomics: {of_request:.1f} lanes of a request and {of_block:.0f} of a block share an address, "
        "and the L2 does them one after the other."
    )
    weights = executed * scene.lanes
    if in_warps:
        yield Finding(
            text=text,
            removal=lambda seen: summed_in_warps(seen, arrays, in_blocks=not told),
            weights=weights,
            remedy=IN_WARP.format(TOLD if told else KNOWN),
        )
    if told or not in_warps:
        yield Finding(text=text, removal=lambda seen: staged(seen, arrays, "atomic_shared"), weights=weights)


def _across_blocks(scene: Scene, atomics: NDArray[np.bool_]) -> Iterable[Finding]:
    """Blocks that each add once to addresses that all have: what follows on an SM can be one block, and add once."""
    lanes, residency = scene.addresses(atomics), scene.facts.residency
    blocks = len(np.unique(scene.sample.block))
    at_a_time = float(residency.blocks_per_sm) * float(residency.active_sms)
    together = int((scene.workload.launch.blocks or 0.0) // at_a_time)
    shared_by = len(lanes.address) / max(len(np.unique(lanes.address)), 1)
    if together < 2 or shared_by < max(MOST * blocks, SHARED_BY):
        return

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        number = np.unique(group.block, return_inverse=True)[1]
        of_block = np.repeat(number, np.diff(group.start)) % together == 0
        return keep_executions(group, static, of_block | ~atomics[group.static])

    yield Finding(
        text=(
            f"Contended atomics: the {scene.workload.launch.blocks:.0f} blocks add to the same addresses, and the L2 "
            f"does them one after the other; {at_a_time:.0f} blocks run at a time."
        ),
        removal=lambda seen: seen.with_trace(change),
        weights=scene.executions * atomics * scene.lanes,
        remedy=ACROSS,
        cost="Sums in another order round differently.",
    )


def at_one_address(lanes: LaneAddresses) -> NDArray[np.bool_]:
    """Of each request, whether it has several lanes, all of them at one address."""
    return (lanes.counts > 1) & (lanes.most(lanes.ranks()) == 0)


def summed_in_warps(scene: Scene, arrays: NDArray[np.int64], *, in_blocks: bool) -> Scene:
    """The scene where warps whose lanes have one address leave it to the first of them, and blocks may have copies.

    Before it, a warp adds up in as many steps as halve its lanes to one: a shuffle and an addition each.
    """
    chosen = arrays >= 0
    atomics = np.flatnonzero(chosen)[:1]
    sums = ("fp32" if ".f" in scene.static.opcode[int(atomics[0])] else "int32", "move")
    static = scene.static
    for name in sums:
        static = with_rows(static, atomics, class_id=CLASS_IDS[name], space=SPACES.index("none"), access_bytes=0)
    steps = np.tile(len(scene.static) + np.arange(len(sums))[::-1], _STEPS)

    def change(group: WarpGroup, before: StaticTable) -> WarpGroup:
        lanes = lane_addresses(group, before, chosen)
        others = at_one_address(lanes)[lanes.owner] & (lanes.lane > 0)
        group = with_addresses(group, before, lanes.moved(np.where(others, 0, lanes.address).astype(np.uint64)))
        return insert_executions(group, chosen[group.static], steps)

    summed = scene.with_trace(change, static=static)
    if not in_blocks:
        return summed
    return staged(summed, np.pad(arrays, (0, len(sums)), constant_values=-1), "atomic_shared")


RULE = Rule(
    name="contended-atomics",
    title="atomics on global memory that meet at few addresses",
    look=look,
    remedy=(
        "Give each block a copy of the counters in shared memory, and add it to those in global memory once at the "
        "end."
    ),
    cost="The copy takes shared memory and two barriers; sums in another order round differently.",
    in_triton=InTriton(
        "Add up within the program first (tl.sum, tl.histogram), let each program do the work of several, and "
        "then do one tl.atomic_add per program and address; or write partial sums, and add them in a second "
        "kernel.",
        "Sums in another order round differently.",
    ),
)
