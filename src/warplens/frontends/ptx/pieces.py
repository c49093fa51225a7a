"""Pieces of a grid for the workers of a launch, and their records in the order of blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import pairwise

from ...traces import WarpGroup

#: Warp instructions of the blocks that a worker takes at once.
CHUNK_INSTRUCTIONS = 200_000
#: Recorded groups that may wait for those of earlier blocks.
MOST_GROUPS_WAITING = 16


class Pieces:
    """Pieces of work: few blocks at first, then enough for a good number of instructions."""

    def __init__(self, parts: Sequence[range]) -> None:
        self.left, self.size = [part for part in reversed(parts) if part], 1
        self.lock = threading.Lock()

    def next(self) -> tuple[int, int] | None:
        with self.lock:
            if not self.left:
                return None
            part = self.left.pop()
            count = min(self.size, len(part))
            if count < len(part):
                self.left.append(part[count:])
            return part.start, count

    def learn(self, blocks: int, instructions: int) -> None:
        with self.lock:
            per_block = max(instructions / blocks, 1.0)
            self.size = int(min(max(CHUNK_INSTRUCTIONS / per_block, 1), 4 * self.size, 16384))


class InOrder:
    """Passes groups on in block order, whichever worker finishes first; one that is far ahead waits."""

    def __init__(
        self,
        consume: Callable[[WarpGroup], None] | None,
        progress: Callable[[int, int], None] | None,
        parts: Sequence[range],
        stop: threading.Event,
    ) -> None:
        self.consume, self.progress, self.stop = consume, progress, stop
        self.done, self.total = 0, sum(map(len, parts))
        self.waiting: dict[int, tuple[int, WarpGroup | None]] = {}
        filled = [part for part in parts if part]
        self.next = filled[0].start if filled else 0
        #: Where a part ends, the next one starts.
        self.jumps = {a.stop: b.start for a, b in pairwise(filled)}
        self.moved = threading.Condition()

    def put(self, first: int, count: int, group: WarpGroup | None) -> None:
        with self.moved:
            while first != self.next and len(self.waiting) >= MOST_GROUPS_WAITING and not self.stop.is_set():
                self.moved.wait(0.1)
            self.waiting[first] = (count, group)
            while self.next in self.waiting:
                done, found = self.waiting.pop(self.next)
                if found is not None and self.consume is not None:
                    self.consume(found)
                self.done += done
                self.next = self.jumps.get(self.next + done, self.next + done)
            self.moved.notify_all()
            if self.progress is not None:
                self.progress(self.done, self.total)
