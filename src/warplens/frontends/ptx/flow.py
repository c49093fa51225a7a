"""Control flow of a flat kernel: reconvergence points and liveness of registers."""

from __future__ import annotations

import functools
import heapq
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from .flat import BasicBlock, FlatKernel

#: Stands for "after the end of the kernel" among block numbers.
END = -1


@dataclass(frozen=True, eq=False)
class Flow:
    """What code generation and the trace need to know of a kernel's control flow."""

    kernel: FlatKernel

    @cached_property
    def post_dominator(self) -> list[int]:
        """The immediate post-dominator of each block, or END (Cooper, Harvey and Kennedy's iteration)."""
        blocks = self.kernel.blocks
        ways = _ways(blocks)
        order = _post_order(ways)  # on the reversed graph, from the end
        rank = {number: position for position, number in enumerate(order)}
        found: dict[int, int] = {END: END}
        rank[END] = len(order)

        def meet(a: int, b: int) -> int:
            while a != b:
                while rank[a] < rank[b]:
                    a = found[a]
                while rank[b] < rank[a]:
                    b = found[b]
            return a

        changed = True
        while changed:
            changed = False
            for number in reversed(order):
                known = [each for each in ways[number] if each in found]
                if not known:
                    continue
                new = known[0]
                for other in known[1:]:
                    new = meet(new, other)
                if found.get(number) != new:
                    found[number] = new
                    changed = True
        # A block that can never reach the end (an endless loop) has none. Nor does one whose lanes would reconverge
        # only to exit: while they wait there, they would not count as gone at barriers.
        meeting = [found.get(number, END) for number in range(len(blocks))]
        return [END if each == END or _only_leaves(blocks[each]) else each for each in meeting]

    @cached_property
    def live_in(self) -> list[set[str]]:
        """Registers whose value at the start of a block is read later."""
        blocks = self.kernel.blocks
        used: list[set[str]] = []
        killed: list[set[str]] = []
        for block in blocks:
            read: set[str] = set()
            written: set[str] = set()
            for item in block.instructions:
                read.update(name for name in item.sources if name not in written)
                if item.guard is None:
                    written.update(item.destinations)
                else:  # inactive lanes keep the old value
                    read.update(name for name in item.destinations if name not in written)
            used.append(read)
            killed.append(written)
        # Sets are bits of an integer while they grow: a kernel of thousands of branches has millions of members.
        uses, kills = ([self._bits(each) for each in sets] for sets in (used, killed))
        live = list(uses)
        waiting = list(range(len(blocks)))
        before: list[list[int]] = [[] for _ in blocks]
        for block in blocks:
            for successor in block.successors:
                before[successor].append(block.number)
        while waiting:
            number = waiting.pop()
            out = 0
            for successor in blocks[number].successors:
                out |= live[successor]
            new = uses[number] | (out & ~kills[number])
            if new != live[number]:
                live[number] = new
                waiting += before[number]
        return self._sets(live)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """A bit for each register that occurs."""
        items = self.kernel.instructions
        names = dict.fromkeys(name for item in items for name in (*item.sources, *item.destinations))
        return {name: position for position, name in enumerate(names)}

    def _bits(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= 1 << self._numbers[name]
        return found

    def _sets(self, found: list[int]) -> list[set[str]]:
        """The names that bits stand for; blocks with the same bits share a set."""
        known: dict[int, set[str]] = {}
        for bits in found:
            if bits not in known:
                digits = bin(bits)[:1:-1]  # the lowest bit first
                known[bits] = {name for name, digit in zip(self._numbers, digits, strict=False) if digit == "1"}
        return [known[bits] for bits in found]

    def live_out(self, number: int) -> set[str]:
        found: set[str] = set()
        for successor in self.kernel.blocks[number].successors:
            found |= self.live_in[successor]
        return found

    @cached_property
    def loop_heads(self) -> set[int]:
        """Targets of backward edges (in depth-first order); every cycle contains one."""
        heads: set[int] = set()
        state = [0] * len(self.kernel.blocks)
        stack: list[tuple[int, int]] = [(0, 0)]
        state[0] = 1
        while stack:
            number, position = stack.pop()
            successors = self.kernel.blocks[number].successors
            if position == len(successors):
                state[number] = 2
                continue
            stack.append((number, position + 1))
            target = successors[position]
            if state[target] == 1:
                heads.add(target)
            elif state[target] == 0:
                state[target] = 1
                stack.append((target, 0))
        return heads

    @cached_property
    def divergent_branches(self) -> list[int]:
        """Blocks that end with a branch on which lanes can diverge."""
        return [block.number for block in self.kernel.blocks if len(set(block.successors)) > 1]

    @cached_property
    def must_keep(self) -> list[set[str]]:
        """Per block: registers whose writes must not change inactive lanes.

        This applies while other lanes wait with a value that is still needed: at the
        reconvergence point of a branch, or at the side that runs second.
        """
        blocks = self.kernel.blocks
        live = [self._bits(each) for each in self.live_in]
        waiting_at: dict[int, dict[int, int]] = {}  # per reconvergence point: what waits while each side runs
        for number in self.divergent_branches:
            meeting = self.post_dominator[number]
            sides = list(dict.fromkeys(blocks[number].successors))
            for side in sides:
                waiting = live[meeting] if meeting != END else 0
                for other in sides:
                    if other != side:
                        waiting |= live[other]
                if waiting and side != meeting:
                    starts = waiting_at.setdefault(meeting, {})
                    starts[side] = starts.get(side, 0) | waiting
        found = [0] * len(blocks)
        reached: dict[int, tuple[int, int]] = {}  # a block: what waits while it runs, until where
        for meeting in sorted(waiting_at, key=self._outer.__getitem__):
            outer = self._outer_of(meeting)
            starts = {
                side: waiting
                for side, waiting in waiting_at[meeting].items()
                # A region that an outer one contains is done if the same registers wait there.
                if side not in reached or reached[side][1] not in outer or waiting & ~reached[side][0]
            }
            for number, waiting in self._spread(starts, {meeting}).items():
                found[number] |= waiting
                reached[number] = waiting, meeting
        for number, waiting in self._while_at_barriers(live).items():
            found[number] |= waiting
        return self._sets(found)

    def _while_at_barriers(self, live: list[int]) -> dict[int, int]:
        """Per block: registers of lanes that may wait at a barrier while others run it.

        Lanes of one side of a branch come to a barrier; then the others run on, each
        from its side or from where they wait, until they exit or come to a barrier.
        """
        blocks = self.kernel.blocks
        barriers = {each.number for each in blocks if each.instructions and each.instructions[0].waits}
        starts: dict[int, int] = {}
        known: dict[tuple[int, int], int] = {}  # side and reconvergence point: what waits at barriers between them
        for number in self.divergent_branches if barriers else ():
            meeting = self.post_dominator[number]
            sides = set(blocks[number].successors)
            for side in sides - {meeting}:
                if (side, meeting) not in known:
                    first = self._first_of(barriers, side, meeting)
                    known[side, meeting] = functools.reduce(operator.or_, (live[each] for each in first), 0)
                for other in {*sides, meeting} - {side, END}:
                    starts[other] = starts.get(other, 0) | known[side, meeting]
        return self._spread({at: bits for at, bits in starts.items() if bits and at not in barriers}, barriers)

    @cached_property
    def _outer(self) -> dict[int, int]:
        """How many reconvergence points follow a block."""
        depth = {END: 0}
        for number in range(len(self.kernel.blocks)):
            path = []
            while number not in depth:
                path.append(number)
                number = self.post_dominator[number]
            for position, each in enumerate(reversed(path), start=1):
                depth[each] = depth[number] + position
        return depth

    def _outer_of(self, number: int) -> set[int]:
        found = {END}
        while number != END:
            number = self.post_dominator[number]
            found.add(number)
        return found

    def _first_of(self, chosen: set[int], side: int, meeting: int) -> set[int]:
        """The first of some blocks on each way from a side to where lanes reconverge."""
        if side in chosen:
            return {side}
        region = self._spread({side: 1}, chosen | {meeting})
        found = {each for number in region for each in self.kernel.blocks[number].successors}
        return (found & chosen) - {meeting}

    def _spread(self, starts: dict[int, int], stops: set[int]) -> dict[int, int]:
        """Bits of all starts from which a block is reachable without passing one of `stops`."""
        found = dict(starts)
        waiting = sorted(starts)
        while waiting:
            number = heapq.heappop(waiting)
            bits = found[number]
            for successor in self.kernel.blocks[number].successors:
                known = found.get(successor, 0)
                if successor not in stops and bits & ~known:
                    found[successor] = known | bits
                    heapq.heappush(waiting, successor)
        return found


def _only_leaves(block: BasicBlock) -> bool:
    return len(block.instructions) == 1 and not block.successors


def _ways(blocks: tuple[BasicBlock, ...]) -> list[list[int]]:
    """Edges for reconvergence, per block: successors, or END.

    Lanes that exit do not reconverge, so a side that only exits does not keep the others from reconverging before
    the end. It counts where no other side reaches the end: a loop that the kernel ends with is left that way.
    """
    staying = [[each for each in block.successors if not _only_leaves(blocks[each])] for block in blocks]
    ways = [stay or list(block.successors) or [END] for stay, block in zip(staying, blocks, strict=True)]
    reaches = set(_post_order(ways))
    return [
        way if block.number in reaches else list(block.successors) for way, block in zip(ways, blocks, strict=True)
    ]


def _post_order(ways: list[list[int]]) -> list[int]:
    """Depth-first post-order of the reversed graph, from the blocks that exit."""
    before: list[list[int]] = [[] for _ in ways]
    starts = []
    for number, way in enumerate(ways):
        for successor in way:
            if successor == END:
                starts.append(number)
            else:
                before[successor].append(number)
    seen = set(starts)
    order: list[int] = []
    for start in starts:
        stack = [(start, 0)]
        while stack:
            number, position = stack.pop()
            if position == len(before[number]):
                order.append(number)
                continue
            stack.append((number, position + 1))
            target = before[number][position]
            if target not in seen:
                seen.add(target)
                stack.append((target, 0))
    return order
