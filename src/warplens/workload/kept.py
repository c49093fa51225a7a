"""Cache simulations and representative warps kept on disk, under a hash of all that they depend on.

Entries appear whole or not at all, so any number of processes may write at
once; the least recently used ones go when the folder grows past its limit.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..result_cache import cache_folder, content_hash, evict
from ..traces import LaunchTrace, WarpGroup

T = TypeVar("T")

#: Bytes that the folder may take.
MOST_BYTES = 2**30
#: Entries written by a process between two looks at the size of the folder.
_LOOK_EVERY = 256
_SUFFIX = ".arrays"
#: Packages whose code decides what is kept.
_CODE = ("machine", "traces", "analysis", "workload")


@dataclass
class Kept:
    """A folder of arrays by key. Whatever goes wrong with it costs time, never a result."""

    folder: Path
    most_bytes: int = MOST_BYTES
    _written: int = 0

    def get(self, key: str) -> dict[str, Any] | None:
        """The arrays of an entry, or None where there is none that can be read."""
        path = self.folder / key[:2] / f"{key}{_SUFFIX}"
        try:
            found = _unpacked(path.read_bytes())
            os.utime(path)  # used just now
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found

    def put(self, key: str, arrays: Mapping[str, Any]) -> None:
        place = self.folder / key[:2]
        temporary = None
        try:
            place.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".", dir=place)
            with os.fdopen(handle, "wb") as file:
                file.write(_packed(arrays))
            Path(temporary).replace(place / f"{key}{_SUFFIX}")
        except OSError:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            return
        if self._written % _LOOK_EVERY == 0:
            self.evict()
        self._written += 1

    def evict(self) -> None:
        """Remove the least recently used entries where there is too much."""
        evict(self.folder.glob(f"*/*{_SUFFIX}"), self.most_bytes)


def _packed(arrays: Mapping[str, Any]) -> bytes:
    """A line of JSON that says what follows, then the arrays: `np.savez` takes several times as long."""
    rest = b"".join(np.asarray(value).tobytes() for value in arrays.values())
    kinds = {name: [np.asarray(value).dtype.str, np.shape(value)] for name, value in arrays.items()}
    return json.dumps({"checksum": zlib.crc32(rest), "arrays": kinds}).encode() + b"\n" + rest


def _unpacked(raw: bytes) -> dict[str, Any]:
    """The arrays of an entry; ValueError where it is damaged."""
    line, _, rest = raw.partition(b"\n")
    header = json.loads(line)
    if zlib.crc32(rest) != header["checksum"]:
        raise ValueError("damaged")
    found: dict[str, Any] = {}
    start = 0
    for name, (kind, shape) in header["arrays"].items():
        found[name] = np.frombuffer(rest, kind, math.prod(shape), start).reshape(shape)
        start += found[name].nbytes
    return found


def open_kept() -> Kept:
    """The store in the user's cache folder."""
    return Kept(cache_folder() / "simulations")


@cache
def code_digest() -> str:
    """A hash of the code that results come from: what an older one kept is not found."""
    root = Path(__file__).parents[1]
    files = sorted(path for package in _CODE for path in (root / package).glob("*.py"))
    return content_hash([part for path in files for part in (path.name, path.read_bytes())])


def trace_digest(trace: LaunchTrace) -> str:
    """A hash of all that a trace holds. How its warps come in groups does not count: that depends on which of several
    cores was done first."""
    header = trace.header
    told = [getattr(header, item.name) for item in fields(header) if item.name != "extra"]
    columns = {item.name: hashlib.sha256() for item in fields(WarpGroup)}
    for group in trace.groups():
        for name, digest in columns.items():
            values = getattr(group, name)
            lengths = name.endswith("start")  # places within the group
            digest.update(np.ascontiguousarray(np.diff(values) if lengths else values).data)
    rows = (getattr(trace.static, item.name) for item in fields(trace.static))
    static = (each.tobytes() if isinstance(each, np.ndarray) else repr(tuple(each)) for each in rows)
    found = (digest.digest() for digest in columns.values())
    return content_hash([repr([*told, sorted(header.extra.items())]), *static, *found])


def entry_key(kind: str, digest: str, key: tuple[Any, ...]) -> str:
    """Where an entry is kept; a count that came as a float is the same count."""
    plain = [float(value) if isinstance(value, int | float | np.number) else value for value in key]
    return content_hash([kind, digest, code_digest(), repr(plain)])


class Remembering:
    """What was worked out about a trace, kept in memory and maybe on disk."""

    trace: LaunchTrace | None
    kept: Kept | None
    _memo: dict[Any, Any]

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """The result of `make`, kept under `key`."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def _kept(self, key: tuple[Any, ...], make: Callable[[], T], unpack: Callable[..., T]) -> T:
        """The result of `make`, a dataclass of arrays and plain values, kept in memory and maybe on disk."""
        found = self._known(key, unpack)
        if found is not None:
            return found
        made = self.once(key, make)
        if self.kept is not None:
            self.kept.put(self._entry(key), vars(made))
        return made

    def _known(self, key: tuple[Any, ...], unpack: Callable[..., T]) -> T | None:
        """What is in memory or on disk under a key."""
        if key not in self._memo and self.kept is not None:
            found = self.kept.get(self._entry(key))
            if found is not None:
                plain = {name: value if value.ndim else value.item() for name, value in found.items()}
                self._memo[key] = unpack(**plain)
        return self._memo.get(key)

    def _entry(self, key: tuple[Any, ...]) -> str:
        assert self.trace is not None
        trace = self.trace
        digest = self.once("digest", lambda: trace_digest(trace))
        return entry_key(key[0], digest, key[1:])
