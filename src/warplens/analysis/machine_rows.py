"""Static instructions of machine code that stands for PTX: classes, accesses, and scoreboards as registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..frontends.sass_opcodes import decode_opcode
from ..traces import CLASS_NAMES, SPACES, StaticInstruction, StaticTable
from ..traces.machine_code import TracedCode

#: Fields of the control bits: which scoreboard the result sets, and those that the instruction waits for.
_SET_SHIFT, _WAIT_SHIFT, _SCOREBOARDS = 5, 11, 6
#: Scoreboards are the registers from here on.
_FIRST_SCOREBOARD = 249
_PLAIN = ("load_", "store_")
LOCAL_ACCESSES = ("load_local", "store_local")
#: Operations whose names tell how many bytes a lane accesses.
_SIZED = ("LD", "LDG", "LDS", "LDL", "ST", "STG", "STS", "STL")


def is_access(name: str) -> bool:
    """Whether a class accesses memory or waits at a barrier: the compiler keeps these as they are."""
    return name.startswith((*_PLAIN, "atomic_", "async_", "barrier")) and name != "load_constant"


def is_arithmetic(name: str) -> bool:
    """Whether a class computes what PTX computes with one instruction, too."""
    return name.startswith(("fp", "sfu", "tensor", "conversion"))


def same_access(mine: str, theirs: str) -> bool:
    """Whether classes are both loads, both stores, both atomics or both copies; generic ones reach any space."""
    return mine.partition("_")[0] == theirs.partition("_")[0]


def machine_rows(code: TracedCode, ptx: StaticTable) -> list[StaticInstruction]:
    """A row per machine instruction. An access has the space and bytes of the PTX or the spill that it stands for.

    The L1 keeps what stands for neither, as it keeps shared memory.
    """
    rows = []
    for index, (opcode, control, origin) in enumerate(zip(code.opcodes, code.control, code.origins, strict=True)):
        known = decode_opcode(opcode)
        name, space, width, line = known.instruction_class, known.space, 0, 0
        if 0 <= origin < len(ptx):
            line, theirs = int(ptx.line[origin]), CLASS_NAMES[ptx.class_id[origin]]
            own = int(ptx.access_bytes[origin])
            if own and space != "none" and same_access(name, theirs):
                width = max(known.access_bytes, own) if name.startswith(_PLAIN) else own
                name, space = theirs, SPACES[ptx.space[origin]]
            elif name.startswith("tensor") and theirs.startswith("tensor"):
                name = theirs
        if name in LOCAL_ACCESSES and not width:
            width = known.access_bytes
            if index not in code.spills:
                name, space = name.replace("local", "shared"), "shared"
        number, waits = control >> _SET_SHIFT & 7, control >> _WAIT_SHIFT
        rows.append(
            StaticInstruction(
                pc=16 * index,
                opcode=opcode,
                instruction_class=name,
                space=space,
                access_bytes=width,
                destinations=() if number >= _SCOREBOARDS else (_FIRST_SCOREBOARD + number,),
                sources=tuple(_FIRST_SCOREBOARD + bit for bit in range(_SCOREBOARDS) if waits >> bit & 1),
                line=line,
            )
        )
    return rows


def spilling(code: TracedCode, ptx: StaticTable) -> list[int]:
    """Machine instructions that access local memory where the PTX does not: they spill registers to the stack."""
    found = []
    for index, (offset, origin) in enumerate(zip(code.offsets, code.origins, strict=False)):
        name = decode_opcode(code.opcodes[index]).instruction_class
        known = 0 <= origin < len(ptx) and ptx.access_bytes[origin]
        if offset >= 0 and not (known and same_access(name, CLASS_NAMES[ptx.class_id[origin]])):
            found.append(index)
    return found


def pieces_of(code: TracedCode, ptx: StaticTable) -> dict[int, int]:
    """PTX accesses that are several narrow ones in machine code (fragments of matrices), and how many."""
    found = {}
    for opcode, origin in zip(code.opcodes, code.origins, strict=True):
        known = decode_opcode(opcode)
        if 0 <= origin < len(ptx) and opcode.partition(".")[0] in _SIZED:
            width, own = known.access_bytes, int(ptx.access_bytes[origin])
            if width < own and same_access(known.instruction_class, CLASS_NAMES[ptx.class_id[origin]]):
                found[origin] = own // width
    return found


def silent_rows(rows: list[StaticInstruction]) -> list[StaticInstruction]:
    """The rows as they are where a guard keeps them from doing anything."""
    return [replace(row, instruction_class="move", space="none", access_bytes=0, destinations=()) for row in rows]


def joined_tables(tables: Sequence[StaticTable]) -> StaticTable:
    """The rows of several tables, one after another."""

    def joined(name: str) -> Any:
        return np.concatenate([getattr(each, name) for each in tables])

    def offsets(name: str, values: str) -> Any:
        before = np.cumsum([0, *(len(getattr(each, values)) for each in tables)])
        moved = [getattr(each, name)[:-1] + base for each, base in zip(tables, before[:-1], strict=True)]
        return np.concatenate([*moved, before[-1:]])

    names = ("pc", "class_id", "space", "access_bytes", "destinations", "sources", "line", "immediate")
    return StaticTable(
        opcode=tuple(opcode for each in tables for opcode in each.opcode),
        destination_offsets=offsets("destination_offsets", "destinations"),
        source_offsets=offsets("source_offsets", "sources"),
        **{name: joined(name) for name in names},
    )
