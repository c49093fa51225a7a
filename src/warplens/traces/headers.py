"""The schema of a launch's header: one check for what is read, and for what is written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from .machine_code import MACHINE_CODE, unpacked_code
from .schema import LaunchHeader

#: More than any GPU takes; numbers of analyses stay exact up to there.
MOST_BLOCKS, MOST_THREADS = 1 << 48, 1 << 16
MOST_EXTENT = (1 << 31) - 1
MOST_CLUSTER_BLOCKS = 1 << 10
MOST_REGISTERS, MOST_SHARED_BYTES = 1 << 16, 1 << 30
MOST_TEXT = 1 << 24


def header_of_json(raw: bytes) -> LaunchHeader:
    """The header in a JSON text; ValueError says what is wrong with it."""

    def refuse(text: str) -> Any:
        raise ValueError(f"the header has {text}, which is no number")

    def finite(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else refuse(text)

    return header_of_values(json.loads(raw, parse_constant=refuse, parse_float=finite))


def json_of_header(header: LaunchHeader) -> str:
    """A header as JSON, from which the same header comes; ValueError where there is none."""
    values = {item.name: getattr(header, item.name) for item in fields(header)}
    text = json.dumps({**values, "extra": dict(header.extra)}, allow_nan=False)
    header_of_json(text.encode())
    return text


def header_of_values(values: Any) -> LaunchHeader:
    """A header of checked values."""
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ValueError("the header is not a table")
    if unknown := values.keys() - _FIELDS.keys():
        raise ValueError(f"the header has {min(unknown)!r}, which is not known")
    for name in ("kernel", "grid", "block"):
        if name not in values:
            raise ValueError(f"the header has no {name}")
    header = LaunchHeader(**{name: _FIELDS[name](name, value) for name, value in values.items()})
    for what, count, most in (
        ("grid", header.blocks, MOST_BLOCKS),
        ("block", header.threads_per_block, MOST_THREADS),
    ):
        if count > most:
            raise ValueError(f"the {what} {getattr(header, what)} is larger than any GPU takes")
    recorded = header.extra.get("recorded_blocks", 1)
    if recorded > header.blocks:
        raise ValueError(f"{recorded} blocks are recorded, of {header.blocks}")
    return header


def _whole(least: int, most: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"{name} must be a whole number from {least} to {most}, not {_shown(value)}")
        return value

    return check


def _extents(name: str, value: Any) -> tuple[int, int, int]:
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise ValueError(f"{name} dimensions must be three numbers, not {_shown(value)}")
    x, y, z = (_whole(1, MOST_EXTENT)(f"each of the {name} dimensions", each) for each in value)
    return x, y, z


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise ValueError(f"{name} must be a text, not {_shown(value)}")
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list of texts, not {_shown(value)}")
    return tuple(_text(name, each) for each in value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {_shown(value)}")
    return value


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, not {_shown(value)}")
    return value


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} must be a table, not {_shown(value)}")
    return dict(value)


def _code(name: str, value: Any) -> Any:
    unpacked_code(value)
    return value


def _extra(name: str, value: Any) -> dict[str, Any]:
    """What only one format has; analyses look at these."""
    found = _table(name, value)
    return {key: _EXTRA[key](key, each) if key in _EXTRA else each for key, each in found.items()}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


_FIELDS: dict[str, Callable[[str, Any], Any]] = {
    "kernel": _text,
    "grid": _extents,
    "block": _extents,
    "registers_per_thread": _whole(0, MOST_REGISTERS),
    "shared_memory_per_block_bytes": _whole(0, MOST_SHARED_BYTES),
    "launch_index": _whole(0, MOST_EXTENT),
    "origin": _text,
    "missing": _texts,
    "extra": _extra,
}
_EXTRA: dict[str, Callable[[str, Any], Any]] = {
    "recorded_blocks": _whole(1, MOST_BLOCKS),
    "cluster_blocks": _whole(1, MOST_CLUSTER_BLOCKS),
    "registers_estimated": _flag,
    "opcode_coverage": _share,
    "unknown_opcodes": _table,
    "memory_widths": _table,
    "header": _table,
    "source": _text,
    "source_file": _text,
    "source_text": _text,
    "lines_of": _text,
    "readable_name": _text,
    "nvbit_version": _text,
    MACHINE_CODE: _code,
}
