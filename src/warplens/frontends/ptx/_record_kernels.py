"""Recorded words to the columns of a trace."""

from __future__ import annotations

from ...jit import allocating_kernel
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR


@allocating_kernel
def count_records(words, start, segment_start, has_access, totals):
    """Instructions, accesses and listed lanes of every warp, as running totals (one row more than warps)."""
    for warp in range(len(start) - 1):
        instructions = 0
        accesses = 0
        lanes = 0
        position = start[warp]
        while position < start[warp + 1]:
            segment = words[position] >> 32
            mask = words[position] & 0xFFFFFFFF
            position += 1
            instructions += segment_start[segment + 1] - segment_start[segment]
            for item in range(segment_start[segment], segment_start[segment + 1]):
                if has_access[item]:
                    accesses += 1
                    irregular = words[position + 1] == IRREGULAR
                    position += 2
                    if irregular:
                        listed = has_access[item] & mask
                        count = bit_count(listed)
                        lanes += count
                        position += count
        totals[warp + 1, 0] = totals[warp, 0] + instructions
        totals[warp + 1, 1] = totals[warp, 1] + accesses
        totals[warp + 1, 2] = totals[warp, 2] + lanes


@allocating_kernel
def expand_records(
    words, start, segment_start, segment_static, has_access, totals, static, mask, base, stride, lanes
):
    """The columns themselves; `has_access` holds the lanes that an access may use (all, or the rows of a matrix)."""
    for warp in range(len(start) - 1):
        at, access, lane = totals[warp, 0], totals[warp, 1], totals[warp, 2]
        position = start[warp]
        while position < start[warp + 1]:
            segment = words[position] >> 32
            active = words[position] & 0xFFFFFFFF
            position += 1
            for item in range(segment_start[segment], segment_start[segment + 1]):
                static[at] = segment_static[item]
                mask[at] = active
                if has_access[item]:
                    mask[at] = active & has_access[item]
                    base[access] = words[position]
                    stride[access] = words[position + 1]
                    position += 2
                    if stride[access] == IRREGULAR:
                        for _ in range(bit_count(active & has_access[item])):
                            lanes[lane] = words[position]
                            lane += 1
                            position += 1
                    access += 1
                at += 1
