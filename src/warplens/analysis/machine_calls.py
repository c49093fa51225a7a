"""Calls of machine code for operands that are rare: which executions make them, and what runs then.

The trace says how often a division or a root had such operands, not when: the calls of its machine code are spread
evenly over its executions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from ..traces.machine_code import TracedCode

_CALL, _BRANCH, _ENDS = "CALL", "BRA", ("RET", "EXIT")
#: Ways through a function that are looked at.
_MOST_WAYS = 1024


class RareCalls:
    """The calls of rare paths in machine code."""

    def __init__(self, code: TracedCode, origins: Sequence[int]) -> None:
        self.code, self.origins = code, origins
        #: Of each PTX instruction: calls that are due, as a share of one.
        self._due: dict[int, float] = defaultdict(float)

    @cached_property
    def bodies(self) -> dict[int, tuple[int, ...]]:
        """Of each call that some executions make: the instructions that run then."""
        found = {}
        for i, (opcode, target) in enumerate(zip(self.code.opcodes, self.code.targets, strict=True)):
            if opcode == _CALL and target >= 0 and self.origins[i] in self.code.rare_paths:
                found[i] = way_through(self.code, target)
        return found

    def next(self, executed: set[int], sites: Sequence[int]) -> tuple[int, ...]:
        """Those of some calls that are made in a pass in which these PTX instructions are executed."""
        return tuple(i for i in sites if self.origins[i] in executed and self._is_due(self.origins[i]))

    def _is_due(self, origin: int) -> bool:
        executions, rare = self.code.rare_paths[origin]
        self._due[origin] += rare / executions
        if self._due[origin] < 1.0:
            return False
        self._due[origin] -= 1.0
        return True


def way_through(code: TracedCode, target: int) -> tuple[int, ...]:
    """The instructions of a function on the way that is most nearly as long as ways are in the mean.

    At every branch both ways are as likely.
    """
    ways = [way for way, _ in zip(_ways(code, target), range(_MOST_WAYS), strict=False)]
    if not ways:
        return ()
    weights = [share for share, _ in ways]
    mean = sum(share * len(way) for share, way in ways) / sum(weights)
    return min((way for _, way in ways), key=lambda way: (abs(len(way) - mean), len(way)))


def _ways(code: TracedCode, target: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """(Share, instructions) of every way through a function that passes no instruction twice."""
    waiting: list[tuple[float, tuple[int, ...], int]] = [(1.0, (), target)]
    while waiting:
        share, way, at = waiting.pop()
        before = set(way)
        while 0 <= at < len(code.opcodes) and at not in before:
            way, opcode = (*way, at), code.opcodes[at]
            before.add(at)
            if opcode in _ENDS and not code.guarded[at]:
                yield share, way
                break
            if opcode == _BRANCH and code.guarded[at]:
                share /= 2.0
                waiting.append((share, way, code.targets[at]))
            at = code.targets[at] if opcode == _BRANCH and not code.guarded[at] else at + 1
