"""PTX and cubins in the fat binaries that nvcc puts into programs, compressed or not.

A fat binary is a header, then entries: a header each, then PTX text or a cubin,
plain or compressed with LZ4 (until CUDA 12.3) or Zstandard. Nothing in it is
trusted: every offset is checked.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ...errors import PtxError

MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_PTX, _CUBIN = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000
_TARGET = re.compile(rb"^\s*\.target\s+sm_\d+([af]?)\b", re.MULTILINE)
#: Longest text or cubin once it is unpacked.
MOST_BYTES = 1 << 29


@dataclass(frozen=True)
class FatEntry:
    """One image: PTX text for a virtual architecture, or a cubin for a real one."""

    is_ptx: bool
    #: 90 for compute capability 9.0.
    architecture: int
    data: bytes

    @cached_property
    def features(self) -> str:
        """What a PTX text asks for beside its architecture: "a" for `sm_90a`, which no other GPU runs, or "f"."""
        target = _TARGET.search(self.data) if self.is_ptx else None
        return target[1].decode() if target else ""


def read_images(data: bytes) -> list[FatEntry]:
    """All images of one or several fat binaries, a cubin or a PTX text."""
    if data[:4] == b"\x7fELF":
        return [FatEntry(False, 0, data)]
    if int.from_bytes(data[:4], "little") != MAGIC:
        return [FatEntry(True, 0, data.rstrip(b"\0"))]
    found: list[FatEntry] = []
    at = 0
    while at + _HEADER.size <= len(data):
        magic, _, header_bytes, size = _HEADER.unpack_from(data, at)
        if magic != MAGIC or header_bytes < _HEADER.size or at + header_bytes + size > len(data):
            break
        found += _entries(data[at + header_bytes : at + header_bytes + size])
        at += header_bytes + size
    return found


def _entries(data: bytes) -> Iterator[FatEntry]:
    at = 0
    while at + _ENTRY.size <= len(data):
        kind, _, header, size, packed, _, _, _, architecture, _, _, flags, _, unpacked = _ENTRY.unpack_from(data, at)
        body = data[at + header : at + header + size]
        if header < 8 or len(body) != size:
            raise PtxError("a fat binary of the program is damaged: an image lies outside it")
        if kind in (_PTX, _CUBIN):
            yield FatEntry(kind == _PTX, architecture, _unpacked(body, flags, packed, unpacked))
        at += header + size


def _unpacked(body: bytes, flags: int, packed: int, unpacked: int) -> bytes:
    codec = "lz4_raw" if flags & _LZ4 else "zstd" if flags & _ZSTD else None
    if codec is None:
        return body.rstrip(b"\0") if not body.startswith(b"\x7fELF") else body
    if unpacked > MOST_BYTES or packed > len(body):
        raise PtxError("a fat binary of the program is damaged: the size of an image is impossible")
    import pyarrow as pa

    try:
        text: bytes = pa.Codec(codec).decompress(body[:packed], unpacked, asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise PtxError(f"a fat binary of the program cannot be unpacked ({error})") from None
    return text if text.startswith(b"\x7fELF") else text.rstrip(b"\0")
