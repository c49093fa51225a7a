"""The result of a sweep on disk: one Parquet file, readable at any time, from which work can resume.

Finished units go to small files in the folder `OUT.parts`, which are merged into
OUT now and then and at the end. Every file is written atomically and lists its
units in its metadata, so a killed process loses only its unfinished work. A seal
with checksums guards every byte: units of a damaged row group are computed again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from weakref import WeakSet

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import FileError, InputError, WarplensError
from ..result_cache import code_digest
from .seal import GroupSeal, add_seal, read_seal

_SPECIFICATION = b"warplens.sweep"
_PIECES = b"warplens.units"
#: Approximate rows of a row group.
GROUP_ROWS = 131_072
#: Seconds after which parts are merged into the file, so that other readers see them.
MERGE_SECONDS = 60.0
#: Attempts of a reader whose file is replaced while it reads.
_MOST_READS = 20
#: Dictionaries make columns with few distinct values, which are most, tiny.
_OPTIONS = {"compression": "zstd", "compression_level": 1, "write_page_checksum": True}
#: Columns with mostly distinct values, for which a dictionary is useless.
_RESULTS = re.compile(r"configuration|cycles|seconds|ipc|cpi|stack\..*")


class StoreError(WarplensError):
    """The result of a sweep cannot be written."""


@dataclass(frozen=True)
class _Piece:
    """A row group: its file, its index there, and its units with their row counts."""

    path: Path
    group: int
    units: tuple[tuple[int, int], ...]
    seal: GroupSeal

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.units)


class Store:
    """Rows of a sweep in `path`. Inside its context no other process can write there.

    Rows depend on the specification and on the code that computes them: both are kept with them.
    """

    def __init__(self, path: Path, specification: Mapping[str, Any], schema: pa.Schema) -> None:
        self.path = path
        self.parts = path.with_name(path.name + ".parts")
        self.schema = schema
        self._specification = json.loads(json.dumps({**specification, "code of warplens": code_digest()}))
        self._lock: IO[bytes] | None = None
        self._pieces: list[_Piece] = []
        self.damaged: list[str] = []
        """Row groups that are computed again."""
        self._merged = time.monotonic()

    def __enter__(self) -> Store:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.parts, self.path)
            self._open()
        except OSError as error:
            self._release()
            raise FileError(f"{self.path}: cannot be written ({error.strerror or error})") from None
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.merge()
            else:
                with suppress(StoreError):  # report the first error only; the parts stay
                    self.merge()
        finally:
            self._release()

    @property
    def done(self) -> set[int]:
        """Units that are on disk."""
        return {unit for piece in self._pieces for unit, _ in piece.units}

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self._pieces)

    def _open(self) -> None:
        for left in self.parts.glob(".*.tmp"):
            left.unlink(missing_ok=True)
        if self.path.exists():
            found = specification_of(self.path)
            if found != self._specification:
                raise InputError(
                    f"{self.path}: holds another sweep ({_difference(found, self._specification)}); "
                    "choose another output, or delete it to start again"
                )
        else:
            for part in self.parts.glob("*.parquet"):  # left by a sweep whose result was removed
                part.unlink()
            self._write(self.path, [])
        self._pieces = self._sound(self.path)
        known = self.done
        for part in sorted(self.parts.glob("*.parquet")):
            pieces = self._sound(part)
            if all(unit in known for piece in pieces for unit, _ in piece.units):
                part.unlink()  # already merged; the process died before it removed the part
            else:
                self._pieces += pieces

    def _sound(self, path: Path) -> list[_Piece]:
        """The row groups of a file that are as they were written; the others are computed again."""
        found = []
        for piece in _pieces_of(path):
            if piece.seal.holds(path):
                found.append(piece)
            else:
                self.damaged.append(_named(piece))
        return found

    def add(self, units: Sequence[tuple[int, pa.Table]]) -> None:
        """Keep the rows of finished units."""
        if not units:
            return
        number = 1 + max((int(path.stem) for path in self.parts.glob("*.parquet")), default=0)
        path = self.parts / f"{number:08d}.parquet"
        entries = tuple((unit, table.num_rows) for unit, table in units)
        self._write(path, [(pa.concat_tables([table for _, table in units]), entries)])
        self._pieces += _pieces_of(path)
        if time.monotonic() - self._merged > MERGE_SECONDS and 2 * self._part_rows >= self.rows:
            self.merge()

    @property
    def _part_rows(self) -> int:
        return sum(piece.rows for piece in self._pieces if piece.path != self.path)

    def merge(self) -> None:
        """Merge all rows into one file, in the order of their units."""
        parts = {piece.path for piece in self._pieces if piece.path != self.path}
        if parts or self.damaged:
            self._write(self.path, _in_order(self._pieces))
            self._pieces = list(_pieces_of(self.path))
            for part in parts:
                part.unlink(missing_ok=True)
        self._merged = time.monotonic()

    def _write(self, path: Path, groups: Iterable[tuple[pa.Table, Any]]) -> None:
        """Write a Parquet file of these row groups; it gets its name when it is complete."""
        temporary = self.parts / ".writing.tmp"  # no other process writes here
        written: list[Any] = []
        try:
            schema = self.schema.with_metadata({_SPECIFICATION: json.dumps(self._specification).encode()})
            repeating = [name for name in schema.names if not _RESULTS.fullmatch(name)]
            with pq.ParquetWriter(temporary, schema, use_dictionary=repeating, **_OPTIONS) as writer:
                for table, units in groups:
                    writer.write_table(table, row_group_size=max(table.num_rows, 1))
                    written.append(units)
                writer.add_key_value_metadata({_PIECES: json.dumps(written)})
            add_seal(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be written ({error.strerror or error}); finished work is kept, "
                "and the same command resumes from there"
            ) from None
        finally:
            temporary.unlink(missing_ok=True)

    def _release(self) -> None:
        if self._lock is None:
            return
        if not any(self.parts.glob("*.parquet")):
            shutil.rmtree(self.parts, ignore_errors=True)
        self._lock.close()
        self._lock = None


# -- reading -------------------------------------------------------------------------------------


def read_sweep(path: str | Path, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of a sweep, finished or not, in the order of its units."""
    path = Path(path)
    for _ in range(_MOST_READS):
        specification_of(path)
        before = path.stat()
        try:
            table = _read_all(path, columns)
        except FileNotFoundError:
            continue  # a part was merged meanwhile
        except (FileError, pa.ArrowException, OSError, IndexError, UnicodeDecodeError) as error:
            if os.path.samestat(before, path.stat()):
                raise error if isinstance(error, FileError) else FileError(f"{path}: is damaged ({error})") from None
            continue  # the file was replaced meanwhile, and has other row groups
        if os.path.samestat(before, path.stat()):
            return table
    raise FileError(f"{path}: is changing while it is read; try again when the sweep has finished")


