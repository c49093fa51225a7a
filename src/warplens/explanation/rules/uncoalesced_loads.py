"""Loads whose lanes touch more sectors than their bytes need."""

from __future__ import annotations

from collections.abc import Iterable

from ..coalescing import LOADS, find_uncoalesced
from ..rule import Finding, InTriton, Rule
from ..scene import Scene


def look(scene: Scene) -> Iterable[Finding]:
    return find_uncoalesced(scene, LOADS)


RULE = Rule(
    name="uncoalesced-loads",
    title="loads whose lanes touch more sectors than their bytes need",
    look=look,
    remedy=(
        "Let neighbouring threads (threadIdx.x) read neighbouring addresses: swap the roles of the indices, "
        "store fields in arrays of their own, or stage a tile in shared memory."
    ),
    cost="A tile takes shared memory and a barrier; another layout changes the code that fills it.",
    in_triton=InTriton(
        "Let the block's last axis run along the dimension with stride 1, and let Triton know that stride: an "
        "argument of 1 that is specialised, or a tl.constexpr; or store the tensor in the order in which it "
        "is read.",
        "Another layout changes the code that fills it.",
    ),
)
