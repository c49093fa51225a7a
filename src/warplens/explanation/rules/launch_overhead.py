"""Kernels so short that launching them is a large part of their time."""

from __future__ import annotations

from collections.abc import Iterable

from ..rule import Finding, Rule
from ..scene import Scene

#: Part of the time that launching must take.
SHARE = 0.15


def look(scene: Scene) -> Iterable[Finding]:
    launch = float(scene.prediction.terms["launch"])
    if launch < SHARE * float(scene.prediction.cycles):
        return
    seconds = float(scene.prediction.seconds) / float(scene.prediction.cycles)
    yield Finding(
        text=(
            f"Launch overhead: {1e6 * launch * seconds:.1f} of {1e6 * float(scene.prediction.seconds):.1f} µs pass "
            "before and after the thread blocks run."
        ),
        removal=lambda seen: seen.with_gpu({"launch_overhead": 0.0, "cold_start": 0.0}),
    )


RULE = Rule(
    name="launch-overhead",
    title="a kernel so short that launching it takes a large part of its time",
    look=look,
    remedy=(
        "Give one launch more work: fuse kernels that follow each other, or batch their inputs. "
        "CUDA graphs shorten the gaps between launches."
    ),
    cost="Fused kernels need more registers; a batch waits until it is full.",
)
