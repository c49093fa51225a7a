"""Words of device memory that nothing has written: they hold what new allocations are filled with.

The filling differs from word to word, so that one which was written by chance equals it
once in four billion times. Words of which only some bytes were written count as set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..ptx.memory import Allocation
from ..ptx.spaces import GLOBAL_WINDOW

WORD_BYTES = 4
#: Memory that is filled, and so takes memory of this machine, before the program writes it.
MOST_FILLED_BYTES = 1 << 30
_PART_WORDS = 1 << 20


def filling(word: NDArray[np.int64]) -> NDArray[np.uint32]:
    """What words of some numbers are filled with."""
    return (word.astype(np.uint64) * np.uint64(0x9E3779B1) + np.uint64(0x7F4A7C15)).astype(np.uint32)


@dataclass(eq=False)
class Filled:
    """Allocations that were filled and may have unset words left."""

    content: NDArray[np.uint8]
    allocations: Mapping[int, Allocation]
    words: dict[int, int] = field(default_factory=dict)
    filled_bytes: int = 0

    def fill(self, allocation: Allocation) -> None:
        words = allocation.size_bytes // WORD_BYTES
        if self.filled_bytes + words * WORD_BYTES > MOST_FILLED_BYTES:
            return
        self.filled_bytes += words * WORD_BYTES
        self.words[allocation.address] = words
        for part, number in self._parts(allocation.address):
            part[:] = filling(number)

    def forget(self, address: int) -> None:
        self.filled_bytes -= self.words.pop(address, 0) * WORD_BYTES

    def before_launch(self) -> MemoryBefore:
        """What is unset now; allocations without such words are not looked at again."""
        unset = {}
        for address in sorted(self.words):
            flags = np.concatenate([part == filling(number) for part, number in self._parts(address)])
            if flags.any():
                unset[address] = flags
            else:
                self.forget(address)
        return MemoryBefore(unset, self)

    def holds_filling(self, address: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the words at some addresses are unset now."""
        words = self.content.view(np.uint32)
        return np.asarray(words[(address - GLOBAL_WINDOW) // WORD_BYTES] == filling(address // WORD_BYTES))

    def _parts(self, address: int) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
        """Words of an allocation, and their numbers."""
        words, first = self.content.view(np.uint32), (address - GLOBAL_WINDOW) // WORD_BYTES
        for start in range(0, self.words[address], _PART_WORDS):
            count = min(_PART_WORDS, self.words[address] - start)
            number = address // WORD_BYTES + start + np.arange(count, dtype=np.int64)
            yield words[first + start : first + start + count], number


@dataclass(frozen=True, eq=False)
class MemoryBefore:
    """Words of allocations, by address, that were unset before a launch."""

    unset: Mapping[int, NDArray[np.bool_]]
    filled: Filled

    def was_unset(self, address: NDArray[np.int64]) -> NDArray[np.bool_]:
        found = np.zeros(len(address), dtype=bool)
        for start, flags in self.unset.items():
            word = (address - start) // WORD_BYTES
            inside = np.flatnonzero((word >= 0) & (word < len(flags)))
            found[inside] = flags[word[inside]]
        return found

    def is_unset(self, address: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether not even the launch has written the words, which were unset before it."""
        return self.filled.holds_filling(address)

    def place(self, address: int) -> str:
        """A byte in the words of users."""
        for each in self.filled.allocations.values():
            if each.address <= address < each.address + each.size_bytes:
                return f"byte {address - each.address} of {each.name}"
        return f"the byte at {address:#x}"
