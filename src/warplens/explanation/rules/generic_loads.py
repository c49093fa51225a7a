"""Loads of shared memory through pointers that do not say so."""

from __future__ import annotations

from collections.abc import Iterable

from ...analysis.block_samples import generic_loads
from ..rule import Finding, Rule
from ..scene import Scene


def look(scene: Scene) -> Iterable[Finding]:
    chosen = generic_loads(scene.static) & (scene.executions > 0)
    more = scene.gpu.generic_latency_cycles
    if not chosen.any() or more is None:
        return
    executed = scene.executions * chosen
    share = float(executed.sum()) / float(scene.executions.sum())
    opcodes = tuple(
        f"ld.shared{name[2:]}" if is_chosen else name
        for name, is_chosen in zip(scene.static.opcode, chosen.tolist(), strict=True)
    )
    yield Finding(
        text=(
            f"Generic loads reach shared memory: {100 * share:.0f} % of the instructions, and each takes "
            f"{float(more):.0f} cycles more than a load that names it."
        ),
        removal=lambda seen: seen.with_trace(opcode=opcodes),
        weights=executed.astype(float),
    )


RULE = Rule(
    name="generic-loads",
    title="loads of shared memory through pointers that may point anywhere",
    look=look,
    remedy=(
        "Let the compiler see that the pointer is to shared memory: index the __shared__ array itself, choose it "
        "outside the loop, or make the place a template parameter."
    ),
    cost="Code for each place: more instructions in the binary.",
)
