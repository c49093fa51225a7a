"""Trace files as pieces of text, decompressed as they are read."""

from __future__ import annotations

import lzma
import zlib
from pathlib import Path
from typing import Any

from ...errors import TraceError

#: Bytes of text per piece, and bytes of compressed data per read.
PIECE = 4 << 20
_COMPRESSED_PIECE = 1 << 18
#: Memory limit of xz: a dictionary larger than that of xz -9 means a damaged header.
_XZ_MEMORY = 256 << 20
_XZ_MAGIC = b"\xfd7zXZ\x00"
_GZ_MAGIC = b"\x1f\x8b"


class TextSource:
    """The text of a plain, .xz or .gz file, in pieces of bounded size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
            self.size = path.stat().st_size
            start = self._file.read(6)
            self._file.seek(0)
        except FileNotFoundError:
            raise TraceError(f"{path}: no such file") from None
        except OSError as error:
            raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from None
        self.done = 0
        if path.suffix == ".xz" or start == _XZ_MAGIC:
            self._kind, magic = "xz", _XZ_MAGIC
        elif path.suffix == ".gz" or start[:2] == _GZ_MAGIC:
            self._kind, magic = "gzip", _GZ_MAGIC
        else:
            self._kind, magic = "", b""
        if not start.startswith(magic):
            self.close()
            raise TraceError(f"{path}: is not {self._kind}-compressed as its name says; rename it or copy it again")
        self._decompressor: Any = None
        self._input = b""

    def close(self) -> None:
        self._file.close()

    def read(self) -> bytes:
        """The next piece of text; empty at the end of the file."""
        try:
            return self._decompressed() if self._kind else self._raw(PIECE)
        except (lzma.LZMAError, zlib.error) as error:
            raise TraceError(
                f"{self.path}: the {self._kind} data is damaged ({error}) near byte {self.done}; copy the file again"
            ) from None
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read ({error.strerror or error})") from None

    def _raw(self, size: int) -> bytes:
        data = self._file.read(size)
        self.done += len(data)
        return data

    def _decompressed(self) -> bytes:
        while True:
            if self._decompressor is None:
                # Streams may follow each other, with zeros between them.
                self._input = self._input.lstrip(b"\0") or self._raw(_COMPRESSED_PIECE)
                if not self._input:
                    return b""
                if self._input.count(0) == len(self._input):
                    continue
                self._decompressor = _xz() if self._kind == "xz" else _Gzip()
            text: bytes = self._decompressor.decompress(self._input, PIECE)
            self._input = b""
            if self._decompressor.eof:
                self._input = self._decompressor.unused_data
                self._decompressor = None
            if text:
                return text
            if self._decompressor is not None and self._decompressor.needs_input:
                self._input = self._raw(_COMPRESSED_PIECE)
                if not self._input:
                    raise TraceError(f"{self.path}: the {self._kind} data ends too early; copy the file again")


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


class _Gzip:
    """zlib's decompressor with the interface of lzma's."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self._full = False

    def decompress(self, data: bytes, most: int) -> bytes:
        text = self._inner.decompress(self._inner.unconsumed_tail + data, most)
        self._full = len(text) == most
        return text

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail and not self._full
