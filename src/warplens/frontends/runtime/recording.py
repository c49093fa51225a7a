"""Which launches of a program are recorded, which of their thread blocks, and who is told about them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Protocol

from ...traces.chosen_blocks import chosen_blocks
from ..ptx.execute import Execution
from .unset import MemoryBefore

#: Warp instructions of a launch that are recorded unless the user asks for blocks or waves.
MOST_INSTRUCTIONS = 3_000_000
#: Launches of a kernel from which on even those of a new shape are not all recorded.
MOST_SHAPES = 16


@dataclass(frozen=True)
class LaunchInfo:
    """One launch of a program."""

    index: int
    process: int
    #: Name in the PTX, and as the source has it.
    kernel: str
    readable: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers_per_thread: int
    shared_memory_bytes: int
    stream: int
    instructions: int = 0
    seconds: float = 0.0
    """Time that running it on the CPU took."""

    @property
    def shape(self) -> tuple[object, ...]:
        """Launches with the same do the same kind of work."""
        return self.kernel, self.grid, self.block, self.shared_memory_bytes


@dataclass(frozen=True)
class Recording:
    """What the user wants recorded. By default some launches of each kernel and shape, and some of their blocks."""

    kernel: re.Pattern[str] | None = None
    launches: frozenset[int] | None = None
    max_blocks: int | None = None
    waves: int | None = None

    @property
    def most_instructions(self) -> float:
        """Warp instructions after which no more blocks of a launch are recorded."""
        return 4 * MOST_INSTRUCTIONS if self.max_blocks is None and self.waves is None else math.inf

    def wants(self, info: LaunchInfo, matching: int, alike: int, of_kernel: int) -> bool:
        """Whether to record a launch, the given one of those that match, after others of its shape and its kernel.

        Unless launches are named, the first, second, fourth, eighth … of a shape stand for those between; of a kernel
        with launches of many shapes, likewise some stand for the others.
        """
        if not self.matches(info):
            return False
        if self.launches is not None:
            return matching in self.launches
        return _is_milestone(alike) and (of_kernel < MOST_SHAPES or _is_milestone(of_kernel))

    def matches(self, info: LaunchInfo) -> bool:
        return self.kernel is None or bool(self.kernel.search(info.kernel) or self.kernel.search(info.readable))

    def blocks(self, total: int, wave: int, instructions_per_block: float) -> list[range]:
        """Thread blocks to record, spread over the grid; consecutive ones share caches, as on a GPU."""
        wanted = total
        if self.max_blocks is not None:
            wanted = min(wanted, self.max_blocks)
        if self.waves is not None:
            wanted = min(wanted, self.waves * wave)
        if self.max_blocks is None and self.waves is None:
            wanted = min(wanted, max(int(MOST_INSTRUCTIONS / max(instructions_per_block, 1.0)), 1))
        return chosen_blocks(total, wanted, wave)


def _is_milestone(before: int) -> bool:
    """Whether the next one is the first, second, fourth, eighth …"""
    return (before + 1) & before == 0


class Listener(Protocol):
    """Who is told what programs do; `process` tells several of them apart."""

    def launched(self, info: LaunchInfo, execution: Execution | None, before: MemoryBefore | None) -> None:
        """A kernel has run; `execution` has its trace where it was recorded.

        `before` has what was unset before it, where that is to be checked.
        """

    def running(self, info: LaunchInfo, done: int, total: int) -> None:
        """So many of a kernel's thread blocks have run."""

    def copied(self, process: int, direction: int, size_bytes: int, stream: int, pinned: bool) -> None:
        """Bytes went from host to device (1), device to host (2), within a device (3), or were set (4).

        Memory of the host is pinned or pageable.
        """

    def recorded(self, process: int, event: int, stream: int) -> None: ...

    def awaited(self, process: int, stream: int, event: int) -> None: ...

    def synchronized(self, process: int, stream: int) -> None:
        """The host waits for a stream, or all (-1)."""

    def elapsed(self, process: int, first: int, second: int) -> float | None:
        """Predicted seconds between two events; None where one was not recorded."""

    def failed(self, message: str) -> None:
        """A kernel or module cannot go on; the program sees an error code only."""
