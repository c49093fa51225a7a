"""Resources of the kernels in a cubin: registers, shared memory and stack.

A cubin is an ELF file. Its `.nv.info` section is a list of attributes; two of
them hold a number per function, and the size of `.nv.shared.KERNEL` is the
static shared memory. Nothing in the file is trusted: every offset is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_MOST_SECTIONS = 1 << 16
_MOST_SYMBOLS = 1 << 20
_SYMBOL_BYTES = 24
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")

_TYPE_FUNCTION = 2
_OTHER_ENTRY = 0x10  # STO_CUDA_ENTRY: a kernel, not a device function
_FORMAT_SIZED = 0x04  # the attribute is followed by as many bytes as its 16-bit value says
_FRAME_SIZE, _REGISTER_COUNT = 0x11, 0x2F
#: From sm_80 on, the section includes the shared memory that the system reserves; this section indicates it.
_RESERVED_SECTION, _RESERVED_BYTES = ".nv.shared.reserved.0", 1024


@dataclass(frozen=True)
class KernelResources:
    """Resources of one compiled kernel."""

    registers_per_thread: int
    shared_memory_bytes: int = 0
    """Static shared memory of a block, without what the system reserves."""
    stack_bytes: int = 0
    """Local memory of a thread."""


@dataclass(frozen=True)
class Section:
    """Where a section of the file lies."""

    name: str
    offset: int
    size: int
    held: bool  # whether its bytes are in the file (NOBITS ones are not)


def read_cubin(data: bytes) -> dict[str, KernelResources]:
    """Resources of every kernel; ValueError with the reason for an unreadable file."""
    sections = sections_of(data)
    by_name = {section.name: section for section in sections}
    kernels = symbols_of(data, by_name, _OTHER_ENTRY)
    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    for attribute, symbol, value in _attributes(bytes_of(data, by_name, ".nv.info")):
        if symbol in kernels and attribute == _REGISTER_COUNT:
            registers[kernels[symbol]] = value
        elif symbol in kernels and attribute == _FRAME_SIZE:
            frames[kernels[symbol]] = value
    result = {}
    for name, count in registers.items():
        shared = by_name.get(f".nv.shared.{name}")
        bytes_of_block = shared.size if shared else 0
        if shared and _RESERVED_SECTION in by_name:
            bytes_of_block = max(bytes_of_block - _RESERVED_BYTES, 0)
        result[name] = KernelResources(count, bytes_of_block, frames.get(name, 0))
    return result


def sections_of(data: bytes) -> list[Section]:
    if len(data) < _HEADER.size or data[:4] != b"\x7fELF" or data[4:6] != b"\x02\x01":
        raise ValueError("not a cubin: no 64-bit little-endian ELF header")
    header = _HEADER.unpack_from(data)
    start, entry_bytes, count, names_index = header[6], header[11], header[12], header[13]
    if entry_bytes != _SECTION.size or count > _MOST_SECTIONS or start + count * entry_bytes > len(data):
        raise ValueError("damaged cubin: the section table lies outside the file")
    raw = [_SECTION.unpack_from(data, start + index * entry_bytes) for index in range(count)]
    if names_index >= count:
        raise ValueError("damaged cubin: no section of names")
    names = _slice(data, raw[names_index][4], raw[names_index][5])
    return [Section(_text(names, row[0]), row[4], row[5], row[1] != 8) for row in raw]


def _slice(data: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(data):
        raise ValueError("damaged cubin: a section lies outside the file")
    return data[offset : offset + size]


def _text(names: bytes, offset: int) -> str:
    end = names.find(b"\0", offset)
    if offset > len(names) or end < 0:
        raise ValueError("damaged cubin: a name lies outside its table")
    return names[offset:end].decode("utf-8", "replace")


def bytes_of(data: bytes, sections: Mapping[str, Section], name: str) -> bytes:
    section = sections.get(name)
    if section is None or not section.held:
        raise ValueError(f"damaged cubin: no section {name}")
    return _slice(data, section.offset, section.size)


def symbols_of(data: bytes, sections: Mapping[str, Section], other_bits: int = 0) -> dict[int, str]:
    """Functions by the index of their symbol; only those with these bits among their other ones."""
    table, names = bytes_of(data, sections, ".symtab"), bytes_of(data, sections, ".strtab")
    count = len(table) // _SYMBOL_BYTES
    if count > _MOST_SYMBOLS:
        raise ValueError("damaged cubin: too many symbols")
    found = {}
    for index in range(count):
        name, information, other, *_ = _SYMBOL.unpack_from(table, index * _SYMBOL_BYTES)
        if information & 0xF == _TYPE_FUNCTION and other & other_bits == other_bits:
            found[index] = _text(names, name)
    return found


def _attributes(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(attribute, symbol, value) of the attributes that hold a number per function."""
    at = 0
    while at + 4 <= len(data):
        kind, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if kind != _FORMAT_SIZED:
            continue
        if at + size > len(data):
            raise ValueError("damaged cubin: an attribute lies outside its section")
        if size == 8:
            yield attribute, *struct.unpack_from("<II", data, at)
        at += size
