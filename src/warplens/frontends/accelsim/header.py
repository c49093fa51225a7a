"""The header of a kernel trace: `-key = value` lines, up to the first line that starts with `#`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import TraceError
from ...traces import LaunchHeader
from ...traces.headers import MOST_BLOCKS, MOST_EXTENT, MOST_REGISTERS, MOST_SHARED_BYTES, MOST_THREADS

VERSIONS = (2, 3, 4, 5)
ORIGIN = "accelsim"
_REQUIRED = ("kernel name", "grid dim", "block dim", "accelsim tracer version")


@dataclass(frozen=True)
class KernelHeader:
    """The parsed header; `others` holds unknown keys, kept for export."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    tracer_version: int
    kernel_id: int = 0
    shared_memory: int = 0
    registers: int = 0
    binary_version: int = 0
    stream_id: int = 0
    shared_base: int = 0
    local_base: int = 0
    nvbit_version: str = ""
    lineinfo: bool = False
    others: Mapping[str, str] = field(default_factory=dict)
    #: What an analysis needs but the trace lacks.
    missing: tuple[str, ...] = ()

    def launch_header(self, launch_index: int, extra: Mapping[str, Any]) -> LaunchHeader:
        """The common launch header; values specific to this format go to `extra`."""
        return LaunchHeader(
            kernel=self.kernel,
            grid=self.grid,
            block=self.block,
            registers_per_thread=self.registers,
            shared_memory_per_block_bytes=self.shared_memory,
            launch_index=launch_index,
            origin=ORIGIN,
            missing=self.missing,
            extra={
                "kernel_id": self.kernel_id,
                "binary_version": self.binary_version,
                "cuda_stream_id": self.stream_id,
                "shared_base_address": self.shared_base,
                "local_base_address": self.local_base,
                "nvbit_version": self.nvbit_version,
                "tracer_version": self.tracer_version,
                "lineinfo": self.lineinfo,
                **({"header": dict(self.others)} if self.others else {}),
                **extra,
            },
        )


def header_of(header: LaunchHeader, *, version: int, lineinfo: bool, number: int) -> KernelHeader:
    """The header to write for launch `number` of a list, from any front end."""
    extra = header.extra
    return KernelHeader(
        kernel=_one_line(header.kernel) or "unnamed",
        grid=header.grid,
        block=header.block,
        tracer_version=version,
        kernel_id=_integer(extra.get("kernel_id"), number),
        shared_memory=header.shared_memory_per_block_bytes,
        registers=header.registers_per_thread,
        binary_version=_integer(extra.get("binary_version"), 70),
        stream_id=_integer(extra.get("cuda_stream_id"), 0),
        shared_base=_integer(extra.get("shared_base_address"), 0),
        local_base=_integer(extra.get("local_base_address"), 0),
        nvbit_version=_one_line(str(extra.get("nvbit_version", ""))),
        lineinfo=lineinfo or bool(extra.get("lineinfo")),
        others={_one_line(str(k)): _one_line(str(v)) for k, v in dict(extra.get("header") or {}).items()},
    )


def write_header(header: KernelHeader) -> str:
    """The header as text, with the line that ends it."""
    rows = {
        "kernel name": header.kernel,
        "kernel id": header.kernel_id,
        "grid dim": "({},{},{})".format(*header.grid),
        "block dim": "({},{},{})".format(*header.block),
        "shmem": header.shared_memory,
        "nregs": header.registers,
        "binary version": header.binary_version,
        "cuda stream id": header.stream_id,
        "shmem base_addr": f"0x{header.shared_base:016x}",
        "local mem base_addr": f"0x{header.local_base:016x}",
        "nvbit version": header.nvbit_version,
        "accelsim tracer version": header.tracer_version,
        "enable lineinfo": int(header.lineinfo),
        **header.others,
    }
    prefix = "threadblock_x threadblock_y threadblock_z warpid_tb " if header.tracer_version < 3 else ""
    suffix = " immediate" if header.tracer_version >= 4 else ""
    text = "".join(f"-{key} = {value}\n" for key, value in rows.items())
    return (
        f"{text}\n#traces format = {prefix}[line_num] PC mask dest_num [reg_dests] opcode src_num [reg_srcs] "
        f"mem_width [adrrescompress?] [mem_addresses]{suffix}\n\n"
    )


