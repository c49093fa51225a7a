"""Functions that CUDA provides to kernels: printf, malloc, free and assert.

Generated code hands each call to this module, with the arguments of all lanes.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .codegen.calls import MOST_ARGUMENTS
from .codegen.layout import Context, Frame
from .flat import FlatInstruction
from .program import Symbol
from .python_calls import MisuseError, PythonCalls, Values
from .spaces import GLOBAL_WINDOW, LOCAL_WINDOW

if TYPE_CHECKING:
    from .execute import Launch

#: Printed text that is kept, as much as CUDA's buffer holds by default.
MOST_PRINTED_BYTES = 1 << 20
_MOST_STRING_BYTES = 1 << 16
_MOST_WIDTH = 4096
#: flags, width, precision, length, conversion
_CONVERSION = re.compile(rb"%([-+ #0]*)(\*|\d+)?(\.(?:\*|\d*))?(hh|h|ll|l|j|z|t)?(.)", re.DOTALL)


class Printed:
    """What the blocks of a launch print, in the order of the blocks."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything, for the next run of the same launch."""
        self.parts: list[tuple[int, bytes]] = []
        self.size_bytes = 0
        self.is_cut = False

    def add(self, block: int, text: bytes) -> None:
        if self.size_bytes + len(text) > MOST_PRINTED_BYTES:
            self.is_cut = True
            return
        self.size_bytes += len(text)
        self.parts.append((block, text))

    @property
    def text(self) -> str:
        ordered = b"".join(text for _, text in sorted(self.parts, key=lambda part: part[0]))
        note = f"(more than {MOST_PRINTED_BYTES} bytes were printed; the rest is left out)\n" if self.is_cut else ""
        return ordered.decode("utf-8", "replace") + note


class DeviceCalls(PythonCalls):
    """Calls of these functions."""

    place, rows = Context.DEVICE_CALL, MOST_ARGUMENTS

    def __init__(self, launch: Launch, context: NDArray[np.int64]) -> None:
        super().__init__(launch, context)
        self.printed, self.lock = launch.printed, launch.lock

    def execute(self, item: FlatInstruction | None, action: int, lanes: list[int], values: Values) -> None:
        assert item is not None
        for lane in lanes:
            self.local = self.of_frame(Frame.LOCAL) + lane * int(self.context[Context.LOCAL_BYTES])
            try:
                values[0, lane] = self._one(item, [int(each) for each in values[:, lane]])
            except MisuseError as misuse:
                raise MisuseError(str(misuse), 1 << lane) from None

    def _one(self, item: FlatInstruction, values: list[int]) -> int:
        name = _name(item)
        if name == "vprintf":
            text, count = formatted(self._string(values[0]), values[1], self._bytes, self._string)
            with self.lock:
                self.printed.add(int(self.context[Context.BLOCK]), text)
            return count
        heap = self.memory.heap
        if name == "malloc":
            found = heap.allocate(values[0]) if heap is not None else 0
            self.context[Context.CHANGES] += 1
            return found
        if name == "free":
            if values[0] and (heap is None or not heap.release(values[0])):
                raise MisuseError(f"frees {values[0]:#x}, which malloc has not given, or which is free already")
            return 0
        expression, file = (self._string(each).decode("utf-8", "replace") for each in values[:2])
        known = item.instruction.place.line
        place = "" if known else f" ({file.rpartition('/')[2]}, line {values[2] & 0xFFFFFFFF})"
        raise MisuseError(f"an assertion fails: {expression}{place}")

    # -- memory -----------------------------------------------------------------------------------------

    def _room(self, address: int) -> tuple[int, int]:
        """The host's address of a generic address, and how many bytes follow there."""
        local = address - LOCAL_WINDOW
        if 0 <= local < self.context[Context.LOCAL_BYTES]:
            return self.local + local, int(self.context[Context.LOCAL_BYTES]) - local
        for each in self.memory.allocations:
            if each.address <= address < each.address + each.size_bytes:
                start = self.memory.content.ctypes.data + address - GLOBAL_WINDOW
                return start, each.address + each.size_bytes - address
        raise MisuseError(f"reads out of bounds at {address:#x}, {self.memory.near(address)}")

    def _bytes(self, address: int, size: int) -> bytes:
        start, room = self._room(address)
        if size > room:
            raise MisuseError(f"reads {size} bytes out of bounds at {address:#x}, {self.memory.near(address)}")
        return ctypes.string_at(start, size)

    def _string(self, address: int) -> bytes:
        start, room = self._room(address)
        return ctypes.string_at(start, min(room, _MOST_STRING_BYTES)).partition(b"\0")[0]


def _name(item: FlatInstruction) -> str:
    return next(each.name for each in item.instruction.operands if isinstance(each, Symbol))


def formatted(
    form: bytes, address: int, read: Callable[[int, int], bytes], string: Callable[[int], bytes]
) -> tuple[bytes, int]:
    """The text of printf and the number of its arguments; `read(address, bytes)` and `string(address)` find them."""
    position, count = address, 0

    def take(kind: str) -> Any:
        """The next argument, which lies at a multiple of its size."""
        nonlocal position, count
        size = struct.calcsize(kind)
        position = -(-position // size) * size
        (found,) = struct.unpack(kind, read(position, size))
        position, count = position + size, count + 1
        return found

    def replaced(match: re.Match[bytes]) -> bytes:
        flags, width, precision, length, conversion = match.groups(b"")
        if conversion == b"%":
            return b"%"
        sizes = [take("<i") if each == b"*" else int(each or b"0") for each in (width, precision.lstrip(b"."))]
        if conversion not in _KINDS or max(map(abs, sizes)) > _MOST_WIDTH:
            return match.group()
        letter, c_type = _KINDS[conversion]
        if letter == "i" and length in (b"l", b"ll", b"j", b"z", b"t"):
            letter, c_type, length = "q", ctypes.c_longlong, b"ll"
        value = take(f"<{letter}")
        given = string(value) if conversion == b"s" else value
        shape = flags + (b"%d" % sizes[0] if width else b"")
        shape += b".%d" % sizes[1] if precision and sizes[1] >= 0 else b""
        room = ctypes.create_string_buffer(_MOST_STRING_BYTES + 2 * _MOST_WIDTH)
        written = _snprintf()(room, len(room), b"%" + shape + length + conversion, c_type(given))
        return room.raw[: max(written, 0)]

    return _CONVERSION.sub(replaced, form), count


#: Conversions of printf: how an argument lies in memory, and its type in C.
_KINDS: dict[bytes, tuple[str, Any]] = {
    **dict.fromkeys((b"d", b"i", b"u", b"o", b"x", b"X", b"c"), ("i", ctypes.c_int)),
    **dict.fromkeys((b"f", b"F", b"e", b"E", b"g", b"G", b"a", b"A"), ("d", ctypes.c_double)),
    b"s": ("Q", ctypes.c_char_p),
    b"p": ("Q", ctypes.c_void_p),
}


@cache
def _snprintf() -> Any:
    library = ctypes.CDLL(None) if os.name != "nt" else ctypes.cdll.msvcrt
    return library.snprintf if hasattr(library, "snprintf") else library._snprintf
