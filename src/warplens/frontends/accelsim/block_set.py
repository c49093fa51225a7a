"""The set of thread blocks seen in a trace; small if they come in order."""

from __future__ import annotations

from bisect import bisect_right


class BlockSet:
    """Block numbers, stored as runs of consecutive numbers."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, block: int) -> bool:
        """Add a block; False if it was already there."""
        at = bisect_right(self._first, block)
        if at and block <= self._last[at - 1]:
            return False
        self._count += 1
        joins_before = at > 0 and self._last[at - 1] == block - 1
        joins_after = at < len(self._first) and self._first[at] == block + 1
        if joins_before and joins_after:
            self._last[at - 1] = self._last.pop(at)
            self._first.pop(at)
        elif joins_before:
            self._last[at - 1] = block
        elif joins_after:
            self._first[at] = block
        else:
            self._first.insert(at, block)
            self._last.insert(at, block)
        return True
