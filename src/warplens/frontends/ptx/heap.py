"""The heap of device-side malloc and free."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .spaces import GLOBAL_WINDOW, GRANULE_BYTES, align

#: Bytes that kernels may allocate, as CUDA's cudaLimitMallocHeapSize has it by default.
HEAP_BYTES = 8 << 20
#: What an allocation takes of them besides its own bytes, at least.
_OVERHEAD_BYTES = 16
#: Address space for each byte of the heap: allocations start at granules, so that each access can be checked.
ROOM = GRANULE_BYTES // _OVERHEAD_BYTES


@dataclass
class Heap:
    """Allocations from `address` on; `valid` is the table of allocated bytes of global memory."""

    address: int
    size_bytes: int
    valid: NDArray[np.uint16]
    used_bytes: int = 0
    next: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    #: Freed places by their size.
    free_places: dict[int, list[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def allocate(self, size: int) -> int:
        """An address, or 0 if there is no room."""
        needed = align(max(size, 1), _OVERHEAD_BYTES)
        place_bytes = align(needed + 1, GRANULE_BYTES)  # a byte behind each allocation is never valid
        with self.lock:
            if size < 0 or self.used_bytes + needed > self.size_bytes:
                return 0
            again = self.free_places.get(place_bytes)
            if again:
                start = again.pop()
            elif self.next + place_bytes <= ROOM * self.size_bytes:
                start, self.next = self.next, self.next + place_bytes
            else:
                return 0
            self.used_bytes += needed
            self.sizes[self.address + start] = needed
            self._mark(self.address + start, needed, allocated=True)
        return self.address + start

    def release(self, address: int) -> bool:
        """Free an allocation; whether it was one."""
        with self.lock:
            size = self.sizes.pop(address, None)
            if size is None:
                return False
            self.used_bytes -= size
            self._mark(address, size, allocated=False)
            self.free_places.setdefault(align(size + 1, GRANULE_BYTES), []).append(address - self.address)
        return True

    def _mark(self, address: int, size: int, *, allocated: bool) -> None:
        first, full = (address - GLOBAL_WINDOW) // GRANULE_BYTES, size // GRANULE_BYTES
        self.valid[first : first + full] = GRANULE_BYTES if allocated else 0
        self.valid[first + full] = size % GRANULE_BYTES if allocated else 0