def _read_all(path: Path, columns: Sequence[str] | None) -> pa.Table:
    pieces = list(_pieces_of(path))
    known = {unit for piece in pieces for unit, _ in piece.units}
    for part in sorted(path.with_name(path.name + ".parts").glob("*.parquet")):
        pieces += [piece for piece in _pieces_of(part) if not all(unit in known for unit, _ in piece.units)]
    schema = pq.read_schema(path).remove_metadata()
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    tables = [table.select(schema.names) for table, _ in _in_order(pieces, columns)]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def specification_of(path: Path) -> dict[str, Any]:
    """The specification of the sweep in a file; an error if the file is not a sweep."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        if _SPECIFICATION in metadata:
            read_seal(path)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file") from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise FileError(f"{path}: is not a Parquet file ({error})") from None
    if _SPECIFICATION not in metadata:
        raise FileError(f"{path}: is not the result of a sweep and will not be overwritten")
    found: dict[str, Any] = json.loads(metadata[_SPECIFICATION])
    return found


def _pieces_of(path: Path) -> Iterator[_Piece]:
    seals = read_seal(path)
    metadata = pq.read_metadata(path).metadata or {}
    for group, units in enumerate(json.loads(metadata.get(_PIECES, b"[]"))):
        yield _Piece(path, group, tuple((unit, rows) for unit, rows in units), seals[group])


def _named(piece: _Piece) -> str:
    numbers = [unit for unit, _ in piece.units]
    return f"{piece.path}: row group {piece.group} (units {min(numbers)} to {max(numbers)})"


def _in_order(
    pieces: Sequence[_Piece], columns: Sequence[str] | None = None
) -> Iterator[tuple[pa.Table, list[tuple[int, int]]]]:
    """The rows of all units, in order, as row groups; few pieces are in memory at a time."""
    held: dict[tuple[Path, int], pa.Table] = {}

    def table_of(piece: _Piece) -> pa.Table:
        key = (piece.path, piece.group)
        if key not in held:
            while len(held) > 8:
                del held[next(iter(held))]
            if not piece.seal.holds(piece.path):
                raise FileError(f"{_named(piece)} is damaged; the command that wrote the file computes it again")
            # No memory map: the file may be replaced while it is read.
            with pq.ParquetFile(piece.path) as file:
                held[key] = file.read_row_group(piece.group, columns=columns)
        return held[key]

    places: dict[int, tuple[_Piece, int, int]] = {}
    for piece in pieces:
        offset = 0
        for unit, rows in piece.units:
            places.setdefault(unit, (piece, offset, rows))
            offset += rows
    slices: list[pa.Table] = []
    units: list[tuple[int, int]] = []
    for unit in sorted(places):
        piece, offset, rows = places[unit]
        slices.append(table_of(piece).slice(offset, rows))
        units.append((unit, rows))
        if sum(count for _, count in units) >= GROUP_ROWS:
            yield pa.concat_tables(slices), units
            slices, units = [], []
    if slices:
        yield pa.concat_tables(slices), units


def _difference(one: Any, other: Any) -> str:
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return "differs in " + ", ".join(keys)


# -- one writer at a time --------------------------------------------------------------------------


def _locked(parts: Path, path: Path) -> IO[bytes]:
    """An open, locked file; the lock ends with the process, however it ends."""
    while True:
        parts.mkdir(exist_ok=True)
        try:
            file = (parts / "lock").open("ab")
        except FileNotFoundError:
            continue  # a sweep that just ended removed the folder
        try:
            _lock(file)
        except OSError:
            file.close()
            raise InputError(
                f"{path}: another sweep is writing to it; wait for it or choose another output"
            ) from None
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), (parts / "lock").stat()):
                return file
        file.close()


def _lock(file: IO[bytes]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held.add(file)


def _leave_to_parent() -> None:
    """Close the locks that a forked process inherits: one that outlives its parent must not hold them."""
    for file in list(_held):
        file.close()
    _held.clear()


_held: WeakSet[IO[bytes]] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
