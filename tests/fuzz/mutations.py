"""Mutations that know the structure of an input: lines and values of text, trees of JSON, entries of archives."""

from __future__ import annotations

import io
import json
import random
import re
import struct
from copy import deepcopy
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

NUMBERS = [
    "0",
    "-1",
    "1",
    "255",
    "65535",
    "4294967296",
    "1e18",
    "1e999",
    "-0.0",
    "nan",
    "99999999999999999999",
    "0x7f",
]
JSON_VALUES: list[Any] = [None, True, 0, -1, 1 << 62, 1 << 64, 0.5, 1e308, "", "x", [], [1], {}, {"x": 1}, "\0", "é"]


def of_bytes(chance: random.Random, raw: bytes) -> bytes:
    """Flip, remove, repeat, or overwrite a stretch."""
    content = bytearray(raw)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(content) + 1)
        length = chance.choice((1, 2, 4, 8, 64))
        kind = chance.randrange(5)
        if kind == 0 and place < len(content):
            content[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del content[place : place + length]
        elif kind == 2:
            content[place:place] = content[place : place + length]
        elif kind == 3:
            content[place : place + length] = chance.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * length
        else:
            del content[chance.randrange(len(content) + 1) :]
    return bytes(content)


def of_words(chance: random.Random, raw: bytes) -> bytes:
    """Bits of 16-byte records flipped, or records swapped; the length stays."""
    content = bytearray(raw)
    for _ in range(chance.randint(1, 4)):
        one, other = (16 * chance.randrange(len(content) // 16) for _ in range(2))
        if chance.random() < 0.5:
            content[one + chance.randrange(16)] ^= 1 << chance.randrange(8)
        else:
            content[one : one + 16], content[other : other + 16] = (
                content[other : other + 16],
                content[one : one + 16],
            )
    return bytes(content)


def of_messages(chance: random.Random, raw: bytes) -> bytes:
    """Messages of a program removed, repeated or swapped, their numbers replaced, and their bytes."""
    head = struct.Struct("<II7q")
    messages, place = [], 0
    while place + head.size <= len(raw):
        size = head.size + head.unpack_from(raw, place)[1]
        messages.append(raw[place : place + size])
        place += size
    for _ in range(chance.randint(1, 3)):
        one, other = (chance.randrange(len(messages)) for _ in range(2))
        kind = chance.randrange(8)
        op, _, *arguments = head.unpack_from(messages[one])
        data = messages[one][head.size :]
        if kind == 0 and len(messages) > 1:
            del messages[one]
            continue
        if kind == 1:
            messages.insert(one, messages[other])
            continue
        if kind == 2:
            messages[one], messages[other] = messages[other], messages[one]
            continue
        if kind == 3:
            op = chance.choice((head.unpack_from(messages[other])[0], op ^ 1 << 31))
        elif kind == 4:
            data = of_text(chance, data)  # the PTX of a module, names
        elif kind == 5:
            data = of_bytes(chance, data)
        else:
            new = chance.choice((0, -1, 1, 2, 255, 65535, 1 << 32, 1 << 62, -(1 << 63), 1 << chance.randrange(63)))
            arguments[chance.randrange(7)] = new
        size = len(data) if chance.random() < 0.95 else chance.choice((0, len(data) + 1, 1 << 20, 1 << 31))
        messages[one] = head.pack(op, size, *arguments) + data
    return b"".join(messages)


def of_text(chance: random.Random, raw: bytes) -> bytes:
    """Lines removed, repeated or swapped; numbers and words replaced by others."""
    if chance.random() < 0.15:
        return of_bytes(chance, raw)
    lines = raw.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(chance.randint(1, 3)):
        place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        kind = chance.randrange(6)
        if kind == 0 and len(lines) > 1:
            del lines[place]
        elif kind == 1:
            lines.insert(place, lines[other])
        elif kind == 2:
            lines[place], lines[other] = lines[other], lines[place]
        elif kind == 3:
            lines[place] = re.sub(r"\d[\w.]*", lambda _: chance.choice(NUMBERS), lines[place], count=1)
        elif kind == 4:
            words = re.findall(r"[A-Za-z_.]+", lines[other]) or ["x"]
            lines[place] = re.sub(r"[A-Za-z_.]+", lambda _: chance.choice(words), lines[place], count=1)  # noqa: B023
        else:
            at = chance.randrange(len(lines[place]) + 1)
            lines[place] = lines[place][:at] + chance.choice("[]{}()=\"'.,;#\\@%\0é–-") + lines[place][at:]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def of_json(chance: random.Random, raw: bytes) -> bytes:
    """A value, a key or an item of the tree replaced, removed or repeated."""
    try:
        tree = json.loads(raw)
    except ValueError:  # an input of the corpus that is none any more
        return of_bytes(chance, raw)
    if chance.random() < 0.1:
        return of_bytes(chance, raw)
    for _ in range(chance.randint(1, 3)):
        places = list(_places(tree))
        if not places:
            break
        parent, key = chance.choice(places)
        kind = chance.randrange(4)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, list):
            parent.insert(key, parent[key])
        elif kind == 2 and isinstance(parent, dict):
            parent[chance.choice(["x", "", str(key) * 2])] = parent.pop(key)
        else:
            parent[key] = deepcopy(chance.choice(JSON_VALUES))
    return json.dumps(tree).encode()


def _places(tree: Any) -> Any:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from _places(tree[key])


def of_archive(chance: random.Random, raw: bytes) -> bytes:
    """One entry of a ZIP file mutated, with a right checksum; or the bytes of the archive."""
    try:
        with ZipFile(io.BytesIO(raw)) as source:
            entries = {name: source.read(name) for name in source.namelist()}
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError, KeyError):
        return of_bytes(chance, raw)
    if not entries or chance.random() < 0.3:
        return of_bytes(chance, raw)
    name = chance.choice(list(entries))
    entries[name] = (of_json if name.endswith(".json") else of_bytes)(chance, entries[name])
    if chance.random() < 0.1:
        del entries[chance.choice(list(entries))]
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_STORED) as target:
        for each, content in entries.items():
            target.writestr(each, content)
    return made.getvalue()
