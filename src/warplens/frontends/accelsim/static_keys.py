"""Static instructions as the parser finds them: keys by their bytes, decoded once each."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ...traces import StaticInstruction, StaticTable, static_table
from ..sass_opcodes import access_width, decode_opcode
from ._parser_state import KEY_LIMIT, Keys

#: More distinct instructions than any kernel has. Beyond this, the text is damaged or malicious.
LIMIT = 1 << 20
_OPCODE = re.compile(r"[A-Za-z_][!-~]*", re.ASCII)
_REGISTER = re.compile(r"R(\d{1,5})", re.ASCII)
_IMMEDIATE = re.compile(r"([+-]?\d{1,19})|(0[xX][0-9a-fA-F]{1,16})", re.ASCII)


class StaticKeys:
    """The table of keys that the compiled parser fills, and the instructions they stand for."""

    def __init__(self, path: object, version: int, lineinfo: bool) -> None:
        self._path, self._version, self._lineinfo = path, version, lineinfo
        self.rows: list[StaticInstruction] = []
        #: Memory widths in the order of `rows`, as the trace gives them.
        self.widths: list[int] = []
        self._index: dict[tuple[StaticInstruction, int], int] = {}
        #: Row of each key; keys that differ only in notation (020, 0x20) share a row.
        self._row_of: list[int] = []
        self._same = True
        self.keys = _empty_keys(256, 1 << 14)

    def grow(self, count: int, size: int) -> None:
        """Make room for more than `count` keys and `size` bytes, whichever is used up."""
        from ._parser_kernels import fill_slots

        if count >= LIMIT:
            raise TraceError(f"{self._path}: more than {LIMIT} distinct instructions; the trace is damaged")
        old = self.keys
        full = count == len(old.hash)
        self.keys = _empty_keys(len(old.hash) * (2 if full else 1), len(old.text) * (1 if full else 2))
        self.keys.start[: count + 1] = old.start[: count + 1]
        self.keys.hash[:count] = old.hash[:count]
        self.keys.line[:count] = old.line[:count]
        self.keys.text[:size] = old.text[:size]
        fill_slots(self.keys.hash, count, self.keys.slots)

    def decode(self, count: int) -> None:
        """Decode the keys that were added since the last call."""
        for key in range(len(self._row_of), count):
            raw = self.keys.text[self.keys.start[key] : self.keys.start[key + 1] - 1].tobytes()
            found = self._instruction(raw.decode("latin-1").split(" "), int(self.keys.line[key]))
            row = self._index.setdefault(found, len(self.rows))
            if row == len(self.rows):
                self.rows.append(found[0])
                self.widths.append(found[1])
            self._same = self._same and row == key
            self._row_of.append(row)

    def rows_of(self, keys: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Rows of the static table for an array of keys."""
        if self._same:
            return keys.astype(np.uint32)
        return np.array(self._row_of, dtype=np.uint32)[keys]

    def table(self) -> StaticTable:
        return static_table(self.rows)

    def _instruction(self, words: list[str], number: int) -> tuple[StaticInstruction, int]:
        """One instruction from its words; the parser has checked their number."""
        line = int(words.pop(0)) if self._lineinfo else 0
        pc = int(words.pop(0), 16)
        destinations = self._registers(words, number)
        opcode = words.pop(0)
        if _OPCODE.fullmatch(opcode) is None:
            raise TraceError(f"{self._path}:{number}: {opcode!r} is not an opcode; expected letters, digits and dots")
        sources = self._registers(words, number)
        width = int(words.pop(0))
        immediate = self._immediate(words.pop(0), number) if self._version >= 4 else 0
        known = decode_opcode(opcode)
        return StaticInstruction(
            pc=pc,
            opcode=opcode,
            instruction_class=known.instruction_class,
            space=known.space,
            access_bytes=access_width(opcode) if width else 0,
            destinations=destinations,
            sources=sources,
            line=line,
            immediate=immediate,
        ), width

    def _registers(self, words: list[str], number: int) -> tuple[int, ...]:
        count = int(words.pop(0))
        taken, words[:count] = words[:count], []
        found = []
        for word in taken:
            match = _REGISTER.fullmatch(word)
            if match is None or int(match[1]) > 0xFFFF:
                raise TraceError(f"{self._path}:{number}: {word!r} is not a register; expected R and a number")
            found.append(int(match[1]))
        return tuple(found)

    def _immediate(self, word: str, number: int) -> int:
        match = _IMMEDIATE.fullmatch(word)
        value = 0 if match is None else int(word, 16 if match[2] else 10)
        if match is None or not -(1 << 63) <= value < 1 << 63:
            raise TraceError(
                f"{self._path}:{number}: the immediate {word!r} is not a 64-bit number "
                "(are there too few or too many addresses for the mask?)"
            )
        return value


def _empty_keys(keys: int, text: int) -> Keys:
    """An empty table for `keys` keys (a power of two) and `text` bytes."""
    return Keys(
        start=np.zeros(keys + 1, dtype=np.int64),
        hash=np.zeros(keys, dtype=np.uint64),
        line=np.zeros(keys, dtype=np.int64),
        text=np.zeros(text, dtype=np.uint8),
        slots=np.full(keys * 4, -1, dtype=np.int64),
        scratch=np.zeros(KEY_LIMIT + 64, dtype=np.uint8),
    )
