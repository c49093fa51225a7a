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


def vote(warp: _Warp, item: Instruction, on: list[int]) -> None:
    flags = {lane: bool(warp.value(lane, item.operands[1], FLAG)) for lane in on}
    ballot = sum(1 << lane for lane in on if flags[lane])
    values = flags.values()
    results = {"all": all(values), "any": any(values), "uni": len(set(values)) <= 1, "ballot": ballot}
    name = next(each for each in item.modifiers if each in results)
    for lane in on:
        warp.write(lane, item.operands[0], int(results[name]))


def active_mask(warp: _Warp, item: Instruction, on: list[int]) -> None:
    for lane in on:
        warp.write(lane, item.operands[0], sum(1 << each for each in on))


def match(warp: _Warp, item: Instruction, on: list[int]) -> None:
    target, flag = _pair(item.operands[0])
    kind = item.types[-1]
    values = {lane: warp.value(lane, item.operands[1], kind) for lane in on}
    everyone = sum(1 << lane for lane in on)
    same = len(set(values.values())) == 1
    for lane in on:
        if item.has("any"):
            warp.write(lane, target, sum(1 << each for each in on if values[each] == values[lane]))
        else:
            warp.write(lane, target, everyone if same else 0)
            warp.write(lane, flag, int(same))


def reduce(warp: _Warp, item: Instruction, on: list[int]) -> None:
    kind = item.types[-1]
    if kind.is_float:
        raise NotCoveredError(item.name)
    name = next(each for each in item.modifiers if each in ("add", "min", "max", "and", "or", "xor"))
    values = [number(warp.value(lane, item.operands[1], kind), kind) for lane in on]
    result = values[0] if values else 0
    for each in values[1:]:
        result = {
            "add": result + each,
            "min": min(result, each),
            "max": max(result, each),
            "and": result & each,
            "or": result | each,
            "xor": result ^ each,
        }[name]
    for lane in on:
        warp.write(lane, item.operands[0], result & ones(32))


OPERATIONS: dict[str, Callable[[_Warp, Instruction, list[int]], None]] = {
    "shfl": shuffle,
    "vote": vote,
    "activemask": active_mask,
    "match": match,
    "redux": reduce,
    "mma": multiply,
    "movmatrix": transpose,
}
