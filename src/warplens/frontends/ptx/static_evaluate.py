"""Values of expressions at sample points, including values that change from iteration to iteration."""

from __future__ import annotations

import numpy as np

from .flat import FlatKernel
from .static_loops import LoopNest, NaturalLoop
from .static_points import (
    DIFFERS,
    KNOWN,
    SAME,
    WARP_LANES,
    Edge,
    Integers,
    Points,
    Truth,
    Value,
    as_truth,
    as_value,
    calculate,
    combine,
    compare,
    gather,
    select,
    unknown,
)
from .static_values import UNKNOWN, Merge, Node, Symbolic

#: Most iterations to follow a recurrence that is not a plain counter.
MOST_RECURRENCE = 4096


class Evaluator:
    """Evaluates expressions of one kernel; `root` are the sampled warps."""

    def __init__(self, kernel: FlatKernel, nest: LoopNest, symbolic: Symbolic, root: Points) -> None:
        self.kernel, self.nest, self.symbolic, self.root = kernel, nest, symbolic, root
        self.block_of = {item.index: block.number for block in kernel.blocks for item in block.instructions}
        self.steps: dict[Merge, list[tuple[int, Node]] | None] = {}
        self.recurrent: dict[NaturalLoop, set[Merge]] = {}

    def _condition(self, block: int) -> Node | None:
        items = self.kernel.blocks[block].instructions
        return self.symbolic.conditions.get(items[-1].index) if items else None

    def _probe(self, loop: NaturalLoop, points: Points, iteration: int) -> Points:
        rows = np.arange(len(points))
        return Points(loop, points, rows, np.full(len(points), iteration), points.weight)

    # -- values that change from iteration to iteration ---------------------------------------------

    def _is_invariant(self, loop: NaturalLoop, node: Node) -> bool:
        return self._reaches(loop, node, frozenset())

    def _reaches(self, loop: NaturalLoop, node: Node, allowed: frozenset[Merge] | set[Merge]) -> bool:
        """Whether an expression depends only on loop invariants and the `allowed` merges at the loop's head."""
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
        """The signed terms added to a counter in each iteration; None if it is not a counter."""
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
        """Merges at the head whose next value depends only on such merges and loop invariants."""
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
            known.append({each: self.evaluate(each.first or UNKNOWN, points) for each in merges})
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
            start = as_value(self.evaluate(merge.first, outside))
            if start.level < DIFFERS:
                return gather(Value(start.array, SAME), rows)
        return self._unknown_merge(merge, outside)

    def _drifts(self, merge: Merge, points: Points) -> bool:
        """Whether a value changes by uniform amounts an unknown number of times: `if (c) p += n`."""
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
                waiting += [*node.values.values(), *node.next]
                if node.first is not None:
                    waiting.append(node.first)
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
        conditions = [each for block in branches if (each := self._condition(block)) is not None]
        return all(_is_uniform(as_truth(self.evaluate(each, probe))) for each in conditions)

    def _between(self, merge: Merge) -> set[int]:
        """Blocks whose branches decide through which edge lanes reach a merge."""
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
        known = [
            self._sequence(merge.loop, outside, each)[merge] for each in range(int(iteration.max(initial=0)) + 1)
        ]
        if any(isinstance(each, Truth) or each.level for each in known):
            uniform = all(_is_uniform(each) for each in known)
            return unknown(SAME if uniform else DIFFERS)
        shape = (len(outside), WARP_LANES)
        table = np.stack([np.broadcast_to(each.array, shape) for each in known if isinstance(each, Value)])
        places = np.broadcast_to(iteration, (len(rows), WARP_LANES))
        return Value(table[np.maximum(places, 0), rows[:, None], np.arange(WARP_LANES)])

    def _unknown_merge(self, merge: Merge, outside: Points) -> Value | Truth:
        """An unknown value: only its uniformity is known. All such merges are assumed uniform until one is not."""
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
        """A loop's register after the loop: its value in each lane's last iteration."""
        assert merge.loop is not None
        own = points.around(merge.loop.parent)
        if own is None or merge.loop not in own.iterations:
            return unknown(DIFFERS)
        if own is not points:
            return gather(self.evaluate(merge, own), points.rows_of(own))
        passes = own.iterations[merge.loop]
        if passes is None:
            return unknown(DIFFERS)
        last: Integers = np.maximum(np.broadcast_to(passes, (len(own), WARP_LANES)) - 1, 0)
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
        """Each lane's value by the edge it took, if known."""
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
        # Lanes that never get here must not make the value look divergent.
        mask = np.logical_or.reduce([edge.mask for edge, _ in values])
        filler = np.take_along_axis(array, mask.argmax(axis=1)[:, None], axis=1)
        return Value(np.where(mask, array, filler), level)


def _is_uniform(value: Value | Truth) -> bool:
    if isinstance(value, Value):
        return value.is_uniform
    decided = not np.any(value.true & value.false)
    same = value.true.shape[1] == 1 or bool((value.true == value.true[:, :1]).all())
    return same if decided else not value.varies


def _as_int64(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
