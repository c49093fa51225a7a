"""`pytest -p fencing`, with PYTHONPATH=tests: memory under guard, for `make sanitize`.

What native code of PTX works on ends at a page that cannot be accessed, records
that it enlarges included: an access beyond ends the process. The stand-in for
CUDA is built with AddressSanitizer and UndefinedBehaviorSanitizer, see
`frontends/runtime/conftest.py`.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
from llvmlite import binding

from warplens.frontends.ptx import bulk_copies, execute, memory, worker

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
#: Memory that native code has asked for, by address, with its size.
_held: dict[int, tuple[mmap.mmap, int]] = {}


def guarded(size: int) -> tuple[mmap.mmap, int]:
    """Memory whose last byte is followed by a page without access, and the place where it begins."""
    whole = -(-size // _PAGE) * _PAGE
    room = mmap.mmap(-1, whole + _PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    if _LIBC.mprotect(ctypes.c_void_p(start + whole), ctypes.c_size_t(_PAGE), 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    return room, whole - size


class _Numpy:
    """NumPy, but `zeros` gives guarded memory."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def zeros(shape: Any, dtype: Any = float) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size == 0:
            return np.zeros(shape, dtype)
        room, offset = guarded(size)
        return np.frombuffer(room, dtype, int(np.prod(shape)), offset).reshape(shape)


def _resized(address: int | None, size: int) -> int:
    """realloc for native code; what it had before can no longer be accessed."""
    room, offset = guarded(size)
    made = ctypes.addressof(ctypes.c_char.from_buffer(room)) + offset
    if address:
        _, before = _held[address]
        ctypes.memmove(made, address, min(before, size))
        _released(address)
    _held[made] = room, size
    return made


def _released(address: int) -> None:
    room, size = _held.pop(address)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    _LIBC.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(-(-size // _PAGE) * _PAGE), 0)


def _close(self: worker.Worker) -> None:
    for frame in self.frames:
        if frame[worker.Frame.RECORD]:
            _released(int(frame[worker.Frame.RECORD]))
            frame[worker.Frame.RECORD] = frame[worker.Frame.RECORD_ROOM] = 0
    self.context[worker.Context.ROOM_LEFT] = worker.MOST_RECORD_BYTES // 8


class _BulkRecord(bulk_copies.BulkRecord):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.realloc = _resized


_realloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(_resized)
binding.add_symbol("realloc", ctypes.cast(_realloc, ctypes.c_void_p).value)
for module in (execute, memory, worker):
    module.np = _Numpy()  # type: ignore[attr-defined]
bulk_copies.BulkRecord = _BulkRecord  # type: ignore[misc]
worker.Worker.close = _close  # type: ignore[method-assign]
os.environ["WARPLENS_SANITIZE"] = "1"
