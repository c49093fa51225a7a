"""Compiled parser of the body of an Accel-Sim kernel trace.

`parse` goes over whole lines of text and appends to the columns of a
`WarpGroup`. What is static in an instruction line (line number, PC, registers,
opcode, width, immediate) is looked up by its bytes; Python decodes each such
key once. Numbers come from the text and are never trusted: nothing is
allocated here, and every column is checked for room before a line is read.
Addresses are handled as the int64 with the same bits.
"""

from __future__ import annotations

import numpy as np

from ...jit import allocating_kernel, inlined
from ...traces._bit_kernels import bit_count
from ...traces._codes import IRREGULAR
from ._token_kernels import (
    below,
    coordinates,
    decimal,
    hexadecimal,
    is_word,
    letters_end,
    line_end,
    only_number,
    skip,
    token_end,
)

# What `parse` ended with.
MORE, GROUP_END, NEEDS_ROOM, NEEDS_STATIC_ROOM, NOTE, FAILED = range(6)

# Where in the file the parser is.
OUTSIDE, BLOCK_BEGUN, IN_BLOCK, WARP_BEGUN, IN_WARP = range(5)

# Slots of `state`.
(
    PLACE,
    LINE,
    BLOCK,
    BLOCK_X,
    BLOCK_Y,
    BLOCK_Z,
    WARP,
    PROMISED,
    LEFT,
    LANE_LIMIT,
    BLOCKS,
    ERROR,
    DETAIL,
    INSTRUCTIONS,
    ACCESSES,
    LANES,
    WARPS,
    FIRST_WARP,
    KEYS,
    KEY_BYTES,
) = range(20)
STATE_SLOTS = 20

# Slots of `params`.
VERSION, LINEINFO, GRID_X, GRID_Y, GRID_Z, THREADS, TARGET_INSTRUCTIONS, TARGET_LANES = range(8)
PARAM_SLOTS = 8

# What can be wrong; the texts are in reader.py.
(
    E_NOT_BEGIN,
    E_NESTED_BEGIN,
    E_NO_COORDINATES,
    E_BAD_COORDINATES,
    E_OUTSIDE_GRID,
    E_NO_WARPS,
    E_NOT_WARP,
    E_BAD_WARP,
    E_NO_SUCH_WARP,
    E_BAD_INSTS,
    E_TOO_FEW,
    E_BAD_PREFIX,
    E_OTHER_WARP,
    E_BAD_LINE_NUMBER,
    E_BAD_PC,
    E_BAD_MASK,
    E_ABSENT_LANES,
    E_BAD_COUNT,
    E_BAD_REGISTER,
    E_NO_OPCODE,
    E_BAD_WIDTH,
    E_BAD_MODE,
    E_BAD_ADDRESS,
    E_BAD_STRIDE,
    E_GAPS,
    E_WRAPS,
    E_BAD_IMMEDIATE,
    E_TRAILING,
    E_TOO_LONG,
) = range(1, 30)

#: Bytes that the static part of a line may have, and registers that it may name.
KEY_LIMIT = 1024
REGISTER_LIMIT = 64
#: Strides beyond this are refused, so that 31 of them cannot overflow.
STRIDE_LIMIT = 1 << 58

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)

_BEGIN_TB = np.frombuffer(b"#BEGIN_TB", dtype=np.uint8)
_END_TB = np.frombuffer(b"#END_TB", dtype=np.uint8)
_THREAD = np.frombuffer(b"thread", dtype=np.uint8)
_BLOCK = np.frombuffer(b"block", dtype=np.uint8)
_WARP = np.frombuffer(b"warp", dtype=np.uint8)
_INSTS = np.frombuffer(b"insts", dtype=np.uint8)


