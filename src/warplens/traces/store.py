"""`.wlt` files: a ZIP container of Arrow IPC streams, written and read group by group.

    wlt.json            {"format": "warplens trace", "version": 1, "launches": n}   (written last)
    0/warps.arrow       one row per warp, one record batch per group of thread blocks, zstd
    0/static.arrow      one row per static instruction
    0/launch.json       the header
    1/…

The container gives what Arrow alone does not: several launches in a file, a
directory that only a complete file has, and checksums.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import pyarrow as pa

from ..errors import TraceError
from .block_set import BlockSet
from .checks import problem_of, problem_of_blocks, problem_of_spills, problem_of_static
from .headers import header_of_json, json_of_header
from .schema import CLASS_NAMES, SPACES, Described, LaunchHeader, StaticTable, WarpGroup

VERSION = 1
_FORMAT = "warplens trace"
#: Addresses of lanes repeat from warp to warp, which levels 1 and 2 do not find: files were up to eight times larger.
_OPTIONS = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=3))
_WARP_SCHEMA = pa.schema(
    [
        ("block", pa.int64()),
        ("warp", pa.int32()),
        ("static", pa.large_list(pa.uint32())),
        ("mask", pa.large_list(pa.uint32())),
        ("base", pa.large_list(pa.uint64())),
        ("stride", pa.large_list(pa.int64())),
        ("lanes", pa.large_list(pa.uint64())),
    ]
)
_STATIC_SCHEMA = pa.schema(
    [
        ("pc", pa.uint64()),
        ("opcode", pa.string()),
        ("class", pa.string()),
        ("space", pa.string()),
        ("access_bytes", pa.uint16()),
        ("destinations", pa.large_list(pa.uint16())),
        ("sources", pa.large_list(pa.uint16())),
        ("line", pa.uint32()),
        ("immediate", pa.int64()),
    ]
)
#: What damaged bytes make zipfile, json and Arrow raise.
_DAMAGE = (
    zipfile.BadZipFile,
    OSError,
    pa.ArrowException,
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    EOFError,
    NotImplementedError,  # a ZIP feature that zipfile lacks
    RuntimeError,  # an entry marked as encrypted, or JSON nested too deeply
    OverflowError,
    struct.error,
)


class TraceWriter:
    """Writes launches one after the other; the file appears under its name only when all went well.

    Each group becomes one record batch, which is what a reader holds at a time:
    keep groups to some hundred thousand instructions. Without a launch there is an
    error, or no file where it `may_be_empty`.
    """

    def __init__(self, path: str | Path, *, may_be_empty: bool = False) -> None:
        self.path = Path(path)
        self._may_be_empty = may_be_empty
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_dir():
                raise IsADirectoryError(None, "it is a folder")
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from None
        self._temporary = Path(name)
        self._file = os.fdopen(handle, "wb")
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)
        self._launches = 0
        self._entry: IO[bytes] | None = None
        self._stream: pa.ipc.RecordBatchStreamWriter | None = None

    def __enter__(self) -> TraceWriter:
        return self

    def write(self, group: WarpGroup) -> None:
        """Add a group of warps to the launch being written."""
        try:
            if self._stream is None:
                self._entry = self._zip.open(f"{self._launches}/warps.arrow", "w", force_zip64=True)
                self._stream = pa.ipc.new_stream(self._entry, _WARP_SCHEMA, options=_OPTIONS)
            self._stream.write_batch(_warp_batch(group))
        except OSError as error:
            raise self._unwritable(error) from None

    def end_launch(self, header: LaunchHeader, static: StaticTable) -> None:
        """Close the launch; its static table is known only now when it was read as a stream."""
        if self._stream is None:
            self.write(EMPTY_GROUP)
        assert self._stream is not None and self._entry is not None
        try:
            self._stream.close()
            self._entry.close()
            self._stream = self._entry = None
            with self._zip.open(f"{self._launches}/static.arrow", "w") as entry:
                batch = _static_batch(static)
                with pa.ipc.new_stream(entry, batch.schema, options=_OPTIONS) as stream:
                    stream.write_batch(batch)
            self._zip.writestr(f"{self._launches}/launch.json", json_of_header(header))
        except OSError as error:
            raise self._unwritable(error) from None
        except (TypeError, ValueError) as error:
            raise TraceError(f"{self.path}: launch {self._launches} cannot be written: {error}") from None
        self._launches += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        except OSError as problem:
            raise self._unwritable(problem) from None
        finally:
            self._close()

    def _finish(self) -> None:
        if self._entry is not None:
            raise ValueError("the last launch was not ended")
        if self._launches == 0 and self._may_be_empty:
            return
        if self._launches == 0:
            raise TraceError(f"{self.path}: nothing was recorded")
        self._zip.writestr(
            "wlt.json", json.dumps({"format": _FORMAT, "version": VERSION, "launches": self._launches})
        )
        self._zip.close()
        self._file.close()
        # mkstemp lets only the owner read; the finished file is as any other.
        mask = os.umask(0)
        os.umask(mask)
        self._temporary.chmod(0o666 & ~mask)
        self._temporary.replace(self.path)

    def _close(self) -> None:
        """Leave nothing open and nothing half-written, whatever state things are in."""
        for each in (self._stream, self._entry, self._zip, self._file):
            if each is not None:
                with suppress(Exception):
                    each.close()
        self._stream = self._entry = None
        self._temporary.unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> TraceError:
        return TraceError(f"{self.path}: cannot be written ({error.strerror or error})")


#: Where the header of an entry says how long its name and its extra field are, which follow.
_NAME_LENGTH = 26
#: Bytes that are read at once.
_PIECE = 1 << 20


class StoredLaunch(Described):
    """One launch of a `.wlt` file. The header and static table are held, warps are read when asked for."""

    def __init__(
        self, path: Path, index: int, header: LaunchHeader, static: StaticTable, warps: zipfile.ZipInfo
    ) -> None:
        self.path, self.index, self.header, self.static, self._warps = path, index, header, static, warps

    def _repeats(self, other: StoredLaunch) -> bool:
        """Whether it is stored as the same bytes, its number apart."""
        if replace(self.header, launch_index=0) != replace(other.header, launch_index=0):
            return False
        try:
            with self._warps_entry() as one, other._warps_entry() as two:
                return all(piece == two.read(_PIECE) for piece in iter(lambda: one.read(_PIECE), b""))
        except _DAMAGE as error:
            raise self._damaged(error) from None

    def _warps_entry(self) -> zipfile.ZipExtFile:
        """Opened without the list of all entries, which is long in a file of thousands of launches."""
        file = self.path.open("rb")
        try:
            file.seek(self._warps.header_offset + _NAME_LENGTH)
            file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
        except BaseException:
            file.close()
            raise
        return zipfile.ZipExtFile(file, "r", self._warps, close_fileobj=True)

    def groups(self) -> Iterator[WarpGroup]:
        seen = BlockSet()
        try:
            with self._warps_entry() as entry, pa.ipc.open_stream(entry) as stream:
                for batch in stream:
                    group = _group(batch)
                    problem = problem_of(group, self.static, self.header) or problem_of_blocks(group, seen)
                    if problem is not None:
                        raise ValueError(problem)
                    yield group
                while entry.read(_PIECE):  # to the end of the entry, where its checksum is compared
                    pass
        except _DAMAGE as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> TraceError:
        if isinstance(error, FileNotFoundError):
            return TraceError(f"{self.path}: the file no longer exists")
        return TraceError(f"{self.path}: launch {self.index} is damaged ({error}); record it again")


def first_alike(launches: Sequence[StoredLaunch]) -> list[int]:
    """For each launch of a file the first one that is stored as the same bytes."""
    known: dict[Any, list[int]] = {}
    found = []
    for index, launch in enumerate(launches):
        # Equal checksums do not prove that launches are equal, but few others are left to compare.
        others = known.setdefault((id(launch.static), launch._warps.CRC, launch._warps.file_size), [])
        first = next((other for other in others if launch._repeats(launches[other])), None)
        if first is None:
            others.append(index)
        found.append(index if first is None else first)
    return found


def read_trace(path: str | Path) -> list[StoredLaunch]:
    """The launches of a `.wlt` file."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as container:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in container.infolist()):
                raise TraceError(f"{path}: is not a warplens trace")  # nor may it unpack to more than it is
            if any(entry.compress_size > path.stat().st_size for entry in container.infolist()):
                raise zipfile.BadZipFile("an entry is longer than the file")  # zipfile would make room for it
            about = json.loads(container.read("wlt.json"))
            if not isinstance(about, dict) or about.get("format") != _FORMAT:
                raise TraceError(f"{path}: is not a warplens trace")
            if about.get("version") != VERSION:
                raise TraceError(
                    f"{path}: has trace format version {about.get('version')}, this warplens reads {VERSION}; "
                    "use the warplens that recorded it, or a newer one"
                )
            tables: dict[bytes, StaticTable] = {}
            return [_launch(path, container, index, tables) for index in range(int(about["launches"]))]
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except _DAMAGE as error:
        raise TraceError(f"{path}: is not a complete warplens trace ({error}); record it again") from None


