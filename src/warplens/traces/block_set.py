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

    def add(self, first: int, last: int | None = None) -> bool:
        """Add a block, or all from one to another; False if one of them was already there."""
        last = first if last is None else last
        at = bisect_right(self._first, last)
        if at and first <= self._last[at - 1]:
            return False
        self._count += last - first + 1
        joins_before = at > 0 and self._last[at - 1] == first - 1
        joins_after = at < len(self._first) and self._first[at] == last + 1
        if joins_before and joins_after:
            self._last[at - 1] = self._last.pop(at)
            self._first.pop(at)
        elif joins_before:
            self._last[at - 1] = last
        elif joins_after:
            self._first[at] = first
        else:
            self._first.insert(at, first)
            self._last.insert(at, last)
        return True
