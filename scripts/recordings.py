"""Recordings of predictions: one line of JSON per job, with numbers as exact text; compared by result."""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


def exact(value: Any) -> Any:
    """Numbers as text that keeps every bit, long arrays as a digest."""
    if isinstance(value, np.ndarray):
        if value.size > 64:
            return (
                f"{value.dtype.str}{value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
            )
        return [exact(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    return value


def values_of_prediction(prediction: Any) -> dict[str, Any]:
    names = ("cycles", "seconds", "ipc", "cpi", "stack", "terms")
    return {name: exact(getattr(prediction, name)) for name in names}


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Complete lines of a recording, one at a time."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def _digests(path: Path) -> dict[tuple[str, ...], tuple[str, str, int]]:
    """(digest of the values, digest of the words, place in the file) by kernel, machine and model."""
    found = {}
    for number, line in enumerate(lines_of(path)):
        for key, values, words in line["results"]:
            hashes = (
                hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest() for part in (values, words)
            )
            found[tuple(key)] = (*hashes, number)
    return found


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """The places at which two results differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            yield from differences(old.get(name, "absent"), new.get(name, "absent"), f"{place}.{name}".strip("."))
    elif old != new:
        yield f"{place}: {_show(old)} → {_show(new)}"


def _show(value: Any) -> str:
    if isinstance(value, str) and value.lstrip("-").startswith("0x"):
        return repr(float.fromhex(value))
    return "no prediction" if value is None else str(value)[:80]


def compare_part(before: Path, after: Path, expected: list[str], shown: int) -> int:
    """Print how two recordings of a part differ; returns the number of unexpected differences."""
    old, new = _digests(before), _digests(after)
    keys = list(dict.fromkeys([*old, *new]))
    differing = [key for key in keys if key not in old or key not in new or old[key][0] != new[key][0]]
    intended = [key for key in differing if any(fnmatch.fnmatchcase("/".join(key[1:]), each) for each in expected)]
    words = sum(key in old and key in new and old[key][1] != new[key][1] for key in keys)
    note = f", {len(intended)} of them intended" if intended else ""
    print(f"{before.stem}: {len(differing)} of {len(keys)} results differ{note}; messages of {words} differ")
    listed = [key for key in differing if key not in set(intended)]
    for key in listed[:shown]:
        print("  " + ", ".join(key))
        if key not in old or key not in new:
            print("    is only " + ("after" if key in new else "before"))
            continue
        pair = [_find(path, key, found[key][2]) for path, found in ((before, old), (after, new))]
        for line in list(differences(*pair))[:6]:
            print(f"    {line}")
    if len(listed) > shown:
        print(f"  … and {len(listed) - shown} more (--show)")
    return len(listed)


def _find(path: Path, key: tuple[str, ...], number: int) -> Any:
    line = next(line for place, line in enumerate(lines_of(path)) if place == number)
    return next(values for found, values, _ in line["results"] if tuple(found) == key)
