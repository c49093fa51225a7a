"""A last wave of thread blocks that fills only some of the SMs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..rule import Finding, InTriton, Rule
from ..scene import Scene

#: Waves from which on the last one does not matter, and how full it may be.
MANY, FULL = 20.0, 0.9
#: Waves of pieces, at least: the last one then takes little of the time.
PIECES = 16


def look(scene: Scene) -> Iterable[Finding]:
    launch, residency = scene.workload.launch, scene.facts.residency
    if launch.blocks is None or scene.has_given_residents:
        return
    at_a_time = float(residency.blocks_per_sm) * float(residency.active_sms)
    waves = launch.blocks / at_a_time
    last = waves % 1.0
    if not 1.0 < waves < MANY or last == 0.0 or last > FULL:
        return
    warps = int(residency.warps_per_block)
    wanted = int(2 ** np.ceil(np.log2(PIECES / waves)))
    parts = min(wanted, warps if scene.has_free_warps else scene.loop_trips)
    if parts < 2:
        return
    yield Finding(
        text=(
            f"Tail wave: {launch.blocks:.0f} blocks run in {waves:.2f} waves of {at_a_time:.0f}; the last one fills "
            f"{100 * last:.0f} % of the places."
        ),
        removal=lambda seen: seen.with_more_blocks(parts, of_warps=scene.has_free_warps),
        remedy=(
            f"Launch smaller blocks ({32 * int(np.ceil(warps / parts))} threads), which end at different times"
            if scene.has_free_warps
            else "Cut the work into more, shorter blocks"
        )
        + f", or a multiple of {at_a_time:.0f} blocks in a grid-stride loop.",
    )


RULE = Rule(
    name="tail-wave",
    title="a last wave of thread blocks that fills few SMs",
    look=look,
    remedy="Launch smaller blocks, or a grid-stride loop with a whole number of waves.",
    cost="More blocks start more often.",
    in_triton=InTriton(
        "Use a smaller BLOCK, so that programs are more and shorter, or a persistent kernel: as many programs "
        "as run at a time, each with a loop over tiles.",
        "More programs start more often.",
    ),
)
