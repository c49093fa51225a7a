"""Barriers at which warps wait long for the slowest one, or that come every few instructions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...analysis.spinning import spins
from ...traces import StaticTable, WarpGroup
from ...traces.rewrite import barrier_phases, level_warps
from ..rule import Finding, InTriton, Rule
from ..scene import LEAST_GAIN, Scene

#: Instructions of the busiest warp between barriers over the mean, from which on warps are uneven.
UNEVEN = 1.25
#: Instructions of a warp between barriers, up to which they are frequent.
FREQUENT = 40.0


def look(scene: Scene) -> Iterable[Finding]:
    barriers = scene.kind("barrier")
    share = scene.group_share("synchronisation")
    if not barriers.any() or share < LEAST_GAIN:
        return
    if spins(scene.sample, scene.static):
        return  # what a block waits for is another block
    uneven, between = unevenness(scene)
    if uneven < UNEVEN and between > FREQUENT:
        return
    is_uneven = uneven >= UNEVEN
    why = (
        f"between them the busiest warp of a block executes {uneven:.1f} times the mean"
        if is_uneven
        else f"there is one every {between:.0f} instructions"
    )

    def level(group: WarpGroup, static: StaticTable) -> WarpGroup:
        return level_warps(group, static, barriers[group.static])

    yield Finding(
        text=f"Barriers: warps wait at them for {100 * share:.0f} % of the time; {why}.",
        removal=lambda seen: seen.with_trace(level) if is_uneven else seen.without_rows(barriers),
        weights=scene.executions * barriers,
        remedy=(
            "Share the work between barriers evenly among all warps of the block (a tree in place of one thread's "
            "loop), or let the others go on with work that does not need the result."
            if is_uneven
            else ""
        ),
        cost="Even shares may need more steps, each with a barrier of its own." if is_uneven else "",
    )


def unevenness(scene: Scene) -> tuple[float, float]:
    """(Instructions of the busiest warp of a block between two barriers over the mean, instructions between them)."""
    group = scene.sample
    at_barrier = scene.kind("barrier")[group.static]
    warp = np.repeat(np.arange(len(group)), np.diff(group.start))
    phase = barrier_phases(group, at_barrier)
    inside = phase < np.bincount(warp, at_barrier, len(group))[warp]  # what follows the last barrier waits for nobody
    width = int(phase.max(initial=0)) + 1
    between, counts = np.unique((warp * width + phase)[inside], return_counts=True)
    block = np.cumsum(np.diff(group.block, prepend=group.block[0] - 1) != 0) - 1
    of_block = block[between // width] * width + between % width
    order = np.argsort(of_block, kind="stable")
    first = np.flatnonzero(np.diff(of_block[order], prepend=-1))
    most, total = np.maximum.reduceat(counts[order], first), np.add.reduceat(counts[order], first)
    warps = np.bincount(block)[of_block[order][first] // width]
    return float(most.sum() / max((total / warps).sum(), 1e-9)), float(inside.sum() / max(at_barrier.sum(), 1))


RULE = Rule(
    name="barrier-waits",
    title="barriers at which warps wait for slower ones",
    look=look,
    remedy=(
        "Replace barriers within a warp by __syncwarp or shuffles, do more between two barriers (larger tiles), and "
        "use two buffers in turn so that one barrier per tile is enough."
    ),
    cost="A second buffer doubles that part of the shared memory.",
    in_triton=InTriton(
        "Triton puts barriers at reductions across warps, tl.dot and changes of layout: use fewer num_warps, "
        "let each program do several rows at a time, reduce along the block's last axis, and give loops with "
        "tl.dot num_stages of 3 or more.",
        "Fewer warps hold more registers each; stages take shared memory.",
    ),
)
