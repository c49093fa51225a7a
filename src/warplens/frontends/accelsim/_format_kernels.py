"""Compiled writer of instruction lines: columns of a `WarpGroup` back to text."""

from __future__ import annotations

import numpy as np

from ...jit import allocating_kernel
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR

#: Bytes that one line needs besides its static part: mask, mode, and 32 addresses or deltas with their blanks.
LINE_ROOM = 32 * 22 + 64

_STRIDE_LIMIT = np.int64(2**31 - 1)
_DELTA_LIMIT = np.int64(10**18 - 1)
_SIGN = np.int64(np.iinfo(np.int64).min)

# Slots of `state`: the next instruction, access and lane of the group.
INSTRUCTION, ACCESS, LANE = range(3)


@allocating_kernel
def _copy(source, start, end, out, at):
    for i in range(start, end):
        out[at] = source[i]
        at += 1
    return at


@allocating_kernel
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


@allocating_kernel
def _decimal(value, out, at):
    """A number of at most 18 digits."""
    if value < 0:
        out[at] = 45
        at += 1
        value = -value
    scale = np.int64(1)
    while value // scale > 9:
        scale *= 10
    while scale:
        out[at] = 48 + (value // scale) % 10
        at += 1
        scale //= 10
    return at


@allocating_kernel
def _address(value, out, at):
    out[at] = 32
    out[at + 1] = 48
    out[at + 2] = 120
    return _hexadecimal(value, 1, out, at + 3)


@allocating_kernel
def _below(left, right):
    return (left ^ _SIGN) < (right ^ _SIGN)


@allocating_kernel
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
            if delta > _DELTA_LIMIT or delta < -_DELTA_LIMIT or _below(address, previous) != (delta < 0):
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


@allocating_kernel
def format_lines(
    stop, prefix, prefix_size, state, group, before, before_start, after, after_start, end, end_start, out
):
    """Write instructions up to `stop` as far as `out` has room; returns the bytes written.

    A line is `prefix` (block and warp, for old versions), then of its static
    instruction what comes before the mask, the mask, what comes after it, the
    addresses where it has any, and the end of the line.
    """
    static, mask, access_bytes, base, stride, lanes = group
    at = 0
    while state[INSTRUCTION] < stop:
        row = state[INSTRUCTION]
        index = static[row]
        fixed = before_start[index + 1] - before_start[index] + after_start[index + 1] - after_start[index]
        fixed += end_start[index + 1] - end_start[index] + prefix_size
        if at + fixed + LINE_ROOM > len(out):
            return at
        lanes_active = np.int64(mask[row])
        at = _copy(prefix, 0, prefix_size, out, at)
        at = _copy(before, before_start[index], before_start[index + 1], out, at)
        at = _hexadecimal(lanes_active, 8, out, at)
        at = _copy(after, after_start[index], after_start[index + 1], out, at)
        if access_bytes[index]:
            access = state[ACCESS]
            at = _addresses(lanes_active, base[access], stride[access], lanes, state[LANE], out, at)
            if stride[access] == IRREGULAR:
                while lanes_active:
                    lanes_active &= lanes_active - 1
                    state[LANE] += 1
            state[ACCESS] = access + 1
        at = _copy(end, end_start[index], end_start[index + 1], out, at)
        state[INSTRUCTION] = row + 1
    return at
