"""Compiled reading of raw records, and their addresses as columns of a trace."""

from __future__ import annotations

import numpy as np

from ...jit import inlined, kernel
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR
from ._raw_state import KIND_HOLE, KIND_LOCAL, MOST_KIND, PAYLOAD_EVEN, PAYLOAD_LISTED, PAYLOAD_NONE


@inlined
def _code_offset(units, at):
    return np.int64(units[at, 0])


@inlined
def _mask(units, at):
    return np.int64(units[at, 1])


@inlined
def _block(units, at):
    return np.int64(units[at, 2])


@inlined
def _warp(units, at):
    return np.int64(units[at, 3] & 255)


@inlined
def _kind(units, at):
    return np.int64((units[at, 3] >> 8) & 255)


@inlined
def _size(units, at):
    return np.int64((units[at, 3] >> 16) & 255)


@inlined
def _payload(units, at):
    return np.int64(units[at, 3] >> 24)


@inlined
def _word(units, at, k):
    """The k-th 64-bit number behind a record's header."""
    row = at + 1 + k // 2
    column = k % 2 * 2
    return np.int64(np.uint64(units[row, column]) | np.uint64(units[row, column + 1]) << np.uint64(32))


@inlined
def _is_damaged(units, at, limits):
    payload = _payload(units, at)
    lanes = bit_count(_mask(units, at))
    expected = 1 if payload == PAYLOAD_NONE else 2 if payload == PAYLOAD_EVEN else 1 + (lanes + 1) // 2
    return (
        payload > PAYLOAD_LISTED
        or _size(units, at) != expected
        or at + expected > len(units)
        or lanes == 0
        or _kind(units, at) == 0
        or _kind(units, at) > MOST_KIND
        or _warp(units, at) >= limits.warps_per_block
        or _block(units, at) >= limits.blocks
        or _code_offset(units, at) >= limits.code_bytes
        or _code_offset(units, at) % 16 != 0
    )


@kernel
def survey(units, limits, blocks, seen, local_range):
    """Check every record; returns the unit at which a damaged one lies, or -1.

    `seen[i]` gets a bit per kind for instruction i; `local_range` gets the lowest and highest offset of local memory.
    """
    at = 0
    while at < len(units):
        if _kind(units, at) == KIND_HOLE:
            return -1 if _size(units, at) == 1 else at
        if _is_damaged(units, at, limits):
            return at
        block = _block(units, at)
        if blocks.records[block] == 0:
            blocks.first[block] = at
        blocks.records[block] += 1
        blocks.last[block] = at + _size(units, at)
        kind = _kind(units, at)
        seen[_code_offset(units, at) // 16] |= np.uint64(1) << np.uint64(kind)
        if kind == KIND_LOCAL:
            _widen(local_range, units, at)
        at += _size(units, at)
    return -1


@inlined
def _widen(local_range, units, at):
    payload = _payload(units, at)
    if payload == PAYLOAD_NONE:
        return
    lanes = bit_count(_mask(units, at))
    for k in range(1 if payload == PAYLOAD_EVEN else lanes):
        low = _word(units, at, k)
        high = low + (lanes - 1) * _word(units, at, 1) if payload == PAYLOAD_EVEN else low
        local_range[0] = min(local_range[0], low, high)
        local_range[1] = max(local_range[1], low, high)


@inlined
def _warp_among(units, at, blocks):
    """The number of a record's warp among some blocks; -1 if it is of another."""
    block = _block(units, at) - blocks.first
    if 0 <= block < blocks.size:
        return block * blocks.warps_per_block + _warp(units, at)
    return -1


@kernel
def count_records(units, blocks, start):
    """How many records each warp has, as running totals."""
    at = blocks.begin
    while at < blocks.end and _kind(units, at) != KIND_HOLE:
        warp = _warp_among(units, at, blocks)
        if warp >= 0:
            start[warp + 1] += 1
        at += _size(units, at)
    for warp in range(1, len(start)):
        start[warp] += start[warp - 1]


@kernel
def sort_records(units, blocks, fill, position):
    """The unit of each record, by warp and then in the order of recording; `fill` is where each warp's begin."""
    at = blocks.begin
    while at < blocks.end and _kind(units, at) != KIND_HOLE:
        warp = _warp_among(units, at, blocks)
        if warp >= 0:
            position[fill[warp]] = at
            fill[warp] += 1
        at += _size(units, at)


@inlined
def _list_addresses(units, at, lanes, used):
    """Write the address of each active lane; returns how many there are."""
    count = bit_count(_mask(units, at))
    for k in range(count):
        if _payload(units, at) == PAYLOAD_EVEN:
            lanes[used + k] = _word(units, at, 0) + k * _word(units, at, 1)
        else:
            lanes[used + k] = _word(units, at, k)
    return count


@inlined
def _lay_out(units, at, lanes, used, local, static, warp):
    """Local memory as GPUs lay it out: the same word of all lanes of a warp lies together."""
    mask = _mask(units, at)
    start = local.base + ((local.first_warp + warp) * local.span - local.low) * 32
    for lane in range(32):
        if (mask >> lane) & 1:
            lanes[used] = start + lanes[used] * 32 + lane * local.access_bytes[static]
            used += 1


@inlined
def _stride(lanes, used, count):
    """The distance between neighbouring addresses, or IRREGULAR."""
    stride = lanes[used + 1] - lanes[used] if count > 1 else np.int64(0)
    for k in range(used + 1, used + count):
        if lanes[k] - lanes[k - 1] != stride:
            return np.int64(IRREGULAR)
    return stride


@kernel
def expand(units, accesses, local, out):
    """Write the addresses of accesses; returns how many are listed one by one."""
    used = 0
    warp = 0
    for k in range(len(accesses.unit)):
        while k >= accesses.end[warp]:
            out.lane_end[warp] = used
            warp += 1
        at = accesses.unit[k]
        if at < 0 or _payload(units, at) == PAYLOAD_NONE:
            continue
        static = accesses.static[k]
        is_local = local.is_local[static] and _kind(units, at) == KIND_LOCAL
        if _payload(units, at) == PAYLOAD_EVEN and not is_local:
            out.base[k] = _word(units, at, 0)
            out.stride[k] = _word(units, at, 1)
            continue
        count = _list_addresses(units, at, out.lanes, used)
        if is_local:
            _lay_out(units, at, out.lanes, used, local, static, warp)
        out.base[k] = out.lanes[used]
        out.stride[k] = _stride(out.lanes, used, count)
        if out.stride[k] == IRREGULAR:
            used += count
    while warp < len(out.lane_end):
        out.lane_end[warp] = used
        warp += 1
    return used