@allocating_kernel
def _structure_line(text, at, state, params, columns):
    """A line that is no instruction. Returns an error, 0, or -1 for a comment."""
    block_column, warp_column, start_column, access_start_column, lane_start_column, line_column = columns
    place = state[PLACE]
    if text[at] == 35:  # '#'
        end = token_end(text, at)
        if is_word(text, at, end, _BEGIN_TB):
            if place != OUTSIDE:
                return E_NESTED_BEGIN
            state[PLACE] = BLOCK_BEGUN
        elif is_word(text, at, end, _END_TB):
            if place == WARP_BEGUN:
                return E_BAD_INSTS
            if place == BLOCK_BEGUN:
                return E_NO_COORDINATES
            if place == OUTSIDE:
                return E_NOT_BEGIN
            if state[WARPS] == state[FIRST_WARP]:
                return E_NO_WARPS
            state[PLACE] = OUTSIDE
            state[BLOCKS] += 1
        else:
            return -1
        return 0
    end = letters_end(text, at)
    if place == OUTSIDE:
        return E_NOT_BEGIN
    if place == BLOCK_BEGUN:
        second = skip(text, end)
        second_end = letters_end(text, second)
        if not (is_word(text, at, end, _THREAD) and is_word(text, second, second_end, _BLOCK)):
            return E_NO_COORDINATES
        found = np.zeros(3, dtype=np.int64)
        if not coordinates(text, second_end, found):
            return E_BAD_COORDINATES
        for i in range(3):
            if found[i] >= params[GRID_X + i]:
                return E_OUTSIDE_GRID
            state[BLOCK_X + i] = found[i]
        state[BLOCK] = found[0] + params[GRID_X] * (found[1] + params[GRID_Y] * found[2])
        state[FIRST_WARP] = state[WARPS]
        state[PLACE] = IN_BLOCK
        return 0
    if place == IN_BLOCK:
        if not is_word(text, at, end, _WARP):
            return E_NOT_WARP
        value, good = only_number(text, end)
        if not good:
            return E_BAD_WARP
        lanes = params[THREADS] - value * 32 if value < params[THREADS] else 0
        if lanes <= 0:
            return E_NO_SUCH_WARP
        state[WARP] = value
        state[LANE_LIMIT] = 0xFFFFFFFF if lanes >= 32 else (1 << lanes) - 1
        state[PLACE] = WARP_BEGUN
        return 0
    if not is_word(text, at, end, _INSTS):
        return E_BAD_INSTS
    value, good = only_number(text, end)
    if not good:
        return E_BAD_INSTS
    state[PROMISED] = state[LEFT] = value
    state[PLACE] = IN_WARP if value > 0 else IN_BLOCK
    row = state[WARPS]
    block_column[row] = state[BLOCK]
    warp_column[row] = state[WARP]
    line_column[row] = state[LINE]
    start_column[row] = state[INSTRUCTIONS]
    access_start_column[row] = state[ACCESSES]
    lane_start_column[row] = state[LANES]
    state[WARPS] = row + 1
    return 0


@inlined
def _keep_access(state, base_column, stride_column, lane_column, count):
    """Turn the addresses behind the column's end into base and stride where they are evenly spaced."""
    first = state[LANES]
    access = state[ACCESSES]
    stride = np.int64(0)
    even = True
    if count > 1:
        stride = lane_column[first + 1] - lane_column[first]
        even = -STRIDE_LIMIT <= stride <= STRIDE_LIMIT
        for i in range(first + 1, first + count):
            before = lane_column[i - 1]
            if lane_column[i] - before != stride or below(lane_column[i], before) != (stride < 0):
                even = False
                break
    base_column[access] = lane_column[first] if count > 0 else 0
    stride_column[access] = stride if even else IRREGULAR
    state[ACCESSES] = access + 1
    if not even:
        state[LANES] = first + count


@inlined
def _addresses(text, at, mask, state, base_column, stride_column, lane_column):
    """MODE and ADDRS of an access: the position after them and an error or 0."""
    count = bit_count(mask)
    at = skip(text, at)
    end = token_end(text, at)
    if end - at != 1 or text[at] < 48 or text[at] > 50:
        return at, E_BAD_MODE
    mode = text[at] - 48
    first = state[LANES]
    state[DETAIL] = count
    if mode == 0:
        for i in range(count):
            at = skip(text, end)
            address, end, good = hexadecimal(text, at)
            if not good:
                return at, E_BAD_ADDRESS
            lane_column[first + i] = address
        _keep_access(state, base_column, stride_column, lane_column, count)
        return end, 0
    at = skip(text, end)
    address, end, good = hexadecimal(text, at)
    if not good:
        return at, E_BAD_ADDRESS
    if mode == 1:
        at = skip(text, end)
        end = token_end(text, at)
        stride, good = decimal(text, at, end)
        if not good or stride > STRIDE_LIMIT or stride < -STRIDE_LIMIT:
            return at, E_BAD_STRIDE
        lowest = mask & -mask
        if (mask + lowest) & mask:
            return at, E_GAPS
        if count > 1:
            last = address + stride * (count - 1)
            if below(last, address) != (stride < 0):
                return at, E_WRAPS
        access = state[ACCESSES]
        base_column[access] = address if count > 0 else 0
        stride_column[access] = stride if count > 1 else 0
        state[ACCESSES] = access + 1
        return end, 0
    lane_column[first] = address
    for i in range(1, count):
        at = skip(text, end)
        end = token_end(text, at)
        delta, good = decimal(text, at, end)
        if not good:
            return at, E_BAD_STRIDE
        if below(address + delta, address) != (delta < 0):
            return at, E_WRAPS
        address += delta
        lane_column[first + i] = address
    _keep_access(state, base_column, stride_column, lane_column, count)
    return end, 0


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
def _find_key(key, length, hashed, state, keys):
    """Index of the key, which is added when it is new."""
    key_start, key_hash, key_line, key_text, slots = keys
    size = np.uint64(len(slots) - 1)
    slot = hashed & size
    while True:
        index = slots[slot]
        if index < 0:
            break
        if key_hash[index] == hashed:
            start = key_start[index]
            if key_start[index + 1] - start == length:
                same = True
                for i in range(length):
                    if key_text[start + i] != key[i]:
                        same = False
                        break
                if same:
                    return index
        slot = (slot + np.uint64(1)) & size
    index = state[KEYS]
    slots[slot] = index
    start = state[KEY_BYTES]
    for i in range(length):
        key_text[start + i] = key[i]
    key_hash[index] = hashed
    key_line[index] = state[LINE]
    key_start[index + 1] = start + length
    state[KEYS] = index + 1
    state[KEY_BYTES] = start + length
    return index


