"""Libraries that a program is linked with, and those among them that cannot work without a GPU."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import BinaryIO

from ...errors import InputError

#: Libraries whose kernels are machine code alone.
_CLOSED = (
    "libcublas",
    "libcudnn",
    "libcufft",
    "libcusparse",
    "libcusolver",
    "libcurand",
    "libnccl",
    "libnpp",
    "libnvjpeg",
)
_RUNTIME = "libcudart.so."
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS = 1, 5
_MOST_BYTES = 1 << 20


def check_libraries(program: str) -> None:
    """Refuse a program that is linked with libraries whose kernels are machine code alone."""
    found = shutil.which(program)
    if found is None:
        return
    closed = [name for name in needed_libraries(Path(found)) if name.startswith(_CLOSED)]
    if closed:
        raise InputError(
            f"{program}: is linked with {', '.join(closed)}, whose kernels are machine code for GPUs alone; use "
            "kernels with sources in their place, such as those of CUTLASS, CUB or Thrust, or trace the program on a "
            "GPU (warplens trace --on-gpu)"
        )


def runtime_major(program: Path) -> str | None:
    """The first part of the version of CUDA's runtime that a program is linked with, where it is a library.

    CUDA 11 has another layout of device properties under the same name; CUDA 13 other error codes.
    """
    names = (each.removeprefix(_RUNTIME) for each in needed_libraries(program) if each.startswith(_RUNTIME))
    return next((name.split(".")[0] for name in names), None)


def needed_libraries(path: Path) -> list[str]:
    """Names that an ELF program asks the loader for; none where it is no such program."""
    try:
        with path.open("rb") as file:
            return _needed(file)
    except (OSError, struct.error, ValueError, StopIteration):
        return []


def _needed(file: BinaryIO) -> list[str]:
    def read(offset: int, size: int) -> bytes:
        file.seek(offset)
        return file.read(min(size, _MOST_BYTES))

    header = _HEADER.unpack(read(0, _HEADER.size))
    if header[0][:6] != b"\x7fELF\x02\x01":
        return []
    raw = read(header[5], header[9] * header[10])
    segments = [_SEGMENT.unpack_from(raw, index * header[9]) for index in range(header[10])]
    dynamic = next((each for each in segments if each[0] == _DYNAMIC), None)
    if dynamic is None:
        return []
    entries = list(struct.iter_unpack("<qQ", read(dynamic[2], dynamic[5] // 16 * 16)))
    address = next(value for tag, value in entries if tag == _STRINGS)
    holding = next(each for each in segments if each[0] == _LOAD and 0 <= address - each[3] < each[5])
    offset = holding[2] + address - holding[3]
    strings = read(offset, _MOST_BYTES)
    return [strings[value : strings.index(b"\0", value)].decode() for tag, value in entries if tag == _NEEDED]
