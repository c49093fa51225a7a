"""Dominators and natural loops of a flat kernel, for counting instructions without running them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import PtxError
from .flat import FlatKernel


@dataclass(eq=False)
class NaturalLoop:
    """Blocks that lead back to `head`, through which every entry passes."""

    number: int
    head: int
    blocks: set[int]
    latches: list[int]
    parent: NaturalLoop | None = None
    #: (block, successor outside) of each exit.
    exits: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class LoopNest:
    """The loops of a kernel, outer ones first, and the dominators."""

    order: list[int]
    """Blocks in reverse post-order: each after its predecessors, except along back edges."""
    dominator: list[int]
    loops: list[NaturalLoop]
    innermost: list[NaturalLoop | None]
    predecessors: list[list[int]]

    def dominates(self, a: int, b: int) -> bool:
        while b != a and b != self.dominator[b]:
            b = self.dominator[b]
        return a == b


def loop_nest(kernel: FlatKernel) -> LoopNest:
    """Dominators (Cooper, Harvey and Kennedy) and natural loops; a loop with two entries is an error."""
    blocks = kernel.blocks
    order = _reverse_post_order(kernel)
    rank = {number: position for position, number in enumerate(order)}
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for successor in dict.fromkeys(block.successors):
            before[successor].append(block.number)
    dominator = _dominators(order, rank, before)
    nest = LoopNest(order, dominator, [], [None] * len(blocks), before)
    for head in order:
        latches = [each for each in before[head] if rank[each] >= rank[head]]
        if not latches:
            continue
        for latch in latches:
            if not nest.dominates(head, latch):
                place = blocks[head].instructions[0].instruction if blocks[head].instructions else None
                where = f"line {place.line}" if place else f"block {head}"
                raise PtxError(
                    f"{kernel.module.name}: {where}: this loop is entered in two places, so its trips cannot be "
                    "counted statically; execute the kernel instead"
                )
        inside, waiting = {head}, list(latches)
        while waiting:
            number = waiting.pop()
            if number not in inside:
                inside.add(number)
                waiting += before[number]
        exits = [(each, to) for each in sorted(inside) for to in dict.fromkeys(blocks[each].successors)]
        loop = NaturalLoop(len(nest.loops) + 1, head, inside, latches, nest.innermost[head])
        loop.exits = [(each, to) for each, to in exits if to not in inside]
        nest.loops.append(loop)
        for number in inside:  # heads come in reverse post-order, so an inner loop comes after its outer one
            nest.innermost[number] = loop
    return nest


def _reverse_post_order(kernel: FlatKernel) -> list[int]:
    seen, order = {0}, []
    stack = [(0, 0)]
    while stack:
        number, position = stack.pop()
        # The last successor first, so that fall-through code precedes branch targets.
        successors = kernel.blocks[number].successors[::-1]
        if position == len(successors):
            order.append(number)
            continue
        stack.append((number, position + 1))
        target = successors[position]
        if target not in seen:
            seen.add(target)
            stack.append((target, 0))
    return order[::-1]


def _dominators(order: list[int], rank: dict[int, int], before: list[list[int]]) -> list[int]:
    found = [-1] * len(order)
    found[0] = 0
    changed = True
    while changed:
        changed = False
        for number in order[1:]:
            known = [each for each in before[number] if found[each] >= 0]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    while rank[new] > rank[other]:
                        new = found[new]
                    while rank[other] > rank[new]:
                        other = found[other]
            if found[number] != new:
                found[number] = new
                changed = True
    return found
