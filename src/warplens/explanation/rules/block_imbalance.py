"""Thread blocks that take much longer than others: the last ones run alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...traces.rewrite import deal_blocks
from ..rule import Finding, InTriton, Rule
from ..scene import Scene

#: Instructions of the longest block over their median, from which on blocks are unequal.
UNEQUAL = 1.1
#: Pieces of a block that are dealt out, and instructions of the blocks that they are dealt out to, at most.
PARTS, MOST = 16, 1 << 22


def look(scene: Scene) -> Iterable[Finding]:
    group = scene.sample
    first = np.flatnonzero(np.diff(group.block, prepend=group.block[0] - 1))
    counts = np.add.reduceat(np.diff(group.start), first)
    median = float(np.median(counts))
    ratio = float(counts.max()) / max(median, 1.0)
    if len(counts) < 2 or ratio < UNEQUAL:
        return
    longest = int(np.argmax(counts))
    last = first[longest + 1] if longest + 1 < len(first) else len(group)
    mine = np.bincount(group.static[group.start[first[longest]] : group.start[last]], minlength=len(scene.static))
    blocks = scene.trace.header.blocks
    together = max(1, min(blocks, int(blocks * MOST // max(scene.executions.sum(), 1))))
    beyond = mine - np.bincount(group.static, minlength=len(scene.static)) / len(counts)
    yield Finding(
        text=(
            f"Uneven thread blocks: the longest of {len(counts)} sampled ones executes {counts.max():,d} warp "
            f"instructions, {ratio:.1f} times the median of {median:,.0f}; its SM works on when others are done."
        ),
        removal=lambda seen: seen.with_trace(
            lambda group, static: deal_blocks(group, static, PARTS), together=together
        ),
        weights=np.maximum(beyond, 0.0),
    )


RULE = Rule(
    name="block-imbalance",
    title="thread blocks that take much longer than others",
    look=look,
    remedy=(
        "Cut the work into equal pieces (by elements, not rows), start the longest first, or let blocks fetch small "
        "pieces from an atomic counter."
    ),
    cost="A counter costs an atomic per piece; equal pieces may need a second pass to combine results.",
    in_triton=InTriton(
        "Cut the work into equal pieces for tl.program_id (by elements, not rows), start the longest first, "
        "or let programs take small pieces from a counter (tl.atomic_add).",
        "A counter costs an atomic per piece; equal pieces may need a second pass to combine results.",
    ),
)
