"""Machine code of waits at mbarriers and of bulk copies, which loop where no work is repeated.

The compiler tries a wait once in its place, and again in a loop behind the kernel; the first try has the line of
whatever comes before it. A copy that one lane is elected for is a loop over the lanes that want one. PTX tries a wait
again until the phase is complete. None of these is a loop of the kernel: a trace has each wait and each copy once.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ..traces import CLASS_NAMES, StaticTable
from ..traces.machine_code import TracedCode
from .control_flow import natural_loops
from .mbarriers import is_wait

#: Instructions between a first try and its branch, at most.
_NEAR = 16
_ONLY = ("atomic_shared", "control")


def straightened(code: TracedCode, ptx: StaticTable) -> TracedCode:
    """Machine code whose waits stand for those of the PTX, without loops that only wait or elect."""
    waits = frozenset(i for i, opcode in enumerate(ptx.opcode) if is_wait(opcode))
    if not waits:
        return code
    return replace(
        code,
        origins=_first_tries(code, waits),
        targets=tuple(-1 if _elects(code, i) else target for i, target in enumerate(code.targets)),
        ptx_blocks=_without_retries(code, ptx, waits),
    )


def _first_tries(code: TracedCode, waits: frozenset[int]) -> tuple[int, ...]:
    """Origins; a first try has that of the try to which it branches."""
    found = list(code.origins)
    for i, opcode in enumerate(code.opcodes):
        if opcode == "SYNCS" and found[i] not in waits:
            again = _next(code, "BRA", i + 1)
            second = _next(code, "SYNCS", code.targets[again]) if again >= 0 else -1
            if second > i and code.origins[second] in waits:
                found[i] = code.origins[second]
    return tuple(found)


def _next(code: TracedCode, opcode: str, begin: int) -> int:
    """The next such instruction near a place, unless there is another wait or branch before it; or -1."""
    for i in range(max(begin, 0), min(begin + _NEAR, len(code.opcodes))):
        if code.opcodes[i] in ("BRA", "SYNCS"):
            return i if code.opcodes[i] == opcode else -1
    return -1


def _elects(code: TracedCode, i: int) -> bool:
    """Whether an instruction goes back to elect the next lane."""
    target = code.targets[i]
    return 0 <= target < i and "ELECT" in code.opcodes[target:i] and i - target <= _NEAR


def _without_retries(code: TracedCode, ptx: StaticTable, waits: frozenset[int]) -> tuple[tuple[int, ...], ...]:
    """The blocks of the PTX; none goes back just to wait again."""
    blocks = code.ptx_blocks
    firsts = sorted({each[0] for each in blocks} | {code.ptx_size})
    ends = dict(pairwise(firsts))
    removed = set()
    for loop in natural_loops([each[1:] for each in blocks]).loops:
        inside = [i for block in loop.blocks for i in range(blocks[block][0], ends.get(blocks[block][0], 0))]
        only = all(CLASS_NAMES[ptx.class_id[i]] in _ONLY for i in inside)
        if only and not waits.isdisjoint(inside):
            removed |= {(block, loop.header) for block in loop.blocks}
    return tuple(
        (each[0], *(following for following in each[1:] if (block, following) not in removed))
        for block, each in enumerate(blocks)
    )
