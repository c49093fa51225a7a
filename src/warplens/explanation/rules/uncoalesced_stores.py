"""Stores and atomics whose lanes touch more sectors than their bytes need."""

from __future__ import annotations

from collections.abc import Iterable

from ..coalescing import STORES, find_uncoalesced
from ..rule import Finding, InTriton, Rule
from ..scene import Scene


def look(scene: Scene) -> Iterable[Finding]:
    return find_uncoalesced(scene, STORES)


RULE = Rule(
    name="uncoalesced-stores",
    title="stores and atomics whose lanes touch more sectors than their bytes need",
    look=look,
    remedy=(
        "Let neighbouring threads (threadIdx.x) write neighbouring addresses: swap the roles of the indices, "
        "or write a tile to shared memory first and copy it out row by row."
    ),
    cost="A tile takes shared memory and a barrier.",
    in_triton=InTriton(
        "Let the block's last axis run along the dimension with stride 1, and let Triton know that stride: an "
        "argument of 1 that is specialised, or a tl.constexpr; or turn the tile (tl.trans) before it is "
        "stored.",
        "A turned tile goes through shared memory, with a barrier.",
    ),
)
