"""Coalesced accesses that move less than 16 bytes per lane, one after the other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..patterns import gathers, pattern_of
from ..rule import Finding, InTriton, Rule
from ..scene import Scene
from ..widening import WIDEST_BYTES, overhead_of, widened

#: Executions by a warp, from which on several can be one.
LEAST = 2.0


def look(scene: Scene) -> Iterable[Finding]:
    width, executed = scene.static.access_bytes, scene.executions
    warps = scene.recorded_threads / 32
    some = scene.kind("load_global", "store_global") & (width > 0) & (width < WIDEST_BYTES)
    some &= executed >= LEAST * warps
    chosen = np.zeros(len(scene.static), dtype=bool)
    for index in np.flatnonzero(some).tolist():
        chosen[index] = pattern_of(scene, index).stride_bytes == width[index] and not gathers(scene, index)
    if not chosen.any():
        return
    now = float(executed[chosen].sum()) / warps
    then = float((executed * width)[chosen].sum()) / WIDEST_BYTES / warps
    widths = np.unique(width[chosen]).tolist()
    lane = f"{' or '.join(map(str, widths))} {'byte' if widths == [1] else 'bytes'}"
    yield Finding(
        text=(
            f"Narrow accesses: {lane} per lane; with {WIDEST_BYTES}, {then:.1f} requests per warp would do "
            f"what {now:.1f} do."
        ),
        removal=lambda seen: widened(seen, chosen, overhead_of(seen, chosen)),
        weights=(executed * chosen).astype(np.float64),
    )


RULE = Rule(
    name="narrow-accesses",
    title="coalesced accesses that could move 16 bytes per lane",
    look=look,
    remedy=(
        "Let each thread handle 16 bytes at a time: cast the pointers to float4 (int4, uint4), and treat the last "
        "elements apart."
    ),
    cost="Data must be aligned to 16 bytes; a thread needs more registers.",
    in_triton=InTriton(
        "Let a thread hold 16 bytes that lie side by side: a larger BLOCK or fewer num_warps (at least 128 × "
        "num_warps elements of 4 bytes), and sizes and strides that are multiples of 16, or tl.multiple_of "
        "where Triton cannot know it.",
        "A thread needs more registers.",
    ),
)
