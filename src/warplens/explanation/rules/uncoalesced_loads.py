"""Loads whose lanes touch more sectors than their bytes need."""

from __future__ import annotations

from collections.abc import Iterable

from ..coalescing import LOADS, find_uncoalesced
from ..rule import Finding, Rule
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
)