class HeaderParser:
    """Takes header lines one by one; errors name the file and the line."""

    def __init__(self, path: object) -> None:
        self._path = path
        self._values: dict[str, tuple[str, int]] = {}

    def add(self, raw: bytes, number: int) -> None:
        """One line, without its end, that is not blank and does not start with `#`."""
        try:
            line = raw.decode("utf-8").replace("\t", " ").strip()
        except UnicodeDecodeError:
            raise TraceError(f"{self._path}:{number}: is not text; is this a kernel trace?") from None
        key, equals, value = line[1:].partition("=")
        key = " ".join(key.split())
        if not line.startswith("-") or not equals or not key or not line.isprintable():
            shown = line if len(line) <= 70 else line[:67] + "..."
            raise TraceError(
                f"{self._path}:{number}: {shown!r} is not a header line; expected '-key = value', or a line with # "
                "that ends the header"
            )
        if key in self._values:
            raise TraceError(f"{self._path}:{number}: '{key}' was given before, on line {self._values[key][1]}")
        self._values[key] = (value.strip(), number)

    def finish(self, number: int) -> KernelHeader:
        """The header, after its last line (`number`)."""
        for key in _REQUIRED:
            if key not in self._values:
                raise TraceError(f"{self._path}:{number}: the header ends without '-{key} = ...'; add it")
        version = self._integer("accelsim tracer version")
        if version not in VERSIONS:
            raise self._bad("accelsim tracer version", f"versions {VERSIONS[0]} to {VERSIONS[-1]} can be read")
        missing = [*(("source lines",) if not self._integer("enable lineinfo") else ()), "predicates"]
        missing += ["immediates"] if version < 4 else []
        missing += [key for key in ("nregs", "shmem") if key not in self._values]
        header = KernelHeader(
            kernel=self._values["kernel name"][0],
            grid=self._triple("grid dim"),
            block=self._triple("block dim"),
            tracer_version=version,
            kernel_id=self._integer("kernel id"),
            shared_memory=self._integer("shmem"),
            registers=self._integer("nregs"),
            binary_version=self._integer("binary version"),
            stream_id=self._integer("cuda stream id"),
            shared_base=self._integer("shmem base_addr", 16),
            local_base=self._integer("local mem base_addr", 16),
            nvbit_version=self._values.get("nvbit version", ("", 0))[0],
            lineinfo=bool(self._integer("enable lineinfo")),
            others={key: value for key, (value, _) in self._values.items() if key not in _KNOWN},
            missing=tuple(missing),
        )
        if not header.kernel:
            raise self._bad("kernel name", "expected a name")
        if header.grid[0] * header.grid[1] * header.grid[2] > MOST_BLOCKS:
            raise self._bad("grid dim", "no grid has that many blocks")
        if header.shared_memory > MOST_SHARED_BYTES:
            raise self._bad("shmem", "no block has that much shared memory")
        if header.registers > MOST_REGISTERS:
            raise self._bad("nregs", "no thread has that many registers")
        if header.block[0] * header.block[1] * header.block[2] > MOST_THREADS:
            raise self._bad("block dim", "no block has that many threads")
        return header

    def _integer(self, key: str, base: int = 10) -> int:
        text = self._values.get(key, ("0", 0))[0]
        pattern = r"\d{1,20}" if base == 10 else r"(0[xX])?[0-9a-fA-F]{1,16}"
        if re.fullmatch(pattern, text, re.ASCII) is None:
            raise self._bad(key, "expected a number" if base == 10 else "expected a hexadecimal number")
        return int(text, base)

    def _triple(self, key: str) -> tuple[int, int, int]:
        found = re.fullmatch(
            r"\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)", self._values[key][0], re.ASCII
        )
        if found is None:
            raise self._bad(key, "expected (x,y,z)")
        x, y, z = (int(text) for text in found.groups())
        if not all(0 < each <= MOST_EXTENT for each in (x, y, z)):
            raise self._bad(key, f"each must be from 1 to {MOST_EXTENT}")
        return x, y, z

    def _bad(self, key: str, remedy: str) -> TraceError:
        value, number = self._values[key]
        shown = value if len(value) <= 70 else value[:67] + "..."
        return TraceError(f"{self._path}:{number}: '{key}' is {shown!r}; {remedy}")


_KNOWN = frozenset(
    (
        *_REQUIRED,
        *("kernel id", "shmem", "nregs", "binary version", "cuda stream id", "shmem base_addr"),
        *("local mem base_addr", "nvbit version", "enable lineinfo"),
    )
)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _integer(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 64 else otherwise
