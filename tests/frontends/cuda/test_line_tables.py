"""Line tables: every opcode of a line program, written by hand (DWARF 2, section 6.2)."""

from __future__ import annotations

import struct

import pytest

from warplens.frontends.cuda.line_tables import read_lines

LEAST, BASE, SPAN, FIRST = 2, -5, 14, 10
LENGTHS = bytes((0, 1, 1, 2, 1, 0, 0, 0, 1))


def table(program: bytes) -> tuple[bytes, int]:
    """A table, and where its program begins."""
    prologue = struct.pack("<BBbBB", LEAST, 1, BASE, SPAN, FIRST) + LENGTHS
    body = struct.pack("<HI", 2, len(prologue)) + prologue + program
    return struct.pack("<I", len(body)) + body, 4 + 6 + len(prologue)


def test_every_opcode_moves_address_and_line() -> None:
    set_address = b"\x00\x09\x02" + struct.pack("<Q", 0x100)
    program = set_address + bytes(
        (
            *(3, 0x7E, 1),  # two lines back, and a row
            *(2, 3, 1),  # three of the least steps
            *(8, 1),  # as far as opcode 255
            *(9, 16, 0, 1),  # 16 bytes
            *(4, 0x81, 0x01, 2, 1),  # an opcode with two arguments that says nothing here
            FIRST + SPAN * 2 + 7,  # two steps, and a line by 7 - 5
            *(0, 1, 1),  # the end of the sequence
        )
    )
    data, begin = table(program)
    steps = (0x100, 0x106, 0x106 + (255 - FIRST) // SPAN * LEAST)
    steps += (steps[2] + 16, steps[2] + 16)
    lines = [(address, -1) for address in steps] + [(steps[-1] + 2 * LEAST, 1)]
    assert read_lines(data, {begin + 3: "k"}) == {"k": lines}
    assert read_lines(data + data, {begin + 3: "k"}) == {"k": lines} and read_lines(data, {}) == {}
    with pytest.raises(ValueError, match="damaged cubin"):
        read_lines(data[:-1], {})
