"""Compiled reading of an instruction line: its static part as a key, its mask and its addresses.

Addresses are handled as the int64 with the same bits.
"""

from __future__ import annotations

import numpy as np

from ...jit import inlined
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR
from ._parser_state import (
    E_ABSENT_LANES,
    E_BAD_ADDRESS,
    E_BAD_COUNT,
    E_BAD_IMMEDIATE,
    E_BAD_LINE_NUMBER,
    E_BAD_MASK,
    E_BAD_MODE,
    E_BAD_PC,
    E_BAD_PREFIX,
    E_BAD_REGISTER,
    E_BAD_STRIDE,
    E_BAD_WIDTH,
    E_GAPS,
    E_NO_OPCODE,
    E_OTHER_WARP,
    E_TOO_LONG,
    E_TRAILING,
    E_WRAPS,
    IN_BLOCK,
    KEY_LIMIT,
    REGISTER_LIMIT,
)
from ._token_kernels import below, decimal, hexadecimal, skip, token_end

#: Strides beyond this are refused, so that 31 of them cannot overflow.
STRIDE_LIMIT = 1 << 58

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


@inlined
def instruction_line(text, at, p):
    """Read one instruction. Returns where it stopped, and an error or 0."""
    state, key = p.state, p.keys.scratch
    end, error = _prefix(text, at, p) if p.format.version < 3 else (at, 0)
    if error:
        return end, error
    end, mask, length, hashed, error = _start(text, end, p)
    if error:
        return end, error
    end, width, length, hashed, error = _operation(text, end, key, length, hashed)
    if error:
        return end, error
    if width > 0:
        end, error = _addresses(text, end, mask, state, p.columns)
        if error:
            return end, error
    if p.format.version >= 4:
        at = skip(text, end)
        end = token_end(text, at)
        if end == at or end - at > 21:
            return at, E_BAD_IMMEDIATE
        length, hashed = _add_to_key(text, at, end, key, length, hashed)
    at = skip(text, end)
    if text[at] != 10:
        return at, E_TRAILING
    row = state.instructions
    p.columns.static[row] = _find_key(p.keys, length, hashed, state)
    p.columns.mask[row] = mask
    state.instructions = row + 1
    state.left -= 1
    if state.left == 0:
        state.place = IN_BLOCK
    return at, 0


@inlined
def _prefix(text, end, p):
    """Block and warp, which versions before 3 repeat on every line. Returns where it stopped, and an error or 0."""
    for i in range(4):
        at = skip(text, end)
        end = token_end(text, at)
        value, good = decimal(text, at, end)
        if not good:
            return at, E_BAD_PREFIX
        if value != (p.state.warp if i == 3 else p.state.coordinates[i]):
            return at, E_OTHER_WARP
    return end, 0


@inlined
def _start(text, end, p):
    """Line number, PC and mask. Returns where it stopped, the mask, the key's length and hash, and an error or 0."""
    key = p.keys.scratch
    length = 0
    hashed = _FNV_OFFSET
    mask = np.int64(0)
    if p.format.lineinfo:
        at = skip(text, end)
        end = token_end(text, at)
        value, good = decimal(text, at, end)
        if not good or value < 0 or value > 0xFFFFFFFF:
            return at, mask, length, hashed, E_BAD_LINE_NUMBER
        length, hashed = _add_to_key(text, at, end, key, length, hashed)
    at = skip(text, end)
    value, end, good = hexadecimal(text, at)
    if not good:
        return at, mask, length, hashed, E_BAD_PC
    length, hashed = _add_to_key(text, at, end, key, length, hashed)
    at = skip(text, end)
    mask, end, good = hexadecimal(text, at)
    if not good or mask < 0 or mask > 0xFFFFFFFF:
        return at, mask, length, hashed, E_BAD_MASK
    if mask & ~p.state.lane_limit:
        return at, mask, length, hashed, E_ABSENT_LANES
    return end, mask, length, hashed, 0


@inlined
def _operation(text, end, key, length, hashed):
    """Registers, opcode and width. Returns where it stopped, the width, the key's length and hash, and an error."""
    width = np.int64(0)
    end, length, hashed, error = _registers(text, end, key, length, hashed)
    if error:
        return end, width, length, hashed, error
    at = skip(text, end)
    end = token_end(text, at)
    if end == at:
        return at, width, length, hashed, E_NO_OPCODE
    if length + end - at + 1 > KEY_LIMIT:
        return at, width, length, hashed, E_TOO_LONG
    length, hashed = _add_to_key(text, at, end, key, length, hashed)
    end, length, hashed, error = _registers(text, end, key, length, hashed)
    if error:
        return end, width, length, hashed, error
    at = skip(text, end)
    end = token_end(text, at)
    width, good = decimal(text, at, end)
    if not good or width < 0 or width > 0xFFFF:
        return at, width, length, hashed, E_BAD_WIDTH
    if length + 64 > KEY_LIMIT:
        return at, width, length, hashed, E_TOO_LONG
    length, hashed = _add_to_key(text, at, end, key, length, hashed)
    return end, width, length, hashed, 0


