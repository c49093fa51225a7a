"""Recorded words to the columns of a trace.

Places are unsigned: an index that may be negative costs a comparison.
"""

from __future__ import annotations

import numpy as np

from ...jit import inlined, kernel
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR


@kernel
def measure_warps(recorded, record_format, ends):
    """Count the instructions, accesses and listed lanes of every warp."""
    for warp in range(len(recorded.start)):
        instructions, accesses, lanes = ends.instructions[warp], ends.accesses[warp], ends.lanes[warp]
        position, end = np.uint64(recorded.start[warp]), np.uint64(recorded.end[warp])
        while position < end:
            segment, active = _segment(recorded.words[position])
            position += np.uint64(1)
            first, last = _range(record_format.access_start, segment)
            for access in range(first, last):
                listed = _listed(recorded.words, position, active & record_format.access_lanes[access])
                position += np.uint64(2) + listed
                lanes += listed
            accesses += last - first
            first, last = _range(record_format.segment_start, segment)
            instructions += last - first
        ends.instructions[warp + 1], ends.accesses[warp + 1], ends.lanes[warp + 1] = instructions, accesses, lanes


@kernel
def expand_warps(recorded, record_format, ends, columns):
    """Write the columns of all warps."""
    for warp in range(len(recorded.start)):
        at, access = np.uint64(ends.instructions[warp]), np.uint64(ends.accesses[warp])
        lane = np.uint64(ends.lanes[warp])
        position, end = np.uint64(recorded.start[warp]), np.uint64(recorded.end[warp])
        while position < end:
            segment, active = _segment(recorded.words[position])
            position += np.uint64(1)
            first, last = _range(record_format.access_start, segment)
            instructions = _expand_instructions(record_format, columns, segment, active, at)
            for which in range(first, last):
                usable = active & record_format.access_lanes[which]
                columns.mask[at + np.uint64(record_format.access_place[which])] = usable
                columns.base[access] = recorded.words[position]
                columns.stride[access] = recorded.words[position + np.uint64(1)]
                listed = _listed(recorded.words, position, usable)
                position += np.uint64(2)
                for each in range(listed):
                    columns.lanes[lane + each] = recorded.words[position + each]
                position += listed
                lane += listed
                access += np.uint64(1)
            at += instructions


@inlined
def _segment(word):
    """(Number, active lanes) of an executed segment."""
    return np.uint64(word >> 32), np.uint64(word & 0xFFFFFFFF)


@inlined
def _range(starts, segment):
    return np.uint64(starts[segment]), np.uint64(starts[segment + np.uint64(1)])


@inlined
def _listed(words, position, usable):
    """Lanes whose addresses follow an access."""
    return np.uint64(bit_count(usable)) if words[position + np.uint64(1)] == IRREGULAR else np.uint64(0)


@inlined
def _expand_instructions(record_format, columns, segment, active, at):
    """Write the rows of a segment; returns their number."""
    first, last = _range(record_format.segment_start, segment)
    for each in range(last - first):
        columns.static[at + each] = record_format.segment_static[first + each]
    for each in range(last - first):
        columns.mask[at + each] = active
    return last - first
