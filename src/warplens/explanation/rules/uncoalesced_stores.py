"""Stores whose lanes touch more sectors than their bytes need."""

from __future__ import annotations

from collections.abc import Iterable

from ..coalescing import Wording, find_uncoalesced
from ..rule import Finding, Rule
from ..scene import Scene

WORDS = Wording(
    plural="stores",
    gathered="Scattered stores",
    gathered_remedy=(
        "Sort or bin the targets in shared memory first, so that neighbouring lanes write neighbouring entries."
    ),
    vain="; {} of {} bytes of their sectors are not written",
)


def look(scene: Scene) -> Iterable[Finding]:
    return find_uncoalesced(scene, WORDS, "store_global")


RULE = Rule(
    name="uncoalesced-stores",
    title="stores whose lanes touch more sectors than their bytes need",
    look=look,
    remedy=(
        "Let neighbouring threads (threadIdx.x) write neighbouring addresses: swap the roles of the indices, "
        "or write a tile to shared memory first and copy it out row by row."
    ),
    cost="A tile takes shared memory and a barrier.",
)