@inlined
def _registers(text, at, key, length, hashed):
    """A count and as many registers. Returns position after them, key length, hash, and an error or 0."""
    at = skip(text, at)
    end = token_end(text, at)
    count, good = decimal(text, at, end)
    if not good or count < 0 or count > REGISTER_LIMIT:
        return at, length, hashed, E_BAD_COUNT
    for i in range(count + 1):
        if i:
            at = skip(text, end)
            end = token_end(text, at)
            if end - at < 2 or text[at] != 82:
                return at, length, hashed, E_BAD_REGISTER
        if length + end - at + 1 > KEY_LIMIT:
            return at, length, hashed, E_TOO_LONG
        length, hashed = _add_to_key(text, at, end, key, length, hashed)
    return end, length, hashed, 0


@inlined
def _add_to_key(text, at, end, key, length, hashed):
    """Append a word and a blank to the key, and to its hash."""
    for i in range(at, end):
        key[length] = text[i]
        hashed = (hashed ^ np.uint64(text[i])) * _FNV_PRIME
        length += 1
    key[length] = 32
    return length + 1, (hashed ^ np.uint64(32)) * _FNV_PRIME


@inlined
def _is_key(keys, index, length, hashed):
    """Whether the scratch key is the one with an index."""
    start = keys.start[index]
    if keys.hash[index] != hashed or keys.start[index + 1] - start != length:
        return False
    for i in range(length):  # noqa: SIM110 (Numba compiles no generators inside all())
        if keys.text[start + i] != keys.scratch[i]:
            return False
    return True


@inlined
def _find_key(keys, length, hashed, state):
    """Index of the scratch key, which is added when it is new."""
    size = np.uint64(len(keys.slots) - 1)
    slot = hashed & size
    while keys.slots[slot] >= 0:
        if _is_key(keys, keys.slots[slot], length, hashed):
            return keys.slots[slot]
        slot = (slot + np.uint64(1)) & size
    index = state.keys
    keys.slots[slot] = index
    start = state.key_bytes
    for i in range(length):
        keys.text[start + i] = keys.scratch[i]
    keys.hash[index] = hashed
    keys.line[index] = state.line
    keys.start[index + 1] = start + length
    state.keys = index + 1
    state.key_bytes = start + length
    return index


@inlined
def _addresses(text, at, mask, state, columns):
    """MODE and ADDRS of an access: the position after them, and an error or 0."""
    state.detail = bit_count(mask)
    at = skip(text, at)
    end = token_end(text, at)
    if end - at != 1 or text[at] < 48 or text[at] > 50:
        return at, E_BAD_MODE
    if text[at] == 48:
        return _listed_addresses(text, end, state, columns)
    mode = text[at]
    at = skip(text, end)
    address, end, good = hexadecimal(text, at)
    if not good:
        return at, E_BAD_ADDRESS
    if mode == 49:
        return _even_addresses(text, end, address, mask, state, columns)
    return _delta_addresses(text, end, address, state, columns)


@inlined
def _listed_addresses(text, end, state, columns):
    """Mode 0: the address of each active lane."""
    first = state.lanes
    for i in range(state.detail):
        at = skip(text, end)
        address, end, good = hexadecimal(text, at)
        if not good:
            return at, E_BAD_ADDRESS
        columns.lanes[first + i] = address
    _keep_access(state, columns)
    return end, 0


@inlined
def _even_addresses(text, end, address, mask, state, columns):
    """Mode 1: the first address and a stride."""
    count = state.detail
    at = skip(text, end)
    end = token_end(text, at)
    stride, good = decimal(text, at, end)
    if not good or stride > STRIDE_LIMIT or stride < -STRIDE_LIMIT:
        return at, E_BAD_STRIDE
    lowest = mask & -mask
    if (mask + lowest) & mask:
        return at, E_GAPS
    if count > 1 and below(address + stride * (count - 1), address) != (stride < 0):
        return at, E_WRAPS
    columns.base[state.accesses] = address if count > 0 else 0
    columns.stride[state.accesses] = stride if count > 1 else 0
    state.accesses += 1
    return end, 0


@inlined
def _delta_addresses(text, end, address, state, columns):
    """Mode 2: the first address, then distances."""
    first = state.lanes
    columns.lanes[first] = address
    for i in range(1, state.detail):
        at = skip(text, end)
        end = token_end(text, at)
        delta, good = decimal(text, at, end)
        if not good:
            return at, E_BAD_STRIDE
        if below(address + delta, address) != (delta < 0):
            return at, E_WRAPS
        address += delta
        columns.lanes[first + i] = address
    _keep_access(state, columns)
    return end, 0


@inlined
def _keep_access(state, columns):
    """Turn the addresses behind the column's end into base and stride where they are evenly spaced."""
    lanes, first, count = columns.lanes, state.lanes, state.detail
    stride = np.int64(0)
    even = True
    if count > 1:
        stride = lanes[first + 1] - lanes[first]
        even = -STRIDE_LIMIT <= stride <= STRIDE_LIMIT
        for i in range(first + 1, first + count):
            if lanes[i] - lanes[i - 1] != stride or below(lanes[i], lanes[i - 1]) != (stride < 0):
                even = False
                break
    columns.base[state.accesses] = lanes[first] if count > 0 else 0
    columns.stride[state.accesses] = stride if even else IRREGULAR
    state.accesses += 1
    if not even:
        state.lanes = first + count
