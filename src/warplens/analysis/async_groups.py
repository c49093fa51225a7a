"""Groups of asynchronous copies and of warpgroups' products: what starts work, marks a group, or waits for some."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..traces import StaticTable
from .machine_groups import KINDS, PTX_KINDS, PTX_WAIT_FOR_ALL


class GroupKind(IntEnum):
    """Kinds of groups, in the order of `KINDS`."""

    COPIES = 0
    PRODUCTS = 1


class GroupRole(IntEnum):
    """What an instruction does to groups. `JOINS` starts work of the group that was marked last."""

    NONE = 0
    STARTS = 1
    JOINS = 2
    MARKS = 3
    AWAITS = 4


class GroupRoles(NamedTuple):
    """Of each static instruction: its role, the kind of its groups, and how many of the last may stay under way.

    A wait with -1 is even for work that belongs to no group yet.
    """

    role: NDArray[np.int64]
    kind: NDArray[np.int64]
    staying: NDArray[np.int64]


def group_roles(static: StaticTable) -> GroupRoles:
    """The roles of PTX and of machine code. Work that nothing waits for by group has none."""
    found = GroupRoles(*(np.zeros(len(static), dtype=np.int64) for _ in GroupRoles._fields))
    for index, opcode in enumerate(static.opcode):
        role, kind, staying = _role_of(opcode, int(static.immediate[index]))
        if (
            role in (GroupRole.STARTS, GroupRole.JOINS)
            and opcode.startswith("cp.")
            and not static.access_bytes[index]
        ):
            role = GroupRole.NONE
        found.role[index], found.kind[index], found.staying[index] = role, kind, staying
    for kind in GroupKind:
        if not ((found.kind == kind) & (found.role == GroupRole.AWAITS)).any():
            found.role[found.kind == kind] = GroupRole.NONE
    return found


def _role_of(opcode: str, immediate: int) -> tuple[GroupRole, GroupKind, int]:
    name, _, left = opcode.rpartition(".")
    mnemonic = opcode.partition(".")[0]
    if opcode.startswith(PTX_WAIT_FOR_ALL):
        return GroupRole.AWAITS, GroupKind.COPIES, -1
    for kind, sass, ptx in zip(GroupKind, KINDS, PTX_KINDS, strict=True):
        if mnemonic in sass.starts or opcode.startswith(ptx.starts):
            joins = sass.marked_first and mnemonic in sass.starts
            return GroupRole.JOINS if joins else GroupRole.STARTS, kind, 0
        if opcode == sass.mark or opcode.startswith(ptx.mark):
            return GroupRole.MARKS, kind, 0
        if name == sass.wait and left.isdigit():
            return GroupRole.AWAITS, kind, int(left)
        if opcode.startswith(ptx.wait):
            return GroupRole.AWAITS, kind, immediate
    return GroupRole.NONE, GroupKind.COPIES, 0