@inlined
def _instruction(text, at, state, params, key, keys, dynamic):
    """One instruction line. Returns where it stopped and an error or 0."""
    static_column, mask_column, base_column, stride_column, lane_column = dynamic
    end = at
    if params[VERSION] < 3:
        for i in range(4):
            at = skip(text, end)
            end = token_end(text, at)
            value, good = decimal(text, at, end)
            if not good:
                return at, E_BAD_PREFIX
            if value != (state[WARP] if i == 3 else state[BLOCK_X + i]):
                return at, E_OTHER_WARP
    length = 0
    hashed = _FNV_OFFSET
    if params[LINEINFO]:
        at = skip(text, end)
        end = token_end(text, at)
        value, good = decimal(text, at, end)
        if not good or value < 0 or value > 0xFFFFFFFF:
            return at, E_BAD_LINE_NUMBER
        length, hashed = _add_to_key(text, at, end, key, length, hashed)
    at = skip(text, end)
    value, end, good = hexadecimal(text, at)
    if not good:
        return at, E_BAD_PC
    length, hashed = _add_to_key(text, at, end, key, length, hashed)
    at = skip(text, end)
    mask, end, good = hexadecimal(text, at)
    if not good or mask < 0 or mask > 0xFFFFFFFF:
        return at, E_BAD_MASK
    if mask & ~state[LANE_LIMIT]:
        return at, E_ABSENT_LANES
    end, length, hashed, error = _registers(text, end, key, length, hashed)
    if error:
        return end, error
    at = skip(text, end)
    end = token_end(text, at)
    if end == at:
        return at, E_NO_OPCODE
    if length + end - at + 1 > KEY_LIMIT:
        return at, E_TOO_LONG
    length, hashed = _add_to_key(text, at, end, key, length, hashed)
    end, length, hashed, error = _registers(text, end, key, length, hashed)
    if error:
        return end, error
    at = skip(text, end)
    end = token_end(text, at)
    width, good = decimal(text, at, end)
    if not good or width < 0 or width > 0xFFFF:
        return at, E_BAD_WIDTH
    if length + 64 > KEY_LIMIT:
        return at, E_TOO_LONG
    length, hashed = _add_to_key(text, at, end, key, length, hashed)
    if width > 0:
        end, error = _addresses(text, end, mask, state, base_column, stride_column, lane_column)
        if error:
            return end, error
    if params[VERSION] >= 4:
        at = skip(text, end)
        end = token_end(text, at)
        if end == at or end - at > 21:
            return at, E_BAD_IMMEDIATE
        length, hashed = _add_to_key(text, at, end, key, length, hashed)
    at = skip(text, end)
    if text[at] != 10:
        return at, E_TRAILING
    row = state[INSTRUCTIONS]
    static_column[row] = _find_key(key, length, hashed, state, keys)
    mask_column[row] = mask
    state[INSTRUCTIONS] = row + 1
    state[LEFT] -= 1
    if state[LEFT] == 0:
        state[PLACE] = IN_BLOCK
    return at, 0


@allocating_kernel
def parse(text, at, stop, state, params, columns, dynamic, key, keys):
    """Parse whole lines between `at` and `stop`. Returns what it ended with, and where (for errors: the line)."""
    while at < stop:
        if len(dynamic[0]) <= state[INSTRUCTIONS] or len(dynamic[2]) <= state[ACCESSES]:
            return NEEDS_ROOM, at
        if len(dynamic[4]) < state[LANES] + 32 or len(columns[0]) <= state[WARPS]:
            return NEEDS_ROOM, at
        if len(keys[1]) <= state[KEYS] or len(keys[3]) < state[KEY_BYTES] + KEY_LIMIT:
            return NEEDS_STATIC_ROOM, at
        state[LINE] += 1
        first = skip(text, at)
        if text[first] == 10:
            at = first + 1
            continue
        if state[PLACE] == IN_WARP:
            if text[first] == 35 or text[first] == 119 or text[first] == 116 or text[first] == 105:  # '#', w, t, i
                state[ERROR] = E_TOO_FEW
                return FAILED, at
            end, error = _instruction(text, first, state, params, key, keys, dynamic)
            if error:
                state[ERROR] = error
                return FAILED, at
            at = end + 1
            continue
        error = _structure_line(text, first, state, params, columns)
        if error > 0:
            state[ERROR] = error
            return FAILED, at
        at = line_end(text, first) + 1
        if error < 0:
            state[DETAIL] = first
            return NOTE, at
        if state[PLACE] == OUTSIDE and (
            state[INSTRUCTIONS] >= params[TARGET_INSTRUCTIONS] or state[LANES] >= params[TARGET_LANES]
        ):
            return GROUP_END, at
    return MORE, at


@allocating_kernel
def fill_slots(key_hash, count, slots):
    """Hash table of the first `count` keys, after it grew."""
    slots[:] = -1
    size = np.uint64(len(slots) - 1)
    for index in range(count):
        slot = key_hash[index] & size
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & size
        slots[slot] = index
