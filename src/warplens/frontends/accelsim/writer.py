"""Traces of any front end as Accel-Sim's text: a folder with a list and a file per launch."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...errors import TraceError
from ...traces import CLASS_NAMES, SPACES, LaunchTrace, StaticTable, WarpGroup
from ...traces.block_set import BlockSet
from ..sass_opcodes import access_width, decode_opcode, representative
from ._format_state import CURSOR, LINE_ROOM, GroupColumns, LineTexts, Texts, WarpTexts
from .header import VERSIONS, header_of, write_header
from .lists import write_list
from .reader import PARTIAL_NOTE

_BUFFER = 4 << 20
_OPCODE = re.compile(r"[A-Za-z_][!-~]*", re.ASCII)
_SUFFIX = {"xz": ".xz", "gz": ".gz", None: ""}
LIST_NAME = "kernelslist.g"


def export_launches(
    launches: Iterable[LaunchTrace], folder: str | Path, *, version: int = 4, compression: str | None = "xz"
) -> list[Path]:
    """Write launches, then their list if all went well; returns the kernel files."""
    folder = Path(folder)
    if version not in VERSIONS:
        raise TraceError(f"tracer version {version} cannot be written; choose {VERSIONS[0]} to {VERSIONS[-1]}")
    if compression not in _SUFFIX:
        raise TraceError(f"compression {compression!r} cannot be written; choose 'xz', 'gz' or None")
    entries: list[str | tuple[int, int]] = []
    names: list[str] = []
    try:
        with _appear_together(folder) as place:
            for number, launch in enumerate(launches, 1):
                names.append(f"kernel-{number}.traceg{_SUFFIX[compression]}")
                with _open(place / names[-1], compression) as file:
                    _LaunchWriter(launch, version, number).write(file)
                entries += [*_copies(launch, "memcpys"), names[-1], *_copies(launch, "memcpys_after")]
            if not names:
                raise TraceError(f"{folder}: there is no launch to write")
            write_list(place / LIST_NAME, entries)
    except OSError as error:
        raise TraceError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return [folder / name for name in names]


def _copies(launch: LaunchTrace, key: str) -> list[tuple[int, int]]:
    return [(int(address), int(size)) for address, size in launch.header.extra.get(key) or ()]


@contextmanager
def _appear_together(folder: Path) -> Iterator[Path]:
    """A temporary folder; its files move to `folder` if nothing failed."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".export-", dir=folder) as place:
            yield Path(place)
            for path in sorted(Path(place).iterdir(), key=lambda each: each.name == LIST_NAME):
                path.replace(folder / path.name)
    except BaseException:
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def _open(path: Path, compression: str | None) -> Iterator[IO[bytes]]:
    """A file for many small writes."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("wb"))
        if compression == "xz":
            file = stack.enter_context(lzma.LZMAFile(file, "wb", preset=1))
        elif compression == "gz":
            # No name and no time inside: the same trace gives the same bytes.
            file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        yield stack.enter_context(io.BufferedWriter(file, 1 << 20))


class _LaunchWriter:
    """One launch as text."""

    def __init__(self, launch: LaunchTrace, version: int, number: int) -> None:
        self._launch, self._version = launch, version
        lineinfo = bool(len(launch.static) and launch.static.line.any())
        self._header = header_of(launch.header, version=version, lineinfo=lineinfo, number=number)
        self._static = _StaticText(launch.static, launch.header.extra, version, self._header.lineinfo)
        self._out = np.zeros(_BUFFER + self._static.longest + LINE_ROOM, dtype=np.uint8)
        self._seen = BlockSet()
        self._block = -1

    def write(self, file: IO[bytes]) -> None:
        file.write(write_header(self._header).encode())
        for group in self._launch.groups():
            self._write_group(group, file)
        if self._block >= 0:
            file.write(b"\n#END_TB\n")
        if len(self._seen) != self._launch.header.blocks:
            file.write(f"\n{PARTIAL_NOTE.format(blocks=len(self._seen))}\n".encode())

    def _write_group(self, group: WarpGroup, file: IO[bytes]) -> None:
        from ._format_kernels import format_warps

        columns = GroupColumns(
            start=group.start,
            access_start=group.access_start,
            lane_start=group.lane_start,
            static=group.static,
            mask=group.mask,
            base=np.ascontiguousarray(group.base).view(np.int64),
            stride=group.stride,
            lanes=np.ascontiguousarray(group.lanes).view(np.int64),
            access_bytes=self._launch.static.access_bytes,
        )
        warps = self._warp_texts(group)
        cursor = np.zeros(1, dtype=CURSOR)[0]
        while cursor["warp"] < len(group):
            size = format_warps(cursor, columns, warps, self._static.parts, self._out)
            file.write(self._out[:size].data)

    def _warp_texts(self, group: WarpGroup) -> WarpTexts:
        gx, gy, _ = self._launch.header.grid
        headings, prefixes = [], []
        rows = zip(group.block.tolist(), group.warp.tolist(), np.diff(group.start).tolist(), strict=True)
        for block, warp, instructions in rows:
            x, y, z = block % gx, block // gx % gy, block // (gx * gy)
            heading = ""
            if block != self._block:
                if not self._seen.add(block):
                    raise TraceError(f"{self._header.kernel}: the warps of thread block {x},{y},{z} are not together")
                end = "\n#END_TB\n\n" if self._block >= 0 else ""
                heading = f"{end}#BEGIN_TB\n\nthread block = {x},{y},{z}\n"
                self._block = block
            headings.append(f"{heading}\nwarp = {warp}\ninsts = {instructions}\n")
            prefixes.append(f"{x} {y} {z} {warp} " if self._version < 3 else "")
        return WarpTexts(_packed(headings), _packed(prefixes))


class _StaticText:
    """The constant text of each static instruction: before the mask, after it, and at the end."""

    def __init__(self, static: StaticTable, extra: Any, version: int, lineinfo: bool) -> None:
        widths = dict(extra.get("memory_widths") or {})
        before, after, end = [], [], []
        for index in range(len(static)):
            line = f"{static.line[index]} " if lineinfo else ""
            before.append(f"{line}{int(static.pc[index]):04x} ")
            access_bytes = int(static.access_bytes[index])
            width = int(widths.get(str(index), access_bytes)) if access_bytes else 0
            after.append(
                f" {_registers(static.destinations_of(index))} {_opcode(static, index)}"
                f" {_registers(static.sources_of(index))} {width or access_bytes}"
            )
            end.append(f" {static.immediate[index]}\n" if version >= 4 else "\n")
        self.parts = LineTexts(_packed(before), _packed(after), _packed(end))
        self.longest = sum(max((len(each) for each in part), default=0) for part in (before, after, end)) + 100


def _packed(texts: list[str]) -> Texts:
    raw = [text.encode("ascii") for text in texts]
    starts = np.zeros(len(raw) + 1, dtype=np.int64)
    np.cumsum([len(each) for each in raw], out=starts[1:])
    return Texts(np.frombuffer(b"".join(raw) or b"\0", dtype=np.uint8), starts)


def _registers(numbers: list[int]) -> str:
    return " ".join((str(len(numbers)), *(f"R{number}" for number in numbers)))


def _opcode(static: StaticTable, index: int) -> str:
    """The instruction's own opcode if it is SASS, else one of the same class and access size."""
    opcode = static.opcode[index]
    name, space = CLASS_NAMES[static.class_id[index]], SPACES[static.space[index]]
    access_bytes = int(static.access_bytes[index])
    same = decode_opcode(opcode).instruction_class == name and (
        not access_bytes or access_width(opcode) == access_bytes
    )
    if same and _OPCODE.fullmatch(opcode):
        return opcode
    return representative(name, space, access_bytes)
