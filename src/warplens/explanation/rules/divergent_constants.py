"""Constant memory read at different indices by the lanes of a warp."""

from __future__ import annotations

from collections.abc import Iterable

from ...analysis.block_samples import further_indices
from ..rule import Finding, Rule
from ..scene import Scene
from ..sharing import mean_by_instruction
from ..staging import arrays_of, staged

#: Words beyond the first, per load, from which on lanes count as divergent.
LEAST = 0.5


def look(scene: Scene) -> Iterable[Finding]:
    further = mean_by_instruction(scene, scene.sample.static, further_indices(scene.sample, scene.static))
    chosen = further >= LEAST
    if not chosen.any():
        return
    executed = scene.executions * chosen
    words = 1.0 + float(executed @ further / executed.sum())
    yield Finding(
        text=(
            f"Constant memory is read at {words:.1f} different words per request; the constant cache serves one at "
            "a time."
        ),
        removal=lambda seen: staged(seen, arrays_of(seen, chosen), "load_shared"),
        weights=executed * further,
    )


RULE = Rule(
    name="divergent-constants",
    title="constant memory read at different indices by the lanes of a warp",
    look=look,
    remedy="Copy the table to shared memory at the start of a block, or read it from global memory through the L1.",
    cost="A copy takes shared memory and a barrier; random indices meet in its banks now and then.",
)
