"""Compiled writer of instruction lines: columns of a `WarpGroup` back to text."""

from __future__ import annotations

import numpy as np

from ...jit import inlined, kernel
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR
from ._format_state import LINE_ROOM
from ._token_kernels import below

_STRIDE_LIMIT = np.int64(2**31 - 1)
_DELTA_LIMIT = np.int64(10**18 - 1)


@inlined
def _hexadecimal(value, least, out, at):
    """At least `least` digits of the int64's bits."""
    digits = 1
    while digits < 16 and (value >> (4 * digits)) & ((np.int64(1) << (64 - 4 * digits)) - 1):
        digits += 1
    digits = max(digits, least)
    for i in range(digits - 1, -1, -1):
        digit = (value >> (4 * i)) & 15
        out[at] = 48 + digit if digit < 10 else 87 + digit
        at += 1
    return at


@inlined
def _decimal(value, out, at):
    """A number of at most 18 digits."""
    if value < 0:
        out[at] = 45
        at += 1
        value = -value
    end = at + 1
    bound = np.int64(10)
    while value >= bound:
        end += 1
        bound *= 10
    for place in range(end - 1, at - 1, -1):
        out[place] = 48 + value % 10
        value //= 10
    return end


@inlined
def _address(value, out, at):
    out[at] = 32
    out[at + 1] = 48
    out[at + 2] = 120
    return _hexadecimal(value, 1, out, at + 3)


@inlined
def _addresses(mask, base, stride, lanes, first, out, at):
    """MODE and ADDRS: 1 where the lanes are contiguous and evenly spaced, else 2, or 0 where neither can say it."""
    count = bit_count(mask)
    out[at] = 32
    at += 1
    even = stride != IRREGULAR
    contiguous = ((mask + (mask & -mask)) & mask) == 0
    deltas = True
    previous = np.int64(0)
    for i in range(count):
        address = base + i * stride if even else lanes[first + i]
        if address == 0:
            deltas = False
        if i:
            delta = address - previous
            if delta > _DELTA_LIMIT or delta < -_DELTA_LIMIT or below(address, previous) != (delta < 0):
                deltas = False
        previous = address
    if count == 0 or (even and contiguous and deltas and -_STRIDE_LIMIT <= stride <= _STRIDE_LIMIT):
        out[at] = 49
        at = _address(base, out, at + 1)
        out[at] = 32
        return _decimal(stride if count > 1 else np.int64(0), out, at + 1)
    out[at] = 50 if deltas else 48
    at += 1
    for i in range(count):
        address = base + i * stride if even else lanes[first + i]
        if deltas and i:
            out[at] = 32
            at = _decimal(address - previous, out, at + 1)
        else:
            at = _address(address, out, at)
        previous = address
    return at


@inlined
def _length(texts, index):
    return texts.start[index + 1] - texts.start[index]


@inlined
def _copy_text(texts, index, out, at):
    for i in range(texts.start[index], texts.start[index + 1]):
        out[at] = texts.text[i]
        at += 1
    return at


@kernel
def format_warps(cursor, group, warps, lines, out):
    """Write warps from the cursor on as far as `out` has room; returns the bytes written."""
    at = 0
    while cursor.warp < len(group.start) - 1:
        warp = cursor.warp
        if not cursor.headed:
            if at + _length(warps.heading, warp) > len(out):
                return at
            at = _copy_text(warps.heading, warp, out, at)
            cursor.headed = True
            cursor.instruction = group.start[warp]
            cursor.access = group.access_start[warp]
            cursor.lane = group.lane_start[warp]
        while cursor.instruction < group.start[warp + 1]:
            index = group.static[cursor.instruction]
            fixed = _length(lines.before, index) + _length(lines.after, index) + _length(lines.end, index)
            if at + fixed + _length(warps.prefix, warp) + LINE_ROOM > len(out):
                return at
            at = _copy_text(warps.prefix, warp, out, at)
            at = _instruction(cursor, group, lines, index, out, at)
        cursor.headed = False
        cursor.warp += 1
    return at


@inlined
def _instruction(cursor, group, lines, index, out, at):
    """Write one line without its prefix; returns where it ends."""
    mask = np.int64(group.mask[cursor.instruction])
    at = _copy_text(lines.before, index, out, at)
    at = _hexadecimal(mask, 8, out, at)
    at = _copy_text(lines.after, index, out, at)
    if group.access_bytes[index]:
        base, stride = group.base[cursor.access], group.stride[cursor.access]
        at = _addresses(mask, base, stride, group.lanes, cursor.lane, out, at)
        if stride == IRREGULAR:
            cursor.lane += bit_count(mask)
        cursor.access += 1
    cursor.instruction += 1
    return _copy_text(lines.end, index, out, at)
