"""Data that are used again, but not before a cache has lost them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...formatting import show_bytes
from ...traces.rewrite import square_blocks
from ..rule import Finding, InTriton, Rule
from ..scene import Scene

#: How many times as much a cache holds that keeps what is used again. Rules do not ask for endless ones: what comes
#: back much later, no tile can keep.
LARGER = 8
#: Part of a cache's requests that must come to hit for the difference to be worth telling.
LEAST = 0.1
#: Where all that lies behind the L1 is used less than this, its misses decide nothing.
IDLE = 0.2
REMEDIES = {
    "L1": (
        "Make blocks square tiles (or loop over smaller tiles), so that the data that the warps of an SM share at a "
        "time fit in its L1."
    ),
    "L2": (
        "Finish a part that fits in the L2 before the next: fuse passes over it, loop over smaller tiles, or let "
        "fewer blocks work at a time."
    ),
}


def look(scene: Scene) -> Iterable[Finding]:
    if max(scene.busy(name) for name in ("NoC", "NoC_SM", "DRAM")) < IDLE:
        return
    misses = scene.misses
    l1_bytes, l2_bytes = scene.gpu.l1.size_bytes, scene.gpu.llc.size_bytes
    if l1_bytes and misses.column("llc_hits")[loads_of(scene)].sum() > LEAST * misses.l1_accesses:
        larger = scene.with_gpu({"l1.size": LARGER * int(l1_bytes)})
        found = list(_lost(scene, larger, "L1", f"in {LARGER} times its {show_bytes(l1_bytes)}"))
        if not found and scene.trace.header.block[1:] == (1, 1):
            found = list(_lost(scene, scene.with_trace(square_blocks), "L1", "if blocks were square tiles"))
        yield from found
    if l2_bytes and misses.dram_read_bytes > l2_bytes:
        larger = scene.with_gpu({"llc.size": LARGER * int(l2_bytes)})
        yield from _lost(scene, larger, "L2", f"in {LARGER} times its {show_bytes(l2_bytes)}")


def loads_of(scene: Scene) -> NDArray[np.bool_]:
    return scene.kind("load_global", "load_local", "async_copy", "mem")


def missed(scene: Scene, cache: str) -> NDArray[np.float64]:
    """Sectors that loads ask a cache for and do not find, by instruction."""
    names = ("llc_hits", "llc_misses") if cache == "L1" else ("llc_misses",)
    return np.sum([scene.misses.column(name) for name in names], axis=0) * loads_of(scene).astype(np.float64)


def _lost(scene: Scene, kept: Scene, cache: str, where: str) -> Iterable[Finding]:
    """The finding where far more would hit in another scene."""
    asked = scene.misses.column("requests") * loads_of(scene) if cache == "L1" else missed(scene, "L1")
    now, then = (1.0 - float(missed(each, cache).sum()) / float(asked.sum()) for each in (scene, kept))
    if then - now < LEAST:
        return
    yield Finding(
        text=(
            f"Data are used again, but the {cache} does not have them then: {100 * now:.0f} % of the sectors loaded "
            f"hit it, {100 * then:.0f} % would {where}."
        ),
        removal=lambda _: kept,
        weights=np.maximum(missed(scene, cache) - missed(kept, cache), 0.0),
        remedy=REMEDIES[cache],
    )


RULE = Rule(
    name="cache-thrashing",
    title="data that the L1 or the L2 loses before they are used again",
    look=look,
    remedy=REMEDIES["L1"],
    cost="Smaller tiles have more borders, and loops over them more instructions.",
    in_triton=InTriton(
        "Order programs so that those that run together share tiles (tl.swizzle2d, GROUP_SIZE_M), use other "
        'BLOCK sizes, and load what is read once with eviction_policy="evict_first".',
        "Other sizes change occupancy and the work of a program.",
    ),
)
