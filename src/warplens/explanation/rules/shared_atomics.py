"""Atomics on shared memory whose lanes meet at one word or in one bank."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...analysis.atomics import words_of
from ...traces import StaticTable, WarpGroup
from ...traces.rewrite import lane_addresses, with_addresses
from ..rule import Finding, InTriton, Rule
from ..scene import Scene
from ..sharing import BASE, WORD_BYTES

#: Cycles of a request at the banks, from which on lanes count as meeting.
LEAST = 1.5
ARRIVALS = (
    "Let one lane of each warp arrive for all of them, after __syncwarp, at a barrier that expects as many arrivals "
    "as there are warps; a cuda::pipeline of one thread (thread_scope_thread) has no such barrier."
)


def look(scene: Scene) -> Iterable[Finding]:
    ways = scene.conflict_ways
    chosen = scene.kind("atomic_shared") & (ways >= LEAST)
    if not chosen.any():
        return
    executed = scene.executions * chosen
    lanes = scene.addresses(chosen)
    of_word = len(lanes.address) / max(len(words_of(lanes)[0]), 1)
    mean = float(executed @ ways / executed.sum())

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        found = lane_addresses(group, static, chosen)
        return with_addresses(group, static, found.moved((BASE + WORD_BYTES * found.lane).astype(np.uint64)))

    at_barriers = np.array([opcode.startswith("mbarrier") for opcode in scene.static.opcode])
    arrives = 2 * executed[at_barriers].sum() > executed.sum()
    yield Finding(
        text=(
            f"{'Arrivals at barriers in' if arrives else 'Atomics on'} shared memory meet: {of_word:.1f} lanes of a "
            f"request share a word, and its bank takes {mean:.1f} cycles where 1 would do."
        ),
        remedy=ARRIVALS if arrives else "",
        cost="A barrier then counts warps." if arrives else "",
        removal=lambda seen: seen.with_addresses(change),
        weights=executed * (ways - 1.0),
    )


RULE = Rule(
    name="shared-atomics",
    title="atomics on shared memory whose lanes meet at one word or in one bank",
    look=look,
    remedy=(
        "Add up lanes with the same word first (__match_any_sync, __reduce_add_sync), or keep several copies of the "
        "counters in different banks and add them at the end."
    ),
    cost="Copies take shared memory; matching lanes takes instructions that even distributions do not need.",
    in_triton=InTriton(
        "Let each program count fewer elements with tl.histogram, or compare and tl.sum where there are few bins.",
        "Comparing takes as many instructions as there are bins.",
    ),
)
