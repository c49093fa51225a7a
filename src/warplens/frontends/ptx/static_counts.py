"""How often a warp executes each basic block, from the PTX and the launch alone.

Branches and loop bounds that thread indices, launch dimensions and scalar
arguments decide are evaluated at sample points; the rules for the others are
in docs/guide/static.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .flat import BasicBlock, FlatInstruction, FlatKernel
from .flow import END, Flow
from .static_evaluate import MOST_RECURRENCE, Evaluator
from .static_loops import LoopNest, NaturalLoop
from .static_points import (
    DIFFERS,
    KNOWN,
    SAME,
    WARP_LANES,
    Edge,
    Integers,
    Points,
    Truths,
    as_truth,
    as_value,
    difference,
)
from .static_values import Node, Symbolic

#: Most warps of a launch to sample.
MOST_WARPS = 768
#: Most sampled iterations of a loop, and most points of a loop nest.
MOST_ITERATIONS, MOST_POINTS = 32, 6144
#: Weight of either side of a branch that is uniform over the warp but undecided.
SAME_FOR_ALL_WEIGHT = 0.5
_GOLDEN = 0.6180339887498949
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class LoopTrips:
    """Iterations of a loop: passes through its head each time a warp enters it."""

    head_passes: NDArray[Any]
    """Iterations of each lane, or of the warp if given by the user."""
    main_exit: tuple[int, int]
    exact: bool
    origin: str
    at_most: bool = False


@dataclass(eq=False)
class Counts:
    """Results by block number; `visit` is called with (block, points, mask, weight) for each block."""

    executions: list[float]
    loops: dict[NaturalLoop, tuple[float, LoopTrips | None]] = field(default_factory=dict)
    """Of each loop: how often warps enter it, and its trips."""
    guessed: list[tuple[int, int]] = field(default_factory=list)
    """(block, level) of undecided branches."""


Visit = Callable[[BasicBlock, Points, Truths, NDArray[np.float64]], None]


class Counter(Evaluator):
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
        super().__init__(kernel, nest, symbolic, root)
        self.flow, self.given, self.branch_weight, self.visit = flow, given, branch_weight, visit
        self.entered: dict[int, Edge] = {}
        self.counts = Counts([0.0] * len(kernel.blocks))
        self.missing: list[NaturalLoop] = []
        self.trips: dict[NaturalLoop, LoopTrips] = {}

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
        """Lanes that reach a block, over all edges into it."""
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
        while self.nest.innermost[dominator] is not around:  # leave loops that end before this block
            dominator = self.nest.dominator[dominator]
        above = self.entered[dominator]
        if len(before) > 1 and self._meets(dominator, number):
            return Edge(mask, above.weight, above.level)
        return Edge(mask, np.minimum(weight, above.weight), level)

    def _meets(self, start: int, number: int) -> bool:
        """Whether all lanes that leave `start` and do not exit reach `number`."""
        while start != END and start != number:
            start = self.flow.post_dominator[start]
        return start == number

    def _block(self, number: int, points: Points, entry: Edge) -> None:
        self.entered[number] = entry
        block = self.kernel.blocks[number]
        weight = np.where(entry.mask.any(axis=1), entry.weight, 0.0) * points.weight
        self.counts.executions[number] = float(weight.sum())
        if len(block.instructions) == 1 and not block.successors:
            # Lanes that exit do not wait for each other: count the block once per edge into it.
            ways = [points.edges[each, number] for each in self.nest.predecessors[number]]
            self.counts.executions[number] = float(
                sum((np.where(way.mask.any(axis=1), way.weight, 0.0) * points.weight).sum() for way in ways)
            )
        if weight.any():
            self.visit(block, points, entry.mask, weight)
        self._leave(block, points, entry)

    def _leave(self, block: BasicBlock, points: Points, entry: Edge) -> None:
        """Set the edges from a block to its successors in the same loop."""
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
            # Iterations are already counted: all but the last take the back edge.
            factor = self._continue_share(loop, points, block.number)
            for target in targets:
                if target not in leaves:
                    points.edges[block.number, target] = Edge(entry.mask, entry.weight * factor, entry.level)
            return
        assert last is not None
        taken = last.targets[0] if last.targets else None
        for target in targets:
            can, cannot = (truth.true, truth.false) if target == taken else (truth.false, truth.true)
            sure = entry.mask if self._leads_to_given(block.number, target) else entry.mask & ~cannot
            points.edges[block.number, target] = self._side(entry, entry.mask & can, sure, level)
        if np.any(entry.mask & truth.true & truth.false):
            self.counts.guessed.append((block.number, level))

    def _leads_to_given(self, block: int, target: int) -> bool:
        """Whether a branch guards a loop with given iterations, which imply that it is entered."""
        heads = [loop.head for loop, trips in self.given.items() if trips > 0 and block not in loop.blocks]
        return any(self.nest.dominates(target, head) for head in heads)

    def _side(self, entry: Edge, possible: Truths, certain: Truths, level: int) -> Edge:
        """A side of a branch: full weight if some lane is sure to take it, else its share."""
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
        if trips is None:  # never reached, or reported as an error at the end
            trips = LoopTrips(np.ones((1, 1)), loop.exits[0] if loop.exits else (loop.head, END), False, "missing")
        self.trips[loop] = trips
        passes: NDArray[Any] = np.broadcast_to(trips.head_passes, (len(points), WARP_LANES))
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

    def _iterations(self, loop: NaturalLoop, points: Points, entry: Edge, passes: NDArray[Any]) -> Points:
        """Sample points of a loop's iterations: all of them, or an even selection with the weight of all."""
        total = np.where(entry.mask, passes, 0).max(axis=1)
        rows = np.flatnonzero((total > 0) & entry.mask.any(axis=1))
        most = int(np.clip(MOST_POINTS // max(len(rows), 1), 2, MOST_ITERATIONS))
        index, iteration, weight = [], [], []
        for row in rows:
            count = total[row]
            looked_at = min(most, math.ceil(count))
            place = np.arange(looked_at)
            if looked_at < count and count > most:  # avoid resonance with patterns that repeat every few iterations
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
            given = self.given[loop] + (1.0 if tested_first else 0.0)
            return LoopTrips(np.full((1, 1), given), main, False, "given")
        best: tuple[Integers, tuple[int, int]] | None = None
        for block, target in loop.exits:
            found = self._exit_iteration(loop, points, entry, block, target)
            if found is not None:
                best = (found, (block, target)) if best is None else (np.minimum(best[0], found), best[1])
        if best is None or np.any(np.where(entry.mask, best[0], 0) == _NEVER):
            return None
        passes = np.where(entry.mask, np.broadcast_to(best[0], entry.mask.shape) + 1, 0)
        return LoopTrips(passes, best[1], True, "derived", at_most=len(loop.exits) > 1)

    def _exit_iteration(
        self, loop: NaturalLoop, points: Points, entry: Edge, block: int, target: int
    ) -> Integers | None:
        """The iteration (from 0) in which each lane takes an exit; None if undecided."""
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

    def _counted(self, loop: NaturalLoop, points: Points, node: Node, leaves_if: bool) -> Integers | None:
        """From a comparison whose difference changes by a constant per iteration."""
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
        """By evaluating the condition iteration by iteration, as for `s >>= 1`."""
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


def first_iteration(how: str, start: Integers, step: Integers) -> Integers | None:
    """The first k ≥ 0 with start + k·step `how` 0; the largest integer if there is none."""
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


def _ones(points: Points) -> NDArray[np.float64]:
    return np.ones(len(points))


def instruction_guard(counter: Counter, item: FlatInstruction, points: Points) -> Truths | None:
    """Lanes whose guard of an instruction can hold."""
    node = counter.symbolic.conditions.get(item.index)
    return None if node is None else as_truth(counter.evaluate(node, points)).true
