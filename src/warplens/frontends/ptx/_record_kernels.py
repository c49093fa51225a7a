"""Recorded words to the columns of a trace."""

from __future__ import annotations

from ...jit import inlined, kernel
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR


@kernel
def measure_warps(recorded, record_format, ends):
    """Count the instructions, accesses and listed lanes of every warp."""
    for warp in range(len(recorded.start) - 1):
        ends.instructions[warp + 1] = ends.instructions[warp]
        ends.accesses[warp + 1] = ends.accesses[warp]
        ends.lanes[warp + 1] = ends.lanes[warp]
        position = recorded.start[warp]
        while position < recorded.start[warp + 1]:
            position = _measure_segment(recorded.words, position, record_format, ends, warp + 1)


@inlined
def _measure_segment(words, position, record_format, ends, row):
    """Count an executed segment; returns where its words end."""
    segment = words[position] >> 32
    active = words[position] & 0xFFFFFFFF
    position += 1
    first, end = record_format.segment_start[segment], record_format.segment_start[segment + 1]
    ends.instructions[row] += end - first
    for item in range(first, end):
        access_lanes = record_format.access_lanes[item]
        if access_lanes:
            ends.accesses[row] += 1
            count = bit_count(access_lanes & active) if words[position + 1] == IRREGULAR else 0
            ends.lanes[row] += count
            position += 2 + count
    return position


@kernel
def expand_warps(recorded, record_format, ends, columns):
    """Write the columns of all warps."""
    for warp in range(len(recorded.start) - 1):
        place = ends.instructions[warp], ends.accesses[warp], ends.lanes[warp]
        position = recorded.start[warp]
        while position < recorded.start[warp + 1]:
            position, place = _expand_segment(recorded.words, position, record_format, columns, place)


@inlined
def _expand_segment(words, position, record_format, columns, place):
    """Write an executed segment; returns where its words and its rows end."""
    at, access, lane = place
    segment = words[position] >> 32
    active = words[position] & 0xFFFFFFFF
    position += 1
    for item in range(record_format.segment_start[segment], record_format.segment_start[segment + 1]):
        columns.static[at] = record_format.segment_static[item]
        columns.mask[at] = active
        access_lanes = record_format.access_lanes[item]
        if access_lanes:
            columns.mask[at] = active & access_lanes
            columns.base[access] = words[position]
            columns.stride[access] = words[position + 1]
            position += 2
            if columns.stride[access] == IRREGULAR:
                for _ in range(bit_count(active & access_lanes)):
                    columns.lanes[lane] = words[position]
                    lane += 1
                    position += 1
            access += 1
        at += 1
    return position, (at, access, lane)
