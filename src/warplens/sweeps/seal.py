"""Checksums of a Parquet file, between its last row group and its footer, where other readers see nothing.

Parquet's own checksums cover the data of pages only; these cover each row group
with its page headers, and the footer.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from ..errors import FileError

#: Length of the list of checksums, checksum of list and footer, mark.
_TAIL = struct.Struct("<II8s")
_MARK = b"warplens"
#: A file ends with the length of its footer and a mark of the format.
_END = struct.Struct("<I4s")
_REMEDY = "delete it, and the command that wrote it starts again"


@dataclass(frozen=True)
class GroupSeal:
    """Where a row group lies, and its checksum."""

    start: int
    end: int
    checksum: int

    def holds(self, path: Path) -> bool:
        """Whether the row group is as it was written."""
        with path.open("rb") as file:
            file.seek(self.start)
            return zlib.crc32(file.read(self.end - self.start)) == self.checksum


def add_seal(path: Path) -> None:
    """Seal a file that was just written."""
    raw = path.read_bytes()
    length, _ = _END.unpack(raw[-_END.size :])
    footer = raw[-_END.size - length :]
    metadata = pq.read_metadata(path)
    seals = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(index) for index in range(group.num_columns)]
        start = min(each.dictionary_page_offset or each.data_page_offset for each in columns)
        end = start + sum(each.total_compressed_size for each in columns)
        seals.append([start, end, zlib.crc32(raw[start:end])])
    listed = json.dumps(seals).encode()
    tail = _TAIL.pack(len(listed), zlib.crc32(listed + footer), _MARK)
    with path.open("r+b") as file:
        file.seek(-len(footer), os.SEEK_END)
        file.write(listed + tail + footer)


def read_seal(path: Path) -> list[GroupSeal]:
    """The seals of a file's row groups; `FileError` where its footer is not as it was written."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(size - _END.size)
            length, _ = _END.unpack(file.read())
            file.seek(size - _END.size - length - _TAIL.size)
            listed_bytes, checksum, mark = _TAIL.unpack(file.read(_TAIL.size))
            footer = file.read()
            file.seek(size - len(footer) - _TAIL.size - listed_bytes)
            listed = file.read(listed_bytes)
    except (OSError, struct.error) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FileError(f"{path}: is damaged; {_REMEDY}") from None
    if mark != _MARK or zlib.crc32(listed + footer) != checksum:
        raise FileError(f"{path}: is damaged, or of an older version; {_REMEDY}")
    return [GroupSeal(*each) for each in json.loads(listed)]
