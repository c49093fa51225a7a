"""Grids that leave SMs, or places for thread blocks on them, empty."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..limits import places_of
from ..rule import Finding, InTriton, Rule
from ..scene import Scene


def look(scene: Scene) -> Iterable[Finding]:
    launch, gpu = scene.workload.launch, scene.gpu
    if launch.blocks is None or launch.threads_per_block is None or scene.has_given_residents:
        return
    sms, room = int(gpu.sms), places_of(gpu, launch)
    parts = min(room // int(launch.blocks), scene.loop_trips)
    if parts < 2:
        return
    where = (
        f"{launch.blocks:.0f} {'block' if launch.blocks == 1 else 'blocks'} for {sms} SMs "
        f"{'leaves' if launch.blocks == 1 else 'leave'} {sms - int(launch.blocks)} of them idle"
        if 2 * launch.blocks <= sms  # else what is lost is places on SMs that have work
        else f"{launch.blocks:.0f} blocks fill {launch.blocks / room:.0%} of the {room} places on {sms} SMs"
    ).replace("%", " %")
    yield Finding(
        text=(
            f"Too few thread blocks: {where}, while a warp runs its longest loop, as compiled, {scene.loop_trips} "
            "times."
        ),
        removal=lambda seen: seen.with_more_blocks(int(2 ** np.floor(np.log2(parts))), of_warps=False),
    )


RULE = Rule(
    name="too-few-blocks",
    title="a grid that leaves SMs or places on them empty",
    look=look,
    remedy=(
        "Where iterations do not need each other, split the loop over blockIdx (split-K) and launch more blocks; "
        "combine partial results with atomics or a second kernel."
    ),
    cost="Partial results must be combined.",
    benefits=("B_memlp", "B_itilp"),
    in_triton=InTriton(
        "Use a smaller BLOCK, or split the loop over another axis of the grid (split-K, tl.program_id(1)) "
        "where iterations do not need each other; combine partial results with tl.atomic_add or in a second "
        "kernel.",
        "Partial results must be combined.",
    ),
)
