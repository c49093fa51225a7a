"""Control flow of a SASS kernel: how each instruction steers a lane, and which records can come next.

Between two records, a lane's side of a branch is known if only one side can lead to
the lane's next record. `reach` holds, for each instruction, the set of records that
can come first from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ._program import (
    BRANCH,
    BREAK_REGION,
    CALL,
    ENTER_REGION,
    EXIT,
    INDIRECT,
    JUMP,
    LEAVE_REGION,
    PERHAPS,
    PLAIN,
    RETURN,
    SILENT,
    SURE,
    Program,
)
from .disassembly import SassInstruction, SassKernel

#: Kinds of patched instructions, as Compute Sanitizer numbers them.
KIND_EXIT, KIND_GLOBAL, KIND_SHARED, KIND_LOCAL, KIND_BARRIER = 2, 3, 4, 5, 6
KIND_SHUFFLE, KIND_CALL, KIND_RETURN, KIND_ASYNC_COPY, KIND_REMOTE, KIND_MATRIX = 8, 9, 10, 14, 17, 19
KIND_BULK_IN, KIND_BULK_OUT = 30, 35
ADDRESS_KINDS = frozenset(
    (
        *(KIND_GLOBAL, KIND_SHARED, KIND_LOCAL, KIND_ASYNC_COPY, KIND_REMOTE, KIND_MATRIX),
        *(KIND_BULK_IN, KIND_BULK_OUT),
    )
)
#: Mnemonics of which every execution leaves a record if one of the kinds is patched (observed on an H200).
_SURE = {
    KIND_EXIT: ("EXIT",),
    KIND_GLOBAL: ("LDG", "STG", "ATOMG", "RED", "REDG", "LD", "ST", "ATOM"),
    KIND_SHARED: ("LDS", "STS", "ATOMS"),
    KIND_LOCAL: ("LDL", "STL"),
    KIND_SHUFFLE: ("SHFL",),
    KIND_CALL: ("CALL",),
    KIND_RETURN: ("RET",),
    KIND_ASYNC_COPY: ("LDGSTS",),
    KIND_MATRIX: ("LDSM", "STSM"),
}
_KIND_OF = {mnemonic: kind for kind, mnemonics in _SURE.items() for mnemonic in mnemonics}


def is_conditional(item: SassInstruction) -> bool:
    """Whether lanes may skip the instruction or, for a branch, not take it."""
    if item.guard:
        return True
    if item.mnemonic == "BRA":
        return len(item.operands) > 1 or item.opcode.startswith(("BRA.DIV", "BRA.CONV"))
    return item.mnemonic == "BREAK" and len(item.operands) > 1


def recording_of(
    item: SassInstruction, kinds: Collection[int], seen: Collection[int], silent: Collection[str]
) -> int:
    """Whether every execution leaves a record, some may, or none; `silent` mnemonics left none at all."""
    kind = _KIND_OF.get(item.mnemonic)
    if item.mnemonic == "BAR" and ".SYNC" in item.opcode:
        kind = KIND_BARRIER
    if kind is not None and kind in kinds and item.mnemonic not in silent:
        return SURE
    return PERHAPS if item.pc in seen else SILENT


def silent_mnemonics(kernel: SassKernel, seen: Collection[int], executed: Mapping[int, int]) -> set[str]:
    """Mnemonics that should have left records and ran, according to the counts, but left none."""
    ran = {item.mnemonic for item in kernel.instructions if executed.get(item.pc, 0) and not item.guard}
    recorded = {item.mnemonic for item in kernel.instructions if item.pc in seen}
    return (ran & set(_KIND_OF)) - recorded


def recordings(
    kernel: SassKernel, kinds: Collection[int], seen: Collection[int], silent: Collection[str] = ()
) -> Any:
    """`recording_of` every instruction; `seen` are the offsets with records, `kinds` the patched kinds."""
    return np.array([recording_of(item, kinds, seen, silent) for item in kernel.instructions], dtype=np.uint8)


def build_program(kernel: SassKernel, recorded: Any, has_access: Any) -> Program:
    """The arrays of a kernel."""
    items = kernel.instructions
    n = len(items)
    action = np.array([_action(item) for item in items], dtype=np.uint8)
    conditional = np.array([is_conditional(item) for item in items], dtype=np.bool_)
    targets = [[kernel.index_of(pc) for pc in item.targets] for item in items]
    target = np.full(n, -1, dtype=np.int64)
    for i in range(n):
        if action[i] in (BRANCH, CALL, ENTER_REGION) and targets[i]:
            target[i] = targets[i][0]
        if action[i] == BRANCH and not conditional[i]:
            action[i] = JUMP
    region, regions = _regions(items, action, target)
    indirect_start = np.zeros(n + 1, dtype=np.int64)
    lists = [targets[i] if action[i] == INDIRECT else [] for i in range(n)]
    np.cumsum([len(each) for each in lists], out=indirect_start[1:])
    reach_bit = np.full(n, -1, dtype=np.int64)
    reach_bit[recorded != SILENT] = np.arange(np.count_nonzero(recorded != SILENT))
    special = (action != PLAIN) | (recorded != SILENT)
    return Program(
        action=action,
        conditional=conditional,
        recorded=recorded,
        target=target,
        region=region,
        run_end=_run_ends(special),
        indirect_start=indirect_start,
        indirect_target=np.array([each for row in lists for each in row], dtype=np.int64),
        reach=_reach(action, conditional, recorded, target, lists, reach_bit, back=True),
        ahead=_reach(action, conditional, recorded, target, lists, reach_bit, back=False),
        reach_bit=reach_bit,
        has_access=np.ascontiguousarray(has_access, dtype=np.bool_),
        regions=regions,
    )


def _action(item: SassInstruction) -> int:
    name = item.mnemonic
    if name in ("BRA", "JMP"):
        return BRANCH if item.targets else PLAIN
    if name in ("BRX", "BRXU", "JMX", "JMXU"):
        return INDIRECT
    return {
        "BSSY": ENTER_REGION,
        "BSYNC": LEAVE_REGION,
        "BREAK": BREAK_REGION,
        "CALL": CALL,
        "RET": RETURN,
        "EXIT": EXIT,
    }.get(name, PLAIN)


def _regions(items: tuple[SassInstruction, ...], action: Any, target: Any) -> tuple[Any, int]:
    """Region number of each instruction. A barrier and the instruction after its end identify a region."""
    region = np.full(len(items), -1, dtype=np.int64)
    numbers: dict[tuple[str, int], int] = {}
    latest: dict[str, int] = {}
    for i, item in enumerate(items):
        if action[i] not in (ENTER_REGION, LEAVE_REGION, BREAK_REGION):
            continue
        barrier = next((each for each in item.operands if each.startswith("B") and each[1:].isdigit()), "")
        if action[i] == ENTER_REGION:
            latest[barrier] = region[i] = numbers.setdefault((barrier, int(target[i])), len(numbers))
        elif action[i] == LEAVE_REGION:
            exact = [numbers[key] for key in ((barrier, i + 1), (barrier, i)) if key in numbers]
            region[i] = exact[0] if exact else latest.get(barrier, -1)
        else:
            region[i] = latest.get(barrier, -1)
    return region, len(numbers)


def _run_ends(special: Any) -> Any:
    ends = np.empty(len(special), dtype=np.int64)
    following = len(special)
    for i in range(len(special) - 1, -1, -1):
        if special[i]:
            following = i
        ends[i] = following
    return ends


def _reach(
    action: Any, conditional: Any, recorded: Any, target: Any, lists: list[list[int]], bit: Any, *, back: bool
) -> Any:
    """Sets of first records per instruction, as bits, by fixed-point iteration; with or without backward edges."""
    n = len(action)
    own = [0 if recorded[i] == SILENT else 1 << int(bit[i]) for i in range(n)]
    following = [
        () if recorded[i] == SURE and not (conditional[i] and action[i] != RETURN) else _following(i, *row)
        for i, row in enumerate(zip(action, conditional, target, lists, strict=True))
    ]
    sets = [0] * (n + 1)
    changed = True
    while changed:
        changed = False
        for i in range(n - 1, -1, -1):
            found = own[i]
            for j in following[i]:
                found |= sets[j] if back or j > i else 0
            if found != sets[i]:
                sets[i] = found
                changed = True
    words = max(-(-int(bit.max(initial=-1) + 1) // 64), 1)
    rows = b"".join(each.to_bytes(words * 8, "little") for each in sets[:n])
    return np.frombuffer(rows, dtype=np.uint64).reshape(n, words).copy()


def _following(i: int, action: int, conditional: bool, target: int, indirect: list[int]) -> tuple[int, ...]:
    """Possible next instructions of a lane after instruction i."""
    if action == JUMP:
        return (target,)
    if action in (BRANCH, CALL) and target >= 0:
        return i + 1, target
    if action == INDIRECT and indirect:
        return tuple(indirect)
    if action in (EXIT, RETURN) and not conditional:
        return ()
    return (i + 1,)
