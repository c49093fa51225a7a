"""Compiled reading of raw records, and their addresses as columns of a trace."""
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from ...jit import allocating_kernel
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR

#: As in injection/record.h.
PAYLOAD_NONE, PAYLOAD_EVEN, PAYLOAD_LISTED = range(3)
KIND_HOLE = 255


@allocating_kernel
def survey(units, at, end, warps, blocks, code_bytes, most_kind, records, first, last, seen, local_range):
    """Check every record from `at` to `end`; returns the unit at which a damaged one lies, or -1.

    Per block: how many `records`, the `first` unit and the one after the `last`.
    `seen[i]` gets a bit per kind for instruction i, `local_range` the lowest and
    highest offset of local memory.
    """
    while at < end:
        word = units[at, 3]
        kind = (word >> 8) & 255
        size = np.int64((word >> 16) & 255)
        payload = word >> 24
        if kind == KIND_HOLE:
            return -1 if size == 1 else at
        lanes = bit_count(np.int64(units[at, 1]))
        block = np.int64(units[at, 2])
        expected = 1 if payload == PAYLOAD_NONE else 2 if payload == PAYLOAD_EVEN else 1 + (lanes + 1) // 2
        if (
            payload > PAYLOAD_LISTED
            or size != expected
            or at + size > end
            or lanes == 0
            or kind == 0
            or kind > most_kind
            or (word & 255) >= warps
            or block >= blocks
            or units[at, 0] >= code_bytes
            or units[at, 0] % 16
        ):
            return at
        if records[block] == 0:
            first[block] = at
        records[block] += 1
        last[block] = at + size
        seen[units[at, 0] // 16] |= np.uint64(1) << np.uint64(kind)
        if kind == 5 and payload != PAYLOAD_NONE:
            for k in range(1 if payload == PAYLOAD_EVEN else lanes):
                low = _word(units, at, k)
                high = low + (lanes - 1) * _word(units, at, 1) if payload == PAYLOAD_EVEN else low
                local_range[0] = min(local_range[0], low, high)
                local_range[1] = max(local_range[1], low, high)
        at += size
    return -1


@allocating_kernel
def _word(units, at, k):
    """The k-th 64-bit number behind a record's header."""
    row = at + 1 + k // 2
    column = k % 2 * 2
    return np.int64(np.uint64(units[row, column]) | np.uint64(units[row, column + 1]) << np.uint64(32))


@allocating_kernel
def sort_records(units, at, end, first_block, blocks, warps, start, position):
    """Records of some blocks by warp, in the order in which they were made: `start` per warp, unit of each record."""
    fill = start[:-1].copy()
    while at < end:
        word = units[at, 3]
        if (word >> 8) & 255 == KIND_HOLE:
            return
        block = np.int64(units[at, 2]) - first_block
        if 0 <= block < blocks:
            warp = block * warps + np.int64(word & 255)
            position[fill[warp]] = at
            fill[warp] += 1
        at += np.int64((word >> 16) & 255)


@allocating_kernel
def count_records(units, at, end, first_block, blocks, warps, start):
    """How many records each warp has, as running totals."""
    while at < end:
        word = units[at, 3]
        if (word >> 8) & 255 == KIND_HOLE:
            break
        block = np.int64(units[at, 2]) - first_block
        if 0 <= block < blocks:
            start[block * warps + np.int64(word & 255) + 1] += 1
        at += np.int64((word >> 16) & 255)
    for warp in range(1, len(start)):
        start[warp] += start[warp - 1]


@allocating_kernel
def expand(
    units, position, record, static, accesses, access_end, is_local, access_bytes, first_slot, local_low, local_span,
    local_base, base, stride, lanes, lane_end
):  # fmt: skip
    """Addresses of accesses. `record[k]` is access k's record, or -1; returns how many addresses are listed.

    Local memory is laid out as GPUs do: the same word of all lanes of a warp lies together.
    """
    used = 0
    listed = np.empty(32, dtype=np.int64)
    warp = 0
    for k in range(accesses):
        while k >= access_end[warp]:
            lane_end[warp] = used
            warp += 1
        if record[k] < 0:
            base[k] = 0
            stride[k] = 0
            continue
        at = position[record[k]]
        payload = units[at, 3] >> 24
        mask = np.int64(units[at, 1])
        if payload == PAYLOAD_NONE:
            base[k] = 0
            stride[k] = 0
            continue
        local = is_local[static[k]] and (units[at, 3] >> 8) & 255 == 5
        if payload == PAYLOAD_EVEN and not local:
            base[k] = _word(units, at, 0)
            stride[k] = _word(units, at, 1)
            continue
        count = 0
        for lane in range(32):
            if (mask >> lane) & 1:
                if payload == PAYLOAD_EVEN:
                    address = _word(units, at, 0) + count * _word(units, at, 1)
                else:
                    address = _word(units, at, count)
                if local:
                    address = (
                        local_base
                        + ((first_slot + warp) * local_span + address - local_low) * 32
                        + lane * access_bytes[static[k]]
                    )
                listed[count] = address
                count += 1
        step = listed[1] - listed[0] if count > 1 else np.int64(0)
        even = True
        for i in range(1, count):
            if listed[i] - listed[i - 1] != step:
                even = False
        base[k] = listed[0]
        stride[k] = step
        if not even:
            stride[k] = IRREGULAR
            for i in range(count):
                lanes[used] = listed[i]
                used += 1
    while warp < len(lane_end):
        lane_end[warp] = used
        warp += 1
    return used
