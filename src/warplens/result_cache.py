"""What took time to make, kept in the user's cache folder under a hash of all that it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Names another folder for everything that is kept.
CACHE_VARIABLE = "WARPLENS_CACHE_DIR"
#: Bytes that entries of one kind may take.
MOST_BYTES = 2**28


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


def read_entry(kind: str, key: str) -> dict[str, Any] | None:
    """The entry, or None where there is none that can be read."""
    path = cache_folder() / kind / f"{key}.json"
    try:
        value = json.loads(path.read_bytes())
        os.utime(path)  # used just now
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_entry(kind: str, key: str, value: dict[str, Any]) -> None:
    """Keep an entry, and the folder within its bounds.

    The entry appears whole or not at all; a folder that cannot be written to is no error.
    """
    folder = cache_folder() / kind
    temporary = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{key[:16]}-", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file)
        Path(temporary).replace(folder / f"{key}.json")
    except OSError:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        return
    evict(folder.glob("*.json"), MOST_BYTES)


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
