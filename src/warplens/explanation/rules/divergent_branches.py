"""Branches that the lanes of a warp take differently: each side runs with some lanes idle."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...analysis.spinning import spinning
from ...traces import active_lanes
from ...traces.rewrite import full_warps
from ..rule import Finding, InTriton, Rule
from ..scene import Scene

#: Part of a warp's lanes that are active on average, from which on branches are not to blame.
HEALTHY = 0.85


def look(scene: Scene) -> Iterable[Finding]:
    group = scene.sample
    begins = group.start[:-1][np.diff(group.start) > 0]
    there = np.repeat(active_lanes(group.mask[begins]), np.diff(group.start)[np.diff(group.start) > 0])
    active = active_lanes(group.mask)
    works = ~spinning(group, scene.static)  # one lane is enough to wait for other blocks
    if active[works].sum() >= HEALTHY * there[works].sum():
        return
    mean = float(active.mean())
    missing = np.bincount(group.static[works], (there - active)[works], len(scene.static))
    yield Finding(
        text=(
            f"Divergent branches: {mean:.1f} of {there.mean():.0f} lanes are active on average; the others wait "
            "while a branch or a loop runs without them."
        ),
        removal=lambda seen: seen.with_trace(full_warps),
        weights=np.maximum(missing, 0.0),
    )


RULE = Rule(
    name="divergent-branches",
    title="branches and loops that run with few lanes of a warp",
    look=look,
    remedy=(
        "Let whole warps take one side: sort or group the work by its kind or length, give a row to a warp in place "
        "of a thread, or replace short branches by selects."
    ),
    cost="Sorting or grouping is a step of its own.",
    in_triton=InTriton(
        "Use masks and tl.where in place of scalar branches, and a BLOCK of at least 32 × num_warps elements, "
        "so that no thread is without one.",
        "Masked elements cost as much as others.",
    ),
)
