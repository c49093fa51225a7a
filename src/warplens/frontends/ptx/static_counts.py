"""How often a warp executes each basic block, from the PTX and the launch alone.

Branches and loop bounds that thread indices, launch dimensions and scalar
arguments decide are evaluated at sample points; the rules for the others are
in docs/guide/static.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .flatten import BasicBlock, FlatInstruction, FlatKernel
from .flow import END, Flow
from .static_loops import LoopNest, NaturalLoop
from .static_points import (
    DIFFERS,
    KNOWN,
    SAME,
    Edge,
    Integers,
    Points,
    Truth,
    Truths,
    Value,
    as_truth,
    as_value,
    calculate,
    combine,
    compare,
    difference,
    gather,
    select,
    unknown,
)
from .static_values import Merge, Node, Symbolic

WARP_LANES = 32
#: Warps of a launch that are looked at; all of them where there are no more.
MOST_WARPS = 768
#: Iterations of a loop that are looked at, and points of a nest of loops altogether.
MOST_ITERATIONS, MOST_POINTS = 32, 6144
#: Iterations after which a recurrence that is no plain counter is given up.
MOST_RECURRENCE = 4096
#: Weight of either side of a branch that goes the same way for all lanes of a warp, but nobody knows which.
SAME_FOR_ALL_WEIGHT = 0.5
_GOLDEN = 0.6180339887498949
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class LoopTrips:
    """Iterations of a loop: passes through its head each time that a warp comes to it."""

    head_passes: Integers | NDArray[np.float64]
    """Of each lane, or of the warp where they are given."""
    main_exit: tuple[int, int]
    exact: bool
    origin: str
    at_most: bool = False


@dataclass(eq=False)
class Counts:
    """Results by block number; `visit` is called with (block, points, mask, weight) for each block."""

    executions: list[float]
    loops: dict[NaturalLoop, tuple[float, LoopTrips | None]] = field(default_factory=dict)
    """Of each loop: how often it is come to, and its trips."""
    guessed: list[tuple[int, int]] = field(default_factory=list)
    """(block, level) of branches that nothing known decides."""


Visit = Callable[[BasicBlock, Points, Truths, NDArray[np.float64]], None]


class Counter:
    """Walks the blocks of a kernel in the order of its loops."""

    def __init__(
        self,
        kernel: FlatKernel,
        flow: Flow,
        nest: LoopNest,
        symbolic: Symbolic,
        root: Points,
        given: Mapping[NaturalLoop, float],
        branch_weight: float,
        visit: Visit,
    ) -> None:
        self.kernel, self.flow, self.nest, self.symbolic = kernel, flow, nest, symbolic
        self.root, self.given, self.branch_weight, self.visit = root, given, branch_weight, visit
        self.block_of = {item.index: block.number for block in kernel.blocks for item in block.instructions}
        self.entered: dict[int, Edge] = {}
        self.counts = Counts([0.0] * len(kernel.blocks))
        self.missing: list[NaturalLoop] = []
        self.trips: dict[NaturalLoop, LoopTrips] = {}
        self.steps: dict[Merge, list[tuple[int, Node]] | None] = {}
        self.recurrent: dict[NaturalLoop, set[Merge]] = {}

    def run(self) -> Counts:
        lanes = self.root.special["%active"].array != 0
        self._region(None, self.root, Edge(np.broadcast_to(lanes, (len(self.root), WARP_LANES)), _ones(self.root)))
        return self.counts

    # -- blocks ---------------------------------------------------------------------------------

    def _region(self, loop: NaturalLoop | None, points: Points, entry: Edge) -> None:
        first = 0 if loop is None else loop.head
        for number in self.nest.order:
            inside = self.nest.innermost[number]
            if inside is loop and number == first:
                self._block(number, points, entry)
            elif inside is loop:
                self._block(number, points, self._arrival(number, points))
            elif inside is not None and inside.parent is loop and inside.head == number:
                arrival = entry if number == first else self._arrival(number, points, inside)
                self._loop(inside, points, arrival)

    def _arrival(self, number: int, points: Points, loop: NaturalLoop | None = None) -> Edge:
        """Lanes that come to a block, over all ways that lead there."""
        before = [each for each in self.nest.predecessors[number] if loop is None or each not in loop.latches]
        edges = [points.edges[each, number] for each in before if (each, number) in points.edges]
        mask = np.zeros((len(points), WARP_LANES), dtype=bool)
        weight = np.zeros(len(points))
        for edge in edges:
            mask |= edge.mask
            weight += np.where(edge.mask.any(axis=1), edge.weight, 0.0)
        level = max((edge.level for edge in edges), default=KNOWN)
        around = loop.parent if loop is not None else self.nest.innermost[number]
        dominator = self.nest.dominator[number]
        while self.nest.innermost[dominator] is not around:  # out of loops that end before this block
            dominator = self.nest.dominator[dominator]
        above = self.entered[dominator]
        if self._meets(dominator, number):
            return Edge(mask, above.weight, above.level)
        return Edge(mask, np.minimum(weight, above.weight), level)

    def _meets(self, start: int, number: int) -> bool:
        """Whether all lanes that leave `start` and stay in the kernel come to `number`."""
        while start != END and start != number:
            start = self.flow.post_dominator[start]
        return start == number

    def _block(self, number: int, points: Points, entry: Edge) -> None:
        self.entered[number] = entry
        block = self.kernel.blocks[number]
        weight = np.where(entry.mask.any(axis=1), entry.weight, 0.0) * points.weight
        self.counts.executions[number] = float(weight.sum())
        if len(block.instructions) == 1 and not block.successors:  # lanes that leave do not wait for each other: once for each way there
            ways = [points.edges[each, number] for each in self.nest.predecessors[number]]
            self.counts.executions[number] = float(
                sum((np.where(way.mask.any(axis=1), way.weight, 0.0) * points.weight).sum() for way in ways)
            )
        if weight.any():
            self.visit(block, points, entry.mask, weight)
        self._leave(block, points, entry)

    def _leave(self, block: BasicBlock, points: Points, entry: Edge) -> None:
        """Ways from a block to the next ones in the same loop."""
        last = block.instructions[-1] if block.instructions else None
        targets = list(dict.fromkeys(block.successors))
        condition = self.symbolic.conditions.get(last.index) if last is not None else None
        chooses = last is not None and (last.targets or last.opcode in ("ret", "exit", "trap"))
        if last is not None and last.opcode == "brx":
            level = KNOWN if len(targets) == 1 else DIFFERS
            for target in targets:
                points.edges[block.number, target] = self._side(entry, entry.mask, entry.mask, level)
            return
        if condition is None or not chooses or (len(targets) == 1 and last is not None and last.targets):
            for target in targets:
                points.edges[block.number, target] = entry
            return
        truth = as_truth(self.evaluate(condition, points))
        level = DIFFERS if truth.varies else SAME
        loop = points.loop
        leaves = [to for each, to in (loop.exits if loop is not None else []) if each == block.number]
        if loop is not None and (block.number, *leaves[:1]) in self._undecided_exits(loop):
            # Iterations were counted already: a way back or on is taken but for the last one.
            factor = self._continue_share(loop, points, block.number)
            for target in targets:
                if target not in leaves:
                    points.edges[block.number, target] = Edge(entry.mask, entry.weight * factor, entry.level)
            return
        assert last is not None
        taken = last.targets[0] if last.targets else None
        for target in targets:
            can, cannot = (truth.true, truth.false) if target == taken else (truth.false, truth.true)
            points.edges[block.number, target] = self._side(entry, entry.mask & can, entry.mask & ~cannot, level)
        if np.any(entry.mask & truth.true & truth.false):
            self.counts.guessed.append((block.number, level))

    def _side(self, entry: Edge, possible: Truths, certain: Truths, level: int) -> Edge:
        """A side of a branch: whole where some lane is sure to take it, else by its share."""
        share = self.branch_weight if level == DIFFERS else SAME_FOR_ALL_WEIGHT
        sure = (possible & certain).any(axis=1)
        guessed = bool((possible & ~certain).any())
        weight = entry.weight * np.where(sure, 1.0, share)
        return Edge(possible, weight, max(entry.level, level if guessed else KNOWN))

    # -- loops ------------------------------------------------------------------------------------

    def _loop(self, loop: NaturalLoop, points: Points, entry: Edge) -> None:
        come = float((np.where(entry.mask.any(axis=1), entry.weight, 0.0) * points.weight).sum())
        trips = None
        if come > 0:
            trips = self._trips(loop, points, entry)
            if trips is None:
                self.missing.append(loop)
        self.counts.loops[loop] = (come, trips)
        if trips is None:  # never come to, or an error in the end
            trips = LoopTrips(np.ones((1, 1)), loop.exits[0] if loop.exits else (loop.head, END), False, "missing")
        self.trips[loop] = trips
        passes = np.broadcast_to(trips.head_passes, (len(points), WARP_LANES))
        points.iterations[loop] = trips.head_passes.astype(np.int64) if trips.exact else None
        inner = self._iterations(loop, points, entry, passes)
        mask = entry.mask[inner.index] & (inner.iteration[:, None] < passes[inner.index])
        if len(inner):
            self._region(loop, inner, Edge(mask, entry.weight[inner.index], entry.level))
        level = self._exit_level(loop, inner) if len(loop.exits) > 1 else KNOWN
        for position, (block, target) in enumerate(loop.exits):
            main = (block, target) == trips.main_exit or (position == 0 and trips.main_exit not in loop.exits)
            if main or len({to for _, to in loop.exits}) == 1:
                points.edges[block, target] = Edge(entry.mask, entry.weight, entry.level if main else level)
            else:
                points.edges[block, target] = self._side(entry, entry.mask, np.zeros_like(entry.mask), level)

    def _exit_level(self, loop: NaturalLoop, inner: Points) -> int:
        found = KNOWN
        for block, _ in loop.exits:
            node = self._condition(block)
            if node is not None and self.nest.innermost[block] is loop and len(inner):
                truth = as_truth(self.evaluate(node, inner))
                if np.any(truth.true & truth.false):
                    found = max(found, DIFFERS if truth.varies else SAME)
        return found or SAME

    def _iterations(
        self, loop: NaturalLoop, points: Points, entry: Edge, passes: NDArray[np.float64] | Integers
    ) -> Points:
        """Points of a loop's iterations: all of them, or some that are spread evenly with the weight of all."""
        total = np.where(entry.mask, passes, 0).max(axis=1)
        rows = np.flatnonzero((total > 0) & entry.mask.any(axis=1))
        most = int(np.clip(MOST_POINTS // max(len(rows), 1), 2, MOST_ITERATIONS))
        index, iteration, weight = [], [], []
        for row in rows:
            count = total[row]
            looked_at = min(most, math.ceil(count))
            place = np.arange(looked_at)
            if looked_at < count and count > most:  # not in step with what repeats every few iterations
                place = np.floor((place + (place * _GOLDEN) % 1.0) * count / looked_at).astype(np.int64)
            index.append(np.full(looked_at, row))
            iteration.append(place)
            weight.append(np.full(looked_at, points.weight[row] * count / looked_at))
        if not index:
            empty = np.zeros(0, dtype=np.int64)
            return Points(loop, points, empty, empty, np.zeros(0))
        return Points(loop, points, np.concatenate(index), np.concatenate(iteration), np.concatenate(weight))

    def _undecided_exits(self, loop: NaturalLoop) -> set[tuple[int, int]]:
        trips = self.trips[loop]
        return {each for each in loop.exits if not (trips.exact and each == trips.main_exit)}

    def _continue_share(self, loop: NaturalLoop, points: Points, block: int) -> NDArray[np.float64] | float:
        trips = self.trips[loop]
        if trips.exact or block != trips.main_exit[0]:
            return 1.0
        passes = float(np.max(trips.head_passes))
        return max(passes - 1.0, 0.0) / passes if passes > 0 else 0.0

    def _trips(self, loop: NaturalLoop, points: Points, entry: Edge) -> LoopTrips | None:
        if loop in self.given:
            exiting = {block for block, _ in loop.exits}
            latch = next((each for each in loop.latches if each in exiting), None)
            tested_first = latch is None and loop.head in exiting
            block = latch if latch is not None else loop.head if tested_first else next(iter(exiting), loop.head)
            main = next(((each, to) for each, to in loop.exits if each == block), (block, END))
            passes = self.given[loop] + (1.0 if tested_first else 0.0)
            return LoopTrips(np.full((1, 1), passes), main, False, "given")
        best: tuple[Integers, tuple[int, int]] | None = None
        for block, target in loop.exits:
            found = self._exit_iteration(loop, points, entry, block, target)
            if found is not None:
                if best is None:
                    best = (found, (block, target))
                else:
                    best = (np.minimum(best[0], found), best[1])
        if best is None or np.any(np.where(entry.mask, best[0], 0) == _NEVER):
            return None
        passes = np.where(entry.mask, np.broadcast_to(best[0], entry.mask.shape) + 1, 0)
        return LoopTrips(passes, best[1], True, "derived", at_most=len(loop.exits) > 1)

    def _condition(self, block: int) -> Node | None:
        items = self.kernel.blocks[block].instructions
        return self.symbolic.conditions.get(items[-1].index) if items else None

    def _exit_iteration(
        self, loop: NaturalLoop, points: Points, entry: Edge, block: int, target: int
    ) -> Integers | None:
        """The iteration (from 0) in which each lane leaves by an exit, if what is known decides it."""
        node = self._condition(block)
        if node is None or self.nest.innermost[block] is not loop:
            return None
        if not all(self.nest.dominates(block, latch) for latch in loop.latches):
            return None
        last = self.kernel.blocks[block].instructions[-1]
        if not last.targets:
            return None
        leaves_if = target == last.targets[0]
        while node.operation == "not":
            node, leaves_if = node.arguments[0], not leaves_if
        counted = self._counted(loop, points, node, leaves_if) if node.operation == "setp" else None
        return counted if counted is not None else self._stepped(loop, points, entry, node, leaves_if)

    def _probe(self, loop: NaturalLoop, points: Points, iteration: int) -> Points:
        rows = np.arange(len(points))
        return Points(loop, points, rows, np.full(len(points), iteration), points.weight)

    def _counted(self, loop: NaturalLoop, points: Points, node: Node, leaves_if: bool) -> Integers | None:
        """From a comparison whose two sides move apart by the same in every iteration."""
        assert node.type is not None
        seen = []
        for iteration in range(3):
            probe = self._probe(loop, points, iteration)
            a, b = (as_value(self.evaluate(each, probe)) for each in node.arguments)
            if a.level or b.level:
                return None
            seen.append(difference(node.detail, node.type, a, b))
        step = seen[1] - seen[0]
        if np.any(seen[2] - seen[1] != step):
            return None
        signs = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
        how = signs.get(node.detail, node.detail)
        if not leaves_if:
            how = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}.get(how, "")
        return first_iteration(how, seen[0], step)

    def _stepped(
        self, loop: NaturalLoop, points: Points, entry: Edge, node: Node, leaves_if: bool
    ) -> Integers | None:
        """By following what the condition needs from iteration to iteration, as for `s >>= 1`."""
        if not self._follows(loop, node):
            return None
        left = np.full(entry.mask.shape, _NEVER)
        for iteration in range(MOST_RECURRENCE):
            probe = self._probe(loop, points, iteration)
            probe.presets = self._sequence(loop, points, iteration)
            truth = as_truth(self.evaluate(node, probe))
            waiting = entry.mask & (left == _NEVER)
            if np.any(waiting & truth.true & truth.false):
                return None
            left[waiting & (truth.true if leaves_if else truth.false)] = iteration
            if not np.any(entry.mask & (left == _NEVER)):
                return left
        return None

    # -- values that change from iteration to iteration ---------------------------------------------

    def _is_invariant(self, loop: NaturalLoop, node: Node) -> bool:
        return self._reaches(loop, node, frozenset())

    def _reaches(self, loop: NaturalLoop, node: Node, allowed: frozenset[Merge] | set[Merge]) -> bool:
        """Whether an expression is made of what does not change in a loop and of some merges at its head."""
        seen, waiting = {node}, [node]
        while waiting:
            each = waiting.pop()
            if isinstance(each, Merge) and each.loop is loop:
                if each not in allowed:
                    return False
                continue
            if isinstance(each, Merge):
                if each.block in loop.blocks and not (each.loop is None and each.block == loop.head):
                    return False
                continue
            if each.operation == "load" and self.block_of[each.detail] in loop.blocks:
                return False
            for argument in each.arguments:
                if argument not in seen:
                    seen.add(argument)
                    waiting.append(argument)
        return True

    def _steps(self, merge: Merge) -> list[tuple[int, Node]] | None:
        """What is added to a counter in each iteration, with signs; None if it is no counter."""
        if merge not in self.steps:
            self.steps[merge] = self._find_steps(merge)
        return self.steps[merge]

    def _find_steps(self, merge: Merge) -> list[tuple[int, Node]] | None:
        assert merge.loop is not None
        if len(set(merge.next)) != 1:
            return None
        node, found = merge.next[0], []
        while node is not merge:
            if node.operation not in ("add", "sub"):
                return None
            a, b = node.arguments
            if self._is_invariant(merge.loop, b):
                found.append((1 if node.operation == "add" else -1, b))
                node = a
            elif node.operation == "add" and self._is_invariant(merge.loop, a):
                found.append((1, a))
                node = b
            else:
                return None
        return found

    def _recurrent(self, loop: NaturalLoop) -> set[Merge]:
        """Merges at the head whose next value follows from such merges and from what does not change."""
        if loop not in self.recurrent:
            merges = self.symbolic.merges[loop.head]
            allowed = {merge for merge in merges if len(set(merge.next)) == 1}
            while bad := {each for each in allowed if not self._reaches(loop, each.next[0], allowed)}:
                allowed -= bad
            self.recurrent[loop] = allowed
        return self.recurrent[loop]

    def _follows(self, loop: NaturalLoop, node: Node) -> bool:
        return self._reaches(loop, node, self._recurrent(loop))

    def _sequence(self, loop: NaturalLoop, points: Points, iteration: int) -> dict[Merge, Value | Truth]:
        merges = [each for each in self._recurrent(loop) if self._steps(each) is None]
        known = points.sequences.setdefault(loop, [])
        if not known:
            known.append({each: self.evaluate(each.first or unknown_node(), points) for each in merges})
        while len(known) <= iteration:
            probe = self._probe(loop, points, len(known) - 1)
            probe.presets = known[-1]
            known.append({each: self.evaluate(each.next[0], probe) for each in merges})
        return known[iteration]

    # -- evaluation -----------------------------------------------------------------------------------

    def evaluate(self, node: Node, points: Points) -> Value | Truth:
        memo = points.memo
        stack = [node]
        while stack:
            each = stack[-1]
            if each in memo:
                stack.pop()
                continue
            waiting = [a for a in each.arguments if a not in memo]
            if waiting:
                stack += waiting
                continue
            memo[each] = self._merge(each, points) if isinstance(each, Merge) else self._node(each, points)
            stack.pop()
        return memo[node]

    def _node(self, node: Node, points: Points) -> Value | Truth:
        if node.operation == "const":
            return Value(np.array([[_as_int64(node.detail)]], dtype=np.int64))
        if node.operation == "special":
            special = self.root.special.get(node.detail)
            return unknown(SAME) if special is None else gather(special, points.rows_of(self.root))
        values = [points.memo[each] for each in node.arguments]
        if node.operation == "load":
            return unknown(SAME if as_value(values[0]).is_uniform else DIFFERS)
        if node.operation == "opaque":
            if not values:
                return unknown(DIFFERS if node.detail is True else SAME)
            return unknown(SAME if all(_is_uniform(each) for each in values) else DIFFERS)
        if node.operation == "selp":
            return select(values[0], values[1], as_truth(values[2]))
        assert node.type is not None
        if node.operation == "setp":
            return compare(node.detail, node.type, as_value(values[0]), as_value(values[1]))
        if node.type.kind == "pred":
            return combine(node.operation, [as_truth(each) for each in values])
        return calculate(node.operation, node.detail or (), node.type, [as_value(each) for each in values])

    def _merge(self, merge: Merge, points: Points) -> Value | Truth:
        if merge.loop is None:
            home: NaturalLoop | None = self.nest.innermost[merge.block]
            if home is not None and home.head == merge.block:
                home = home.parent
            own = points.around(home)
            if own is None or own.loop is not home:
                return unknown(DIFFERS)
            if own is not points:
                return gather(self.evaluate(merge, own), points.rows_of(own))
            return self._met(merge, points)
        own = points.around(merge.loop)
        if own is None:
            return self._after(merge, points)
        if own is not points:
            return gather(self.evaluate(merge, own), points.rows_of(own))
        if merge in points.presets:
            return points.presets[merge]
        assert points.parent is not None and merge.first is not None
        outside, rows = points.parent, points.index
        if self._steps(merge) is not None:
            first, step = self._counter(merge, outside)
            if first.level == DIFFERS or step.level == DIFFERS:
                return unknown(DIFFERS)
            a, b = gather(first, rows), gather(step, rows)
            assert isinstance(a, Value) and isinstance(b, Value)
            return Value(a.array + points.iteration[:, None] * b.array, max(a.level, b.level))
        if merge in self._recurrent(merge.loop):
            return self._recurrence(merge, outside, rows, points.iteration[:, None])
        if self._drifts(merge, points):
            first = as_value(self.evaluate(merge.first, outside))
            if first.level < DIFFERS:
                return gather(Value(first.array, SAME), rows)
        return self._unknown_merge(merge, outside)

    def _drifts(self, merge: Merge, points: Points) -> bool:
        """Whether a value moves by amounts that all lanes share, though nobody knows how often: `if (c) p += n`."""
        loop = merge.loop
        assert loop is not None and points.parent is not None
        seen: set[Node] = set()
        waiting, branches = list(merge.next), set()
        while waiting:
            node = waiting.pop()
            if node is merge or node in seen:
                continue
            seen.add(node)
            if isinstance(node, Merge) and node.block in loop.blocks and node.block != loop.head:
                waiting += list(node.values.values()) + node.next + ([node.first] if node.first is not None else [])
                branches |= self._between(node)
            elif node.operation in ("add", "sub"):
                a, b = node.arguments
                if self._is_invariant(loop, a) and node.operation == "add":
                    a, b = b, a
                if not self._is_invariant(loop, b) or not _is_uniform(self.evaluate(b, points.parent)):
                    return False
                waiting.append(a)
            else:
                return False
        probe = self._probe(loop, points.parent, 0)
        conditions = [node for block in branches if (node := self._condition(block)) is not None]
        return all(_is_uniform(as_truth(self.evaluate(node, probe))) for node in conditions)

    def _between(self, merge: Merge) -> set[int]:
        """Blocks whose branches decide by which way lanes come to a merge."""
        if merge.loop is not None:
            return {block for block, _ in merge.loop.exits}
        top = self.nest.dominator[merge.block]
        found = {top}
        for block in merge.values:
            while block != top and block != self.nest.dominator[block]:
                found.add(block)
                block = self.nest.dominator[block]
        return found

    def _counter(self, merge: Merge, outside: Points) -> tuple[Value, Value]:
        assert merge.first is not None
        first = as_value(self.evaluate(merge.first, outside))
        array, level = np.zeros((1, 1), dtype=np.int64), KNOWN
        for sign, node in self._steps(merge) or ():
            value = as_value(self.evaluate(node, outside))
            array, level = array + sign * value.array, max(level, value.level)
        return first, Value(array, level)

    def _recurrence(self, merge: Merge, outside: Points, rows: Integers, iteration: Integers) -> Value | Truth:
        assert merge.loop is not None
        if int(iteration.max(initial=0)) > MOST_RECURRENCE:
            return unknown(DIFFERS)
        known = [self._sequence(merge.loop, outside, each)[merge] for each in range(int(iteration.max(initial=0)) + 1)]
        if any(isinstance(each, Truth) or each.level for each in known):
            uniform = all(_is_uniform(each) for each in known)
            return unknown(SAME if uniform else DIFFERS)
        shape = (len(outside), WARP_LANES)
        table = np.stack([np.broadcast_to(each.array, shape) for each in known if isinstance(each, Value)])
        places = np.broadcast_to(iteration, (len(rows), WARP_LANES))
        return Value(table[np.maximum(places, 0), rows[:, None], np.arange(WARP_LANES)])

    def _unknown_merge(self, merge: Merge, outside: Points) -> Value | Truth:
        """Only whether all lanes have the same: assumed of all such merges, until one turns out not to."""
        assert merge.loop is not None
        loop = merge.loop
        if loop not in outside.levels:
            merges = [each for each in self.symbolic.merges[loop.head] if self._steps(each) is None]
            merges = [each for each in merges if each not in self._recurrent(loop)]
            levels = {
                each: SAME if each.first is not None and _is_uniform(self.evaluate(each.first, outside)) else DIFFERS
                for each in merges
            }
            while True:
                probe = self._probe(loop, outside, 0)
                probe.presets = {each: unknown(level) for each, level in levels.items()}
                bad = [
                    each
                    for each in merges
                    if levels[each] == SAME and not all(_is_uniform(self.evaluate(n, probe)) for n in each.next)
                ]
                if not bad:
                    break
                levels |= dict.fromkeys(bad, DIFFERS)
            outside.levels[loop] = levels
        return unknown(outside.levels[loop][merge])

    def _after(self, merge: Merge, points: Points) -> Value | Truth:
        """What a register of a loop holds behind it: the value of each lane's last iteration."""
        assert merge.loop is not None
        own = points.around(merge.loop.parent)
        if own is None or merge.loop not in own.iterations:
            return unknown(DIFFERS)
        if own is not points:
            return gather(self.evaluate(merge, own), points.rows_of(own))
        passes = own.iterations[merge.loop]
        if passes is None:
            return unknown(DIFFERS)
        last = np.maximum(np.broadcast_to(passes, (len(own), WARP_LANES)) - 1, 0)
        if self._steps(merge) is not None:
            first, step = self._counter(merge, own)
            if first.level == DIFFERS or step.level == DIFFERS:
                return unknown(DIFFERS)
            return Value(first.array + last * step.array, max(first.level, step.level))
        if merge in self._recurrent(merge.loop):
            return self._recurrence(merge, own, np.arange(len(own)), last)
        found = self._unknown_merge(merge, own)
        lanes_differ = bool((last != last[:, :1]).any())
        return unknown(DIFFERS) if lanes_differ else found

    def _met(self, merge: Merge, points: Points) -> Value | Truth:
        """Each lane's value by the way it came, where that is known."""
        parts: list[tuple[Edge, Value | Truth]] = []
        for block, node in merge.values.items():
            edge = points.edges.get((block, merge.block))
            if edge is None:
                return unknown(DIFFERS)
            if edge.mask.any():
                parts.append((edge, self.evaluate(node, points)))
        if not parts:
            return unknown(SAME)
        several = np.sum([edge.mask for edge, _ in parts], axis=0) > 1
        if several.any():
            uniform = all(_is_uniform(value) for _, value in parts)
            level = max(edge.level for edge, _ in parts)
            return unknown(SAME if uniform and level < DIFFERS else DIFFERS)
        if any(isinstance(value, Truth) for _, value in parts):
            truths = [(edge, as_truth(value)) for edge, value in parts]
            true = np.logical_or.reduce([edge.mask & value.true for edge, value in truths])
            false = np.logical_or.reduce([edge.mask & value.false for edge, value in truths])
            return Truth(true, false, any(value.varies for _, value in truths))
        values = [(edge, as_value(value)) for edge, value in parts]
        level = max(value.level for _, value in values)
        if level == DIFFERS:
            return unknown(DIFFERS)
        array = np.zeros((len(points), WARP_LANES), dtype=np.int64)
        for edge, value in values:
            array = np.where(edge.mask, value.array, array)
        # Lanes that do not come here must not make the others look different.
        mask = np.logical_or.reduce([edge.mask for edge, _ in values])
        filler = np.take_along_axis(array, mask.argmax(axis=1)[:, None], axis=1)
        return Value(np.where(mask, array, filler), level)


def unknown_node() -> Node:
    return Node("opaque", detail=True)


def first_iteration(how: str, start: Integers, step: Integers) -> Integers | None:
    """The first k ≥ 0 with start + k·step `how` 0; the largest integer where there is none."""
    if how in ("gt", "ge"):
        return first_iteration({"gt": "lt", "ge": "le"}[how], -start, -step)
    start, step = np.broadcast_arrays(start, step)
    safe = np.where(step == 0, 1, step)
    if how in ("lt", "le"):
        down = np.where(step < 0, -step, 1)
        later = start // down + 1 if how == "lt" else -(-start // down)
        now = start < 0 if how == "lt" else start <= 0
        return np.where(now, 0, np.where(step < 0, later, _NEVER))
    if how == "eq":
        later = -start // safe
        hits = (step != 0) & (later > 0) & (start + later * safe == 0)
        return np.where(start == 0, 0, np.where(hits, later, _NEVER))
    if how == "ne":
        return np.where(start != 0, 0, np.where(step != 0, 1, _NEVER))
    return None


def _is_uniform(value: Value | Truth) -> bool:
    if isinstance(value, Value):
        return value.is_uniform
    decided = not np.any(value.true & value.false)
    same = value.true.shape[1] == 1 or bool((value.true == value.true[:, :1]).all())
    return same if decided else not value.varies


def _as_int64(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _ones(points: Points) -> NDArray[np.float64]:
    return np.ones(len(points))


def instruction_guard(counter: Counter, item: FlatInstruction, points: Points) -> Truths | None:
    """Lanes for which an instruction's own guard can hold."""
    node = counter.symbolic.conditions.get(item.index)
    return None if node is None else as_truth(counter.evaluate(node, points)).true
