"""Kernels so short that launching them takes longer than running them."""

from __future__ import annotations

from collections.abc import Iterable

from ..rule import Finding, Rule
from ..scene import Scene

#: Part of the time, of a launch that is too short.
SHARE = 0.5
#: Launches that may become one: hardly a program has more that could.
MOST = 32


def look(scene: Scene) -> Iterable[Finding]:
    blocks, launch = scene.workload.launch.blocks, launch_share(scene)
    if blocks is None or launch < SHARE:
        return
    launches, together = 1, scene
    while launch_share(together) > SHARE and launches < MOST:
        launches *= 2
        together = scene.with_launch(blocks=blocks * launches)
    now, then = (1e6 * float(each.prediction.seconds) for each in (scene, together))
    yield Finding(
        text=(
            f"Launch overhead: {launch * now:.1f} of {now:.1f} µs pass before and after the thread blocks run; "
            f"the work of {launches} launches in one would take {then:.1f} µs."
        ),
        removal=lambda seen: seen.with_launch(blocks=blocks * launches),
        launches=launches,
    )


def launch_share(scene: Scene) -> float:
    """Part of the time before and after thread blocks run."""
    return float(scene.prediction.terms["launch"]) / float(scene.prediction.cycles)


RULE = Rule(
    name="launch-overhead",
    title="a kernel so short that launching it takes longer than running it",
    look=look,
    remedy=(
        "Give one launch more work: fuse kernels that follow each other, or batch their inputs. "
        "CUDA graphs shorten the gaps between launches."
    ),
    cost="Fused kernels need more registers; a batch waits until it is full.",
)
