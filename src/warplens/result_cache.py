"""The one result cache: what took time to work out, kept on disk under a digest of all that it depends on.

A key is made of the inputs, as a frozen record, and of the code that computes
the result (`code_digest`): what another version of warplens kept is never used.
An entry appears whole or not at all, so any number of processes may write at
once. A checksum guards it: a damaged entry is no entry. The least recently used
entries go when a folder grows past its limit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import sys
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

#: Names another folder for everything that is kept.
CACHE_VARIABLE = "WARPLENS_CACHE_DIR"
#: Bytes that entries of one kind may take.
MOST_BYTES = 2**28
#: Part of the room that may be written before a folder is looked through again.
_UNSEEN = 0.01
_SUFFIX = ".entry"


def cache_folder() -> Path:
    """`$WARPLENS_CACHE_DIR`, else `warplens` in the platform's folder for caches. It need not exist."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "warplens"


def content_hash(parts: Iterable[str | bytes]) -> str:
    """One hash of several texts; where one ends and the next begins counts."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


@cache
def code_digest(folder: Path = Path(__file__).parent) -> str:
    """A hash of the sources in a folder, all of the package without one: no list of modules could miss a part."""
    files = sorted(folder.rglob("*.py"))
    return content_hash(part for path in files for part in (str(path.relative_to(folder)), path.read_bytes()))


def result_key(record: Any, *others: str) -> str:
    """The key of what this code computes from a record and `others`; a count given as a float is the same count."""
    return content_hash([code_digest(), repr(_plain(record)), *others])


def _plain(value: Any) -> Any:
    """A record as nested tuples of its type's name and its values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *(_plain(getattr(value, item.name)) for item in dataclasses.fields(value))
    if isinstance(value, tuple | list):
        return tuple(_plain(each) for each in value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return float(value) if isinstance(value, int | float | np.number) else value


@dataclass
class ResultCache:
    """A folder of entries by key. Whatever goes wrong with it costs time, never a result."""

    folder: Path
    most_bytes: int = MOST_BYTES
    #: Bytes that may be written before the folder is looked through again.
    _until_look: float = 0.0

    def get(self, key: str) -> dict[str, Any] | None:
        """The values of an entry, or None where there is none that can be read. Lists come back as tuples."""
        path = self._path(key)
        try:
            found = _unpacked(path.read_bytes())
            os.utime(path)  # used just now
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found

    def put(self, key: str, values: Mapping[str, Any]) -> None:
        """Keep arrays, and whatever JSON can hold. A folder that cannot be written to is no error."""
        path, packed = self._path(key), _packed(values)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(packed)
            Path(temporary).replace(path)
        except OSError:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            return
        self._until_look -= len(packed)
        if self._until_look < 0.0:
            self.evict()
            self._until_look = _UNSEEN * self.most_bytes

    def evict(self) -> None:
        """Remove the least recently used entries where there is too much."""
        evict(self.folder.glob(f"*/*{_SUFFIX}"), self.most_bytes)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{_SUFFIX}"


def open_results(kind: str, most_bytes: int | None = None) -> ResultCache:
    """The results of one kind in the user's cache folder; the same object each time, which counts what is written."""
    return _opened(cache_folder() / kind, MOST_BYTES if most_bytes is None else most_bytes)


@cache
def _opened(folder: Path, most_bytes: int) -> ResultCache:
    return ResultCache(folder, most_bytes)


def _packed(values: Mapping[str, Any]) -> bytes:
    """A checksum, a line of JSON, then the arrays: `np.savez` takes several times as long, and pickles run code."""
    arrays = {name: np.ascontiguousarray(each) for name, each in values.items() if isinstance(each, np.ndarray)}
    plain = {name: each.item() if isinstance(each, np.generic) else each for name, each in values.items()}
    header = {
        "order": list(values),
        "arrays": {name: [each.dtype.str, each.shape] for name, each in arrays.items()},
        "plain": {name: each for name, each in plain.items() if name not in arrays},
    }
    body = b"".join([json.dumps(header).encode(), b"\n", *(each.tobytes() for each in arrays.values())])
    return b"%08x\n" % zlib.crc32(body) + body


def _unpacked(raw: bytes) -> dict[str, Any]:
    """The values of an entry; ValueError where it is damaged."""
    checksum, _, body = raw.partition(b"\n")
    if zlib.crc32(body) != int(checksum, 16):
        raise ValueError("damaged")
    line, _, rest = body.partition(b"\n")
    header = json.loads(line)
    found: dict[str, Any] = {}
    for name, value in header["plain"].items():
        found[name] = tuple(value) if isinstance(value, list) else value
    start = 0
    for name, (kind, shape) in header["arrays"].items():
        found[name] = np.frombuffer(rest, kind, math.prod(shape), start).reshape(shape)
        start += found[name].nbytes
    return {name: found[name] for name in header["order"]}


def evict(paths: Iterable[Path], most_bytes: int) -> None:
    """Remove the least recently used files until a tenth of the room is free, where they take too much."""
    entries = []
    for path in paths:
        with suppress(OSError):  # another process may have removed it
            status = path.stat()
            entries.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in entries)
    if total <= most_bytes:
        return
    for _, size, path in sorted(entries):
        with suppress(OSError):
            path.unlink()
        total -= size
        if total <= 0.9 * most_bytes:
            return
