"""Compiled parser of the body of an Accel-Sim kernel trace.

`parse` goes over whole lines of text and appends to the columns of a
`WarpGroup`. What is static in an instruction line (line number, PC, registers,
opcode, width, immediate) is looked up by its bytes; Python decodes each such
key once. Numbers come from the text and are never trusted: nothing is
allocated here, and every column is checked for room before a line is read.
"""

from __future__ import annotations

import numpy as np

from ...jit import inlined, kernel
from ._instruction_kernels import instruction_line
from ._parser_state import (
    BLOCK_BEGUN,
    E_BAD_COORDINATES,
    E_BAD_INSTS,
    E_BAD_WARP,
    E_NESTED_BEGIN,
    E_NO_COORDINATES,
    E_NO_SUCH_WARP,
    E_NO_WARPS,
    E_NOT_BEGIN,
    E_NOT_WARP,
    E_OUTSIDE_GRID,
    E_TOO_FEW,
    FAILED,
    GROUP_END,
    IN_BLOCK,
    IN_WARP,
    KEY_LIMIT,
    MORE,
    NEEDS_ROOM,
    NEEDS_STATIC_ROOM,
    NOTE,
    OUTSIDE,
    WARP_BEGUN,
)
from ._token_kernels import coordinates, is_word, letters_end, line_end, only_number, skip, token_end

_BEGIN_TB = np.frombuffer(b"#BEGIN_TB", dtype=np.uint8)
_END_TB = np.frombuffer(b"#END_TB", dtype=np.uint8)
_THREAD = np.frombuffer(b"thread", dtype=np.uint8)
_BLOCK = np.frombuffer(b"block", dtype=np.uint8)
_WARP = np.frombuffer(b"warp", dtype=np.uint8)
_INSTS = np.frombuffer(b"insts", dtype=np.uint8)

# What a line that is no instruction came to, besides an error above 0.
_FINE, _COMMENT = 0, -1


@kernel
def parse(text, at, stop, p):
    """Parse whole lines between `at` and `stop`. Returns what it ended with, and where (for errors: the line)."""
    state = p.state
    while at < stop:
        lacks = _lacks_room(p)
        if lacks != MORE:
            return lacks, at
        state.line += 1
        first = skip(text, at)
        if text[first] == 10:
            at = first + 1
            continue
        if state.place == IN_WARP:
            end, error = instruction_line(text, first, p) if _may_be_instruction(text[first]) else (at, E_TOO_FEW)
            if error:
                state.error = error
                return FAILED, at
            at = end + 1
            continue
        error = _structure_line(text, first, p)
        if error > 0:
            state.error = error
            return FAILED, at
        at = line_end(text, first) + 1
        if error == _COMMENT:
            state.detail = first
            return NOTE, at
        full = state.instructions >= p.format.group_instructions or state.lanes >= p.format.group_lanes
        if state.place == OUTSIDE and full:
            return GROUP_END, at
    return MORE, at


@inlined
def _lacks_room(p):
    """NEEDS_ROOM or NEEDS_STATIC_ROOM if the next line may not fit, else MORE."""
    state = p.state
    if len(p.columns.static) <= state.instructions or len(p.columns.base) <= state.accesses:
        return NEEDS_ROOM
    if len(p.columns.lanes) < state.lanes + 32 or len(p.warps.block) <= state.warps:
        return NEEDS_ROOM
    if len(p.keys.hash) <= state.keys or len(p.keys.text) < state.key_bytes + KEY_LIMIT:
        return NEEDS_STATIC_ROOM
    return MORE


@inlined
def _may_be_instruction(character):
    """Not the beginning of `#…`, `warp`, `thread block` or `insts`."""
    return character != 35 and character != 119 and character != 116 and character != 105


@inlined
def _structure_line(text, at, p):
    """A line that is no instruction. Returns _FINE, _COMMENT or an error."""
    if text[at] == 35:  # '#'
        return _hash_line(text, at, p.state)
    end = letters_end(text, at)
    if p.state.place == OUTSIDE:
        return E_NOT_BEGIN
    if p.state.place == BLOCK_BEGUN:
        return _begin_block(text, at, end, p)
    if p.state.place == IN_BLOCK:
        return _begin_warp(text, at, end, p)
    return _begin_instructions(text, at, end, p)


@inlined
def _hash_line(text, at, state):
    """`#BEGIN_TB`, `#END_TB` or a comment."""
    end = token_end(text, at)
    if is_word(text, at, end, _BEGIN_TB):
        if state.place != OUTSIDE:
            return E_NESTED_BEGIN
        state.place = BLOCK_BEGUN
        return _FINE
    if not is_word(text, at, end, _END_TB):
        return _COMMENT
    if state.place == WARP_BEGUN:
        return E_BAD_INSTS
    if state.place == BLOCK_BEGUN:
        return E_NO_COORDINATES
    if state.place == OUTSIDE:
        return E_NOT_BEGIN
    if state.warps == state.first_warp:
        return E_NO_WARPS
    state.place = OUTSIDE
    state.blocks += 1
    return _FINE


@inlined
def _begin_block(text, at, end, p):
    """`thread block = x,y,z`"""
    state, grid = p.state, p.format.grid
    second = skip(text, end)
    second_end = letters_end(text, second)
    if not (is_word(text, at, end, _THREAD) and is_word(text, second, second_end, _BLOCK)):
        return E_NO_COORDINATES
    if not coordinates(text, second_end, state.coordinates):
        return E_BAD_COORDINATES
    for i in range(3):
        if state.coordinates[i] >= grid[i]:
            return E_OUTSIDE_GRID
    x, y, z = state.coordinates[0], state.coordinates[1], state.coordinates[2]
    state.block = x + grid[0] * (y + grid[1] * z)
    state.first_warp = state.warps
    state.place = IN_BLOCK
    return _FINE


@inlined
def _begin_warp(text, at, end, p):
    """`warp = w`"""
    if not is_word(text, at, end, _WARP):
        return E_NOT_WARP
    value, good = only_number(text, end)
    if not good:
        return E_BAD_WARP
    lanes = p.format.threads - value * 32 if value < p.format.threads else 0
    if lanes <= 0:
        return E_NO_SUCH_WARP
    p.state.warp = value
    p.state.lane_limit = 0xFFFFFFFF if lanes >= 32 else (1 << lanes) - 1
    p.state.place = WARP_BEGUN
    return _FINE


@inlined
def _begin_instructions(text, at, end, p):
    """`insts = n`"""
    state, warps = p.state, p.warps
    if not is_word(text, at, end, _INSTS):
        return E_BAD_INSTS
    value, good = only_number(text, end)
    if not good:
        return E_BAD_INSTS
    state.promised = value
    state.left = value
    state.place = IN_WARP if value > 0 else IN_BLOCK
    row = state.warps
    warps.block[row] = state.block
    warps.warp[row] = state.warp
    warps.line[row] = state.line
    warps.start[row] = state.instructions
    warps.access_start[row] = state.accesses
    warps.lane_start[row] = state.lanes
    state.warps = row + 1
    return _FINE


@kernel
def fill_slots(hashes, count, slots):
    """Build the hash table of the first `count` keys again, after it has grown."""
    slots[:] = -1
    size = np.uint64(len(slots) - 1)
    for index in range(count):
        slot = hashes[index] & size
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & size
        slots[slot] = index
