"""Fields of a machine description: what a parameter is, what it accepts, and its default."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

_SUFFIX_UNITS = {"_bytes_per_s": "bytes_per_s", "_bytes": "bytes", "_hz": "hz", "_cycles": "cycles", "_seconds": "s"}
#: unit -> suffix of a field's name, the inverse of the above.
UNIT_SUFFIXES = {unit: suffix for suffix, unit in _SUFFIX_UNITS.items()}


@dataclass(frozen=True)
class Parameter:
    """One parameter of the schema: its place in TOML, its short key, what it accepts, and its default if any."""

    path: str
    key: str
    unit: str | None
    kind: type
    doc: str
    minimum: float
    exclusive: bool
    choices: tuple[str, ...]
    default: Any = None
    most: float = math.inf


# A field is None if a machine gives no value. `Gpu.with_defaults` fills in the defaults given here.


def number(
    doc: str,
    *,
    above: float | None = None,
    minimum: float = 1.0,
    integer: bool = False,
    default: float | None = None,
    most: float = math.inf,
) -> Any:
    """A numeric field; `above` makes the lower bound exclusive."""
    return field(
        default=None,
        metadata={
            "doc": doc,
            "kind": int if integer else float,
            "minimum": minimum if above is None else above,
            "exclusive": above is not None,
            "default": default,
            "most": most,
        },
    )


def count(doc: str, *, minimum: float = 1.0, default: int | None = None, most: float = math.inf) -> Any:
    return number(doc, minimum=minimum, integer=True, default=default, most=most)


def entries(doc: str, *, default: int | None = None) -> Any:
    """A count of what simulations hold in arrays; any real GPU has far less than the most."""
    return count(doc, default=default, most=1 << 20)


def choice(doc: str, choices: tuple[str, ...], default: str | None = None) -> Any:
    return field(default=None, metadata={"doc": doc, "kind": str, "choices": choices, "default": default})


def flag(doc: str, default: bool | None = None) -> Any:
    return field(default=None, metadata={"doc": doc, "kind": bool, "default": default})


def with_defaults(part: Any) -> Any:
    """A part of a machine with defaults for the values it does not give."""
    missing = {
        item.name: item.metadata["default"]
        for item in dataclasses.fields(part)
        if getattr(part, item.name) is None and item.metadata.get("default") is not None
    }
    return dataclasses.replace(part, **missing) if missing else part


def describe(owner: type, prefix: str) -> dict[str, Parameter]:
    found = {}
    for item in dataclasses.fields(owner):
        if "kind" not in item.metadata:
            continue
        suffix = next((s for s in _SUFFIX_UNITS if item.name.endswith(s)), "")
        key = item.name.removesuffix(suffix or "_entries")
        found[prefix + item.name] = Parameter(
            path=prefix + item.name,
            key=prefix + key,
            unit=_SUFFIX_UNITS.get(suffix),
            kind=item.metadata["kind"],
            doc=item.metadata["doc"],
            minimum=item.metadata.get("minimum", 0.0),
            exclusive=item.metadata.get("exclusive", False),
            choices=item.metadata.get("choices", ()),
            default=item.metadata.get("default"),
            most=item.metadata.get("most", math.inf),
        )
    return found
