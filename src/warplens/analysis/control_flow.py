"""Loops of a control-flow graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Loop:
    """A natural loop: blocks that a header dominates and from which it is reached again."""

    header: int
    blocks: frozenset[int]
    #: Index of the loop around it, or -1.
    parent: int = -1


@dataclass(frozen=True)
class Loops:
    """The loops of a graph, outer ones first, and the innermost loop of each block (or -1)."""

    loops: tuple[Loop, ...]
    innermost: tuple[int, ...]
    reachable: frozenset[int]

    def chain(self, loop: int) -> list[int]:
        """A loop and those around it, from the inside out."""
        found = []
        while loop >= 0:
            found.append(loop)
            loop = self.loops[loop].parent
        return found


def natural_loops(successors: Sequence[Sequence[int]]) -> Loops:
    """The loops of the graph whose entry is block 0; loops that share a header are one."""
    order = _reverse_post_order(successors)
    rank = {block: position for position, block in enumerate(order)}
    before: list[list[int]] = [[] for _ in successors]
    for block in order:
        for each in successors[block]:
            before[each].append(block)
    dominator = _dominators(order, rank, before)
    bodies: dict[int, set[int]] = {}
    for block in order:
        for header in successors[block]:
            if _dominates(header, block, dominator, rank):
                body = bodies.setdefault(header, {header})
                waiting = [block]
                while waiting:
                    each = waiting.pop()
                    if each not in body:
                        body.add(each)
                        waiting += before[each]
    ordered = sorted(bodies.items(), key=lambda item: (-len(item[1]), rank[item[0]]))
    innermost = [-1] * len(successors)
    loops: list[Loop] = []
    for header, body in ordered:
        loops.append(Loop(header, frozenset(body), innermost[header]))
        for block in body:
            innermost[block] = len(loops) - 1
    return Loops(tuple(loops), tuple(innermost), frozenset(order))


def _reverse_post_order(successors: Sequence[Sequence[int]]) -> list[int]:
    seen = {0} if successors else set()
    found: list[int] = []
    stack = [(block, iter(successors[block])) for block in seen]
    while stack:
        block, rest = stack[-1]
        following = next((each for each in rest if each not in seen), None)
        if following is None:
            found.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors[following])))
    return found[::-1]


def _dominators(order: list[int], rank: dict[int, int], before: list[list[int]]) -> dict[int, int]:
    """The immediate dominator of each block (Cooper, Harvey and Kennedy's iteration)."""
    found = {order[0]: order[0]} if order else {}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new = -1
            for each in before[block]:
                if each not in found:
                    continue
                if new < 0:
                    new = each
                    continue
                other = each
                while new != other:
                    while rank[new] > rank[other]:
                        new = found[new]
                    while rank[other] > rank[new]:
                        other = found[other]
            if found.get(block) != new:
                found[block] = new
                changed = True
    return found


def _dominates(header: int, block: int, dominator: dict[int, int], rank: dict[int, int]) -> bool:
    while rank[block] > rank[header]:
        block = dominator[block]
    return block == header