def _launch(path: Path, container: zipfile.ZipFile, index: int, tables: dict[bytes, StaticTable]) -> StoredLaunch:
    """`tables` has the static instructions of launches before it: those of the same kernel share theirs."""
    try:
        header = header_of_json(container.read(f"{index}/launch.json"))
    except ValueError as error:
        raise ValueError(f"launch {index} has no valid header: {error}") from None
    raw = container.read(f"{index}/static.arrow")
    if raw not in tables:
        with pa.ipc.open_stream(raw) as stream:
            static = _static(stream.read_all())
        tables[raw] = static
    problem = problem_of_static(tables[raw]) or problem_of_spills(header, tables[raw])
    if problem is not None:
        raise TraceError(f"{path}: launch {index}: {problem}")
    return StoredLaunch(path, index, header, tables[raw], container.getinfo(f"{index}/warps.arrow"))


# -- columns to Arrow and back ----------------------------------------------------------


def _lists(offsets: Any, values: Any, dtype: Any) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(values, dtype))


def _flat(column: Any) -> tuple[Any, Any]:
    """Offsets and values of a list column, both starting at 0."""
    if column.null_count or column.values.null_count:
        raise ValueError("values are missing")
    offsets = column.offsets.to_numpy()
    values = column.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], values


def _plain(column: Any) -> Any:
    if column.null_count:
        raise ValueError("values are missing")
    return column.to_numpy(zero_copy_only=False)


