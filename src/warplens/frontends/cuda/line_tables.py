"""Line tables of a cubin: which line of a text each machine instruction comes from (DWARF 2, section 6.2).

A cubin that is compiled with lines has two: `.debug_line` names lines of the source, and `.nv_debug_line_sass`
names lines of the PTX. Nothing in them is trusted: every offset is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

_PROLOGUE = struct.Struct("<IHIBBbBB")
_END_SEQUENCE, _SET_ADDRESS = 1, 2


def read_lines(data: bytes, functions: Mapping[int, str]) -> dict[str, list[tuple[int, int]]]:
    """(Offset, line) rows of each function; `functions` by where the table holds their address.

    A row holds from its offset to the next one.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    at = 0
    try:
        while at < len(data):
            length, _, header, least, _, base, span, first = _PROLOGUE.unpack_from(data, at)
            end = at + 4 + length
            if end > len(data) or not span or not first:
                raise ValueError("damaged cubin: a line table lies outside its section")
            lengths = data[at + _PROLOGUE.size : at + _PROLOGUE.size + first - 1]
            _Run(data, functions, found, least, base, span, first, lengths).run(at + 10 + header, end)
            at = end
    except (struct.error, IndexError):
        raise ValueError("damaged cubin: a line table ends early") from None
    return found


class _Run:
    """Runs the program of one line table."""

    def __init__(
        self,
        data: bytes,
        functions: Mapping[int, str],
        found: dict[str, list[tuple[int, int]]],
        least: int,
        base: int,
        span: int,
        first: int,
        lengths: bytes,
    ) -> None:
        self.data, self.functions, self.found = data, functions, found
        self.least, self.base, self.span, self.first, self.lengths = least, base, span, first, lengths
        self.at, self.address, self.line, self.function = 0, 0, 1, ""

    def run(self, at: int, end: int) -> None:
        self.at = at
        while self.at < end:
            code = self.data[self.at]
            self.at += 1
            if code >= self.first:
                self.address += (code - self.first) // self.span * self.least
                self.line += self.base + (code - self.first) % self.span
                self._row()
            elif code == 0:
                self._extended()
            else:
                self._standard(code)

    def _row(self) -> None:
        if self.function:
            self.found.setdefault(self.function, []).append((self.address, self.line))

    def _extended(self) -> None:
        size = self._unsigned()
        code = self.data[self.at]
        if code == _SET_ADDRESS:
            self.function = self.functions.get(self.at + 1, "")
            (self.address,) = struct.unpack_from("<Q", self.data, self.at + 1)
        elif code == _END_SEQUENCE:
            self.address, self.line, self.function = 0, 1, ""
        self.at += size

    def _standard(self, code: int) -> None:
        if code == 1:
            self._row()
        elif code == 2:
            self.address += self._unsigned() * self.least
        elif code == 3:
            self.line += self._signed()
        elif code == 8:
            self.address += (255 - self.first) // self.span * self.least
        elif code == 9:
            self.address += struct.unpack_from("<H", self.data, self.at)[0]
            self.at += 2
        else:
            for _ in range(self.lengths[code - 1]):
                self._unsigned()

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return value

    def _signed(self) -> int:
        begin = self.at
        value = self._unsigned()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value
