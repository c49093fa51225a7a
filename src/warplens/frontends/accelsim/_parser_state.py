"""What the compiled parser of kernel traces reads and changes, as records with named fields."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# What `parse` ended with.
MORE, GROUP_END, NEEDS_ROOM, NEEDS_STATIC_ROOM, NOTE, FAILED = range(6)

# Where in the file the parser is.
OUTSIDE, BLOCK_BEGUN, IN_BLOCK, WARP_BEGUN, IN_WARP = range(5)

# What can be wrong; the texts are in messages.py.
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

#: Most bytes in the static part of a line, and most registers that it may name.
KEY_LIMIT = 1024
REGISTER_LIMIT = 64

_I64 = np.int64
STATE = np.dtype(
    [
        ("place", _I64),
        ("line", _I64),
        ("block", _I64),
        ("coordinates", _I64, (3,)),  # of the block
        ("warp", _I64),
        ("promised", _I64),  # instructions of the warp, and those still to come
        ("left", _I64),
        ("lane_limit", _I64),  # the lanes that the warp has
        ("blocks", _I64),  # ended so far, in all groups
        ("error", _I64),
        ("detail", _I64),  # a number for the message, or where a note begins
        ("instructions", _I64),  # used rows of the columns
        ("accesses", _I64),
        ("lanes", _I64),
        ("warps", _I64),
        ("first_warp", _I64),  # of the block
        ("keys", _I64),  # used rows and bytes of the keys
        ("key_bytes", _I64),
    ],
    align=True,
)


class TraceFormat(NamedTuple):
    """What the header says about the lines, and how large a group becomes."""

    version: int
    lineinfo: bool
    grid: tuple[int, int, int]
    threads: int
    group_instructions: int
    group_lanes: int


class WarpColumns(NamedTuple):
    """A row per warp."""

    block: Any
    warp: Any
    start: Any
    access_start: Any
    lane_start: Any
    line: Any


class InstructionColumns(NamedTuple):
    """Rows of instructions, of their accesses and of listed addresses."""

    static: Any
    mask: Any
    base: Any
    stride: Any
    lanes: Any


class Keys(NamedTuple):
    """Static parts of lines, found by their bytes in a hash table."""

    start: Any
    hash: Any
    line: Any
    text: Any
    slots: Any
    scratch: Any
    """The key of the line that is being read."""


class Parser(NamedTuple):
    """Everything that `parse` works on."""

    state: Any
    format: TraceFormat
    warps: WarpColumns
    columns: InstructionColumns
    keys: Keys
