"""Instructions in which the lanes of a warp see each other's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from warplens.frontends.ptx.program import Instruction, Operand, Pair, Sink, Type

from .integers import NotCoveredError, number, ones
from .products import multiply, transpose

if TYPE_CHECKING:
    from .machine import _Warp

WORD = Type("b", 32)
FLAG = Type("pred", 1)


def _pair(operand: Operand) -> tuple[Operand, Operand]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


def shuffle(warp: _Warp, item: Instruction, on: list[int]) -> None:
    """shfl.sync: a lane takes the value of another in its segment, or keeps its own."""
    target, flag = _pair(item.operands[0])
    results = {}
    for lane in on:
        b = warp.value(lane, item.operands[2], WORD) & 31
        c = warp.value(lane, item.operands[3], WORD)
        clamp, segment = c & 31, c >> 8 & 31
        last = (lane & segment) | (clamp & ~segment & 31)
        first = lane & segment
        if item.has("up"):
            source, inside = lane - b, lane - b >= last
        elif item.has("down"):
            source, inside = lane + b, lane + b <= last
        elif item.has("bfly"):
            source, inside = lane ^ b, lane ^ b <= last
        else:
            source = first | (b & ~segment & 31)
            inside = source <= last
        if not inside:
            source = lane
        taken = warp.value(source, item.operands[1], WORD) if source in on else 0
        results[lane] = taken, int(inside)
    for lane, (taken, inside) in results.items():
        warp.write(lane, target, taken)
        warp.write(lane, flag, inside)


def _members(warp: _Warp, item: Instruction, lane: int, on: list[int]) -> list[int]:
    """Lanes that take part with one: those of its member mask, the last operand, if there is one."""
    mask = warp.value(lane, item.operands[2], WORD) if len(item.operands) > 2 else ones(32)
    return [each for each in on if mask >> each & 1]


def vote(warp: _Warp, item: Instruction, on: list[int]) -> None:
    flags = {lane: bool(warp.value(lane, item.operands[1], FLAG)) for lane in on}
    found = {}
    for lane in on:
        members = _members(warp, item, lane, on)
        values = [flags[each] for each in members]
        ballot = sum(1 << each for each in members if flags[each])
        results = {"all": all(values), "any": any(values), "uni": len(set(values)) <= 1, "ballot": ballot}
        found[lane] = int(results[next(each for each in item.modifiers if each in results)])
    for lane, value in found.items():
        warp.write(lane, item.operands[0], value)


def active_mask(warp: _Warp, item: Instruction, on: list[int]) -> None:
    for lane in on:
        warp.write(lane, item.operands[0], sum(1 << each for each in on))


def elect(warp: _Warp, item: Instruction, on: list[int]) -> None:
    """The manual leaves open which lane it is; GPUs take the first."""
    target, flag = _pair(item.operands[0])
    for lane in on:
        members = [each for each in on if warp.value(lane, item.operands[1], WORD) >> each & 1]
        warp.write(lane, target, members[0])
        warp.write(lane, flag, int(lane == members[0]))


def match(warp: _Warp, item: Instruction, on: list[int]) -> None:
    target, flag = _pair(item.operands[0])
    kind = item.types[-1]
    values = {lane: warp.value(lane, item.operands[1], kind) for lane in on}
    groups = {lane: _members(warp, item, lane, on) for lane in on}
    for lane, members in groups.items():
        alike = sum(1 << each for each in members if values[each] == values[lane])
        if item.has("any"):
            warp.write(lane, target, alike)
        else:
            same = alike == sum(1 << each for each in members)
            warp.write(lane, target, alike if same else 0)
            warp.write(lane, flag, int(same))


def reduce(warp: _Warp, item: Instruction, on: list[int]) -> None:
    kind = item.types[-1]
    if kind.is_float:
        raise NotCoveredError(item.name)
    name = next(each for each in item.modifiers if each in ("add", "min", "max", "and", "or", "xor"))
    values = {lane: number(warp.value(lane, item.operands[1], kind), kind) for lane in on}
    groups = {lane: _members(warp, item, lane, on) for lane in on}
    for lane, members in groups.items():
        result = values[members[0]]
        for each in (values[other] for other in members[1:]):
            result = {
                "add": result + each,
                "min": min(result, each),
                "max": max(result, each),
                "and": result & each,
                "or": result | each,
                "xor": result ^ each,
            }[name]
        warp.write(lane, item.operands[0], result & ones(32))


OPERATIONS: dict[str, Callable[[_Warp, Instruction, list[int]], None]] = {
    "shfl": shuffle,
    "vote": vote,
    "activemask": active_mask,
    "match": match,
    "elect": elect,
    "redux": reduce,
    "mma": multiply,
    "movmatrix": transpose,
}
