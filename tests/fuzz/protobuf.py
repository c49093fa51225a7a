"""Mutations of Nsight Compute's reports: messages of protobuf in blocks, whose lengths stay right."""

from __future__ import annotations

import random
import struct

from .mutations import of_bytes

#: (number of the field, kind of its value, value); kinds are those of protobuf's wire format.
Field = tuple[int, int, int | bytes]
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
#: The field of a block's header that holds the length of what follows it.
_PAYLOAD = 5
_NUMBERS = (0, 1, 2, 127, 255, 65535, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 64) - 1)


def _number(raw: bytes, place: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = raw[place]
        place += 1
        found |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return found, place
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _packed(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def fields_of(raw: bytes) -> list[Field]:
    """The fields of a message; `ValueError` or `IndexError` where it is none."""
    found: list[Field] = []
    place = 0
    while place < len(raw):
        key, place = _number(raw, place)
        value: int | bytes
        if key & 7 == VARINT:
            value, place = _number(raw, place)
        else:
            size, place = _number(raw, place) if key & 7 == BYTES else ({FIXED64: 8, FIXED32: 4}[key & 7], place)
            value = raw[place : place + size]
            place += size
        if key >> 3 == 0 or place > len(raw):
            raise ValueError("no message")
        found.append((key >> 3, key & 7, value))
    return found


def message_of(fields: list[Field]) -> bytes:
    parts = []
    for number, kind, value in fields:
        parts.append(_packed(number << 3 | kind))
        if isinstance(value, int):
            parts.append(_packed(value))
        else:
            parts += [_packed(len(value)), value] if kind == BYTES else [value]
    return b"".join(parts)


def of_message(chance: random.Random, raw: bytes) -> bytes:
    """A field removed, repeated, moved or of another value, at any depth."""
    try:
        fields = fields_of(raw)
    except (ValueError, IndexError, KeyError):
        return of_bytes(chance, raw)
    if not fields:
        return bytes([chance.randrange(128), chance.randrange(128)])
    one, other = (chance.randrange(len(fields)) for _ in range(2))
    number, kind, value = fields[one]
    deeper = isinstance(value, bytes) and kind == BYTES and len(value) > 1
    what = chance.randrange(10 if deeper else 5)
    if what == 0:
        del fields[one]
    elif what == 1:
        fields.insert(other, fields[one])
    elif what == 2:
        fields[one] = (chance.choice((number + 1, 1, 500)), kind, value)
    elif what == 3:
        fields[one], fields[other] = fields[other], fields[one]
    elif isinstance(value, int):
        fields[one] = (number, kind, chance.choice(_NUMBERS))
    elif deeper:
        fields[one] = (number, kind, of_message(chance, value))
    else:
        fields[one] = (number, kind, bytes(chance.randrange(256) for _ in value))
    return message_of(fields)


def blocks_of(raw: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The begin of a report, and its blocks: a header, and the messages that follow, each behind its length."""
    place = 8 + struct.unpack_from("<I", raw, 4)[0]
    begin, found = raw[:place], []
    while place < len(raw):
        (size,) = struct.unpack_from("<I", raw, place)
        header = raw[place + 4 : place + 4 + size]
        length = next((value for number, _, value in fields_of(header) if number == _PAYLOAD), 0)
        assert isinstance(length, int)
        place += 4 + size + length
        found.append((header, raw[place - length : place]))
    return begin, found


def of_report(chance: random.Random, raw: bytes) -> bytes:
    """A block removed, repeated or moved, or one of its messages changed; or any bytes."""
    try:
        begin, blocks = blocks_of(raw)
    except (ValueError, IndexError, KeyError, AssertionError, struct.error):
        return of_bytes(chance, raw)
    if not blocks or chance.random() < 0.1:
        return of_bytes(chance, raw)
    one, other = (chance.randrange(len(blocks)) for _ in range(2))
    what = chance.randrange(8)
    if what == 0:
        del blocks[one]
    elif what == 1:
        blocks.insert(other, blocks[one])
    elif what == 2:
        blocks[one], blocks[other] = blocks[other], blocks[one]
    else:
        header, payload = blocks[one]
        if payload and what > 3:
            payload = _of_payload(chance, payload)
            header = message_of(
                [(number, kind, len(payload) if number == _PAYLOAD else v) for number, kind, v in fields_of(header)]
            )
        else:
            header = of_message(chance, header)
        blocks[one] = header, payload
    return begin + b"".join(struct.pack("<I", len(header)) + header + payload for header, payload in blocks)


def _of_payload(chance: random.Random, raw: bytes) -> bytes:
    parts, place = [], 0
    while place + 4 <= len(raw):
        (size,) = struct.unpack_from("<I", raw, place)
        parts.append(raw[place + 4 : place + 4 + size])
        place += 4 + size
    if place != len(raw):
        return of_message(chance, raw)
    one = chance.randrange(len(parts))
    parts[one] = of_message(chance, parts[one])
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)
