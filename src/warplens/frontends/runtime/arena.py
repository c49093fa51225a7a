"""Device memory of a program: one shared file that the program and warplens both map, and its allocations."""

from __future__ import annotations

import ctypes
import mmap
import os
from bisect import bisect_left, insort
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..ptx.memory import Allocation
from ..ptx.spaces import GLOBAL_WINDOW, GRANULE_BYTES, READ_ONLY, align
from .unset import Filled

PAGE_BYTES = 4096
#: The first part of memory, for variables of modules and the parameters of launches.
OWN_BYTES = 1 << 30
#: GPUs map memory in pages of this size: an access within one of them never faults.
MAPPED_BYTES = 2 << 20
#: Part of this machine's memory that a program may allocate.
MOST_PART = 0.8
_PUNCH_HOLE = 0x01 | 0x02  # and keep the file's size


@dataclass(eq=False)
class Arena:
    """Memory from GLOBAL_WINDOW on. `valid` has the bytes of each granule that kernels may access.

    With `exact` these are the allocated ones, as a sanitizer has it; else all of every mapped page, as on a GPU.
    New memory of the device is then `filled`, which tells what was never written.
    """

    size_bytes: int
    most_bytes: int
    memory_file: int
    table_file: int
    content: NDArray[np.uint8]
    valid: NDArray[np.uint16]
    exact: bool = False
    allocations: dict[int, Allocation] = field(default_factory=dict)
    freed: dict[int, Allocation] = field(default_factory=dict)
    used_bytes: int = 0
    own_position: int = GLOBAL_WINDOW
    #: Free stretches (start, end), in order.
    free: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        #: Allocations of each mapped page.
        self.held = np.zeros(self.size_bytes // MAPPED_BYTES + 1, dtype=np.int32)
        self.filled = Filled(self.content, self.allocations) if self.exact else None

    def allocate(self, size: int, name: str, *, pages: bool = False) -> int | None:
        """The address of a new allocation; None where there is no room."""
        taken = align(size, GRANULE_BYTES) + GRANULE_BYTES
        alignment = MAPPED_BYTES if size >= MAPPED_BYTES else PAGE_BYTES if pages else 2 * GRANULE_BYTES
        if pages:
            taken = align(size, PAGE_BYTES) + PAGE_BYTES
        if self.used_bytes + taken > self.most_bytes:
            return None
        for index, (start, end) in enumerate(self.free):
            address = align(start, alignment)
            if address + taken > end:
                continue
            left = [(start, address), (address + taken, end)]
            self.free[index : index + 1] = [part for part in left if part[0] < part[1]]
            self._add(address, size, name)
            if self.filled is not None and not pages:
                self.filled.fill(self.allocations[address])
            self.used_bytes += taken
            return address
        return None

    def release(self, address: int) -> bool:
        """Take an allocation back; False where there is none at the address."""
        found = self.allocations.pop(address, None)
        if found is None:
            return False
        pages = address % PAGE_BYTES == 0 and found.name.startswith(("managed", "pinned"))
        taken = (
            align(found.size_bytes, PAGE_BYTES) + PAGE_BYTES
            if pages
            else align(found.size_bytes, GRANULE_BYTES) + GRANULE_BYTES
        )
        self.used_bytes -= taken
        if self.filled is not None:
            self.filled.forget(address)
        self._mark(found, 0)
        self._clear(address, found.size_bytes)
        self.freed[address] = Allocation(f"freed {found.name}", address, found.size_bytes)
        self._merge(address, address + taken)
        return True

    def place(self, size: int, name: str, *, read_only: bool = False) -> int:
        """Room for something of a module, which stays."""
        address = self.own_position
        self._add(address, size, name)
        if read_only:
            first = (address - GLOBAL_WINDOW) // GRANULE_BYTES
            self.valid[first : first - (-size // GRANULE_BYTES)] |= READ_ONLY
        self.own_position = align(address + max(size, 1), GRANULE_BYTES) + GRANULE_BYTES
        return address

    def reserve(self, size: int) -> int:
        """Addresses that nothing else takes; nothing is allocated there yet."""
        address = align(self.own_position, PAGE_BYTES)
        self.own_position = address + align(size, PAGE_BYTES)
        return address

    def write(self, address: int, data: bytes) -> None:
        start = address - GLOBAL_WINDOW
        self.content[start : start + len(data)] = np.frombuffer(data, dtype=np.uint8)

    def close(self) -> None:
        os.close(self.memory_file)
        os.close(self.table_file)

    def _add(self, address: int, size: int, name: str) -> None:
        made = Allocation(name, address, size)
        self.allocations[address] = made
        self.freed.pop(address, None)
        self._mark(made, GRANULE_BYTES)

    def _mark(self, allocation: Allocation, per_granule: int) -> None:
        start = allocation.address - GLOBAL_WINDOW
        if self.exact or start < OWN_BYTES:
            first = start // GRANULE_BYTES
            full, rest = divmod(allocation.size_bytes, GRANULE_BYTES)
            self.valid[first : first + full] = per_granule
            if rest:
                self.valid[first + full] = rest if self.exact and per_granule else per_granule
            return
        per_page = MAPPED_BYTES // GRANULE_BYTES
        pages = slice(start // MAPPED_BYTES, -(-(start + max(allocation.size_bytes, 1)) // MAPPED_BYTES))
        change = 1 if per_granule else -1
        before = self.held[pages].copy()
        self.held[pages] += change
        for page in np.flatnonzero((before == 0) | (self.held[pages] == 0)) + pages.start:
            self.valid[page * per_page : (page + 1) * per_page] = per_granule

    def _merge(self, start: int, end: int) -> None:
        index = bisect_left(self.free, (start, end))
        if index < len(self.free) and self.free[index][0] == end:
            end = self.free.pop(index)[1]
        if index > 0 and self.free[index - 1][1] == start:
            start = self.free.pop(index - 1)[0]
        insort(self.free, (start, end))

    def _clear(self, address: int, size: int) -> None:
        """Give whole pages back to the system."""
        start = align(address - GLOBAL_WINDOW, PAGE_BYTES)
        end = (address - GLOBAL_WINDOW + size) // PAGE_BYTES * PAGE_BYTES
        if end > start:
            libc = ctypes.CDLL(None, use_errno=True)
            libc.fallocate(self.memory_file, _PUNCH_HOLE, ctypes.c_int64(start), ctypes.c_int64(end - start))


def create_arena(size_bytes: int, *, exact: bool = False) -> Arena:
    """An arena as large as the memory of a GPU; only what is written takes memory of this machine."""
    size_bytes = align(size_bytes, PAGE_BYTES)
    files = [os.memfd_create(f"warplens-{name}") for name in ("memory", "table")]
    os.ftruncate(files[0], size_bytes)
    table_bytes = 2 * size_bytes // GRANULE_BYTES
    os.ftruncate(files[1], table_bytes)
    memory = mmap.mmap(files[0], size_bytes, mmap.MAP_SHARED | getattr(mmap, "MAP_NORESERVE", 0))
    table = mmap.mmap(files[1], table_bytes, mmap.MAP_SHARED | getattr(mmap, "MAP_NORESERVE", 0))
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    arena = Arena(
        size_bytes,
        min(size_bytes - OWN_BYTES, int(MOST_PART * physical)),
        files[0],
        files[1],
        np.frombuffer(memory, dtype=np.uint8),
        np.frombuffer(table, dtype=np.uint16),
        exact,
    )
    arena.free.append((GLOBAL_WINDOW + OWN_BYTES, GLOBAL_WINDOW + size_bytes))
    if not exact:  # memory of the context lies before that of the program
        arena.allocate(MAPPED_BYTES // 2, "memory of the context")
    return arena
