"""Reads of global memory that nothing has written, found in the recorded thread blocks of a launch.

A word that was unset before the launch is set once a warp has stored to it: for that
warp from then on, for the others of its block from the next barrier on. Where blocks
may wait for one another (atomics, fences, cooperative launches), a word that any block
of the launch writes counts as set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..frontends.runtime import MemoryBefore
from ..traces import SPACES, LaunchTrace, StaticTable, WarpGroup
from ..traces.rewrite import barrier_phases, lane_addresses
from .hazards import BARRIERS, MOST_TOLD, kinds, line_of, place_of, unsearched

WORD_BYTES = 4
_READS = ("ld", "atom", "red", "cp.async.")


@dataclass(frozen=True, eq=False)
class _Words:
    """Words that lanes access, with the order of the accesses in their warp."""

    word: NDArray[np.int64]
    warp: NDArray[np.int64]
    order: NDArray[np.int64]
    phase: NDArray[np.int64]
    static: NDArray[np.int64]
    lane: NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> _Words:
        return _Words(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def unset_reads(trace: LaunchTrace, memory: MemoryBefore) -> list[str]:
    """One sentence for each line that reads what is not set."""
    static = trace.static
    near = np.isin(static.space, [SPACES.index("global"), SPACES.index("generic")])
    writes, atomic = kinds(static)
    reads = near & np.array([each.startswith(_READS) for each in static.opcode], dtype=bool)
    waiting = unsearched(trace, "global") is not None or bool(atomic.any())
    name = trace.header.extra.get("readable_name", trace.header.kernel)
    found: dict[int, str] = {}
    for group in trace.groups() if memory.unset else ():
        read = _words(group, static, reads)
        read = read.where(memory.was_unset(read.word * WORD_BYTES))
        if waiting:
            read = read.where(memory.is_unset(read.word * WORD_BYTES))
        if not len(read.word):
            continue
        stored = _words(group, static, near & (writes | atomic))
        read = read.where(~_is_set(read, stored, group.block))
        for row in np.unique(static.line[read.static], return_index=True)[1].tolist():
            line, warp = int(static.line[read.static[row]]), int(read.warp[row])
            block = place_of(int(group.block[warp]), trace.header.grid)
            thread = place_of(32 * int(group.warp[warp]) + int(read.lane[row]), trace.header.block)
            place = memory.place(int(read.word[row]) * WORD_BYTES)
            told = f"{name}, block {block}: thread {thread} reads {place} at {line_of(trace, line)}, which is not set"
            found.setdefault(line, told)
    return list(found.values())[:MOST_TOLD]


def _words(group: WarpGroup, static: StaticTable, chosen: NDArray[np.bool_]) -> _Words:
    """Words that lanes access with some instructions; of wide accesses the first."""
    lanes = lane_addresses(group, static, chosen)
    instruction = lanes.instruction[lanes.owner]
    at_barrier = np.array([each.startswith(BARRIERS) for each in static.opcode], dtype=bool)[group.static]
    warp = np.searchsorted(group.start, instruction, side="right") - 1
    return _Words(
        (lanes.address // np.uint64(WORD_BYTES)).astype(np.int64),
        warp.astype(np.int64),
        instruction,
        barrier_phases(group, at_barrier)[instruction],
        group.static[instruction].astype(np.int64),
        _lane_numbers(group.mask[instruction], lanes.lane),
    )


def _lane_numbers(mask: NDArray[np.uint32], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the lane that has a place among the active ones."""
    active = (mask[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    return np.argmax(np.cumsum(active, axis=1) > place[:, None], axis=1).astype(np.int64)


def _is_set(read: _Words, stored: _Words, block_of: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a block has stored to words before it reads them."""
    stored = stored.where(np.isin(stored.word, read.word))
    if not len(stored.word):
        return np.zeros(len(read.word), dtype=bool)
    blocks = block_of.astype(np.int64)
    own = _earliest(stored.word, stored.warp, stored.order, read.word, read.warp)
    ours = _earliest(stored.word, blocks[stored.warp], stored.phase, read.word, blocks[read.warp])
    return np.asarray((own < read.order) | (ours < read.phase))


def _earliest(
    word: NDArray[np.int64],
    holder: NDArray[np.int64],
    value: NDArray[np.int64],
    wanted_word: NDArray[np.int64],
    wanted_holder: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The least value of each word and holder that is wanted; very large where there is none."""
    words, number = np.unique(np.concatenate([word, wanted_word]), return_inverse=True)
    key, wanted = np.split(number + len(words) * np.concatenate([holder, wanted_holder]), [len(word)])
    order = np.lexsort((value, key))
    first = order[np.flatnonzero(np.diff(key[order], prepend=-1))]
    place = np.clip(np.searchsorted(key[first], wanted), 0, len(first) - 1)
    return np.where(key[first][place] == wanted, value[first][place], np.iinfo(np.int64).max)