def _warp_batch(group: WarpGroup) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array(group.block, pa.int64()),
            pa.array(group.warp, pa.int32()),
            _lists(group.start, group.static, pa.uint32()),
            _lists(group.start, group.mask, pa.uint32()),
            _lists(group.access_start, group.base, pa.uint64()),
            _lists(group.access_start, group.stride, pa.int64()),
            _lists(group.lane_start, group.lanes, pa.uint64()),
        ],
        schema=_WARP_SCHEMA,
    )


def _group(batch: pa.RecordBatch) -> WarpGroup:
    if batch.schema != _WARP_SCHEMA:
        raise ValueError("its columns are not those of a trace")
    batch.validate(full=True)
    start, static = _flat(batch.column("static"))
    mask_start, mask = _flat(batch.column("mask"))
    access_start, base = _flat(batch.column("base"))
    stride_start, stride = _flat(batch.column("stride"))
    lane_start, lanes = _flat(batch.column("lanes"))
    if not (np.array_equal(start, mask_start) and np.array_equal(access_start, stride_start)):
        raise ValueError("its columns do not fit together")
    return WarpGroup(
        block=_plain(batch.column("block")),
        warp=_plain(batch.column("warp")),
        start=start,
        static=static,
        mask=mask,
        access_start=access_start,
        base=base,
        stride=stride,
        lane_start=lane_start,
        lanes=lanes,
    )


def _static_batch(static: StaticTable) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "pc": pa.array(static.pc, pa.uint64()),
            "opcode": pa.array(list(static.opcode), pa.string()),
            "class": pa.array([CLASS_NAMES[i] for i in static.class_id], pa.string()),
            "space": pa.array([SPACES[i] for i in static.space], pa.string()),
            "access_bytes": pa.array(static.access_bytes, pa.uint16()),
            "destinations": _lists(static.destination_offsets, static.destinations, pa.uint16()),
            "sources": _lists(static.source_offsets, static.sources, pa.uint16()),
            "line": pa.array(static.line, pa.uint32()),
            "immediate": pa.array(static.immediate, pa.int64()),
        },
        schema=_STATIC_SCHEMA,
    )


def _static(table: pa.Table) -> StaticTable:
    if table.schema != _STATIC_SCHEMA or any(column.null_count for column in table.columns):
        raise ValueError("its columns are not those of static instructions")
    table = table.combine_chunks()
    table.validate(full=True)
    other = CLASS_NAMES.index("other")
    classes = [CLASS_NAMES.index(c) if c in CLASS_NAMES else other for c in table["class"].to_pylist()]

    def lists(name: str) -> tuple[Any, Any]:
        chunks = table[name].chunks
        if not chunks:
            return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint16)
        return _flat(chunks[0])

    destination_offsets, destinations = lists("destinations")
    source_offsets, sources = lists("sources")
    return StaticTable(
        pc=table["pc"].to_numpy(),
        opcode=tuple(table["opcode"].to_pylist()),
        class_id=np.array(classes, dtype=np.uint8),
        space=np.array([SPACES.index(s) for s in table["space"].to_pylist()], dtype=np.uint8),
        access_bytes=table["access_bytes"].to_numpy(),
        destinations=destinations,
        destination_offsets=destination_offsets,
        sources=sources,
        source_offsets=source_offsets,
        line=table["line"].to_numpy(),
        immediate=table["immediate"].to_numpy(),
    )


def _empty(dtype: Any, length: int = 0) -> Any:
    return np.zeros(length, dtype=dtype)


EMPTY_GROUP = WarpGroup(
    block=_empty(np.int64),
    warp=_empty(np.int32),
    start=_empty(np.int64, 1),
    static=_empty(np.uint32),
    mask=_empty(np.uint32),
    access_start=_empty(np.int64, 1),
    base=_empty(np.uint64),
    stride=_empty(np.int64),
    lane_start=_empty(np.int64, 1),
    lanes=_empty(np.uint64),
)
