"""Numbers with units, as users type them: `480GB/s`, `48KiB`, `1.4GHz`, `300 cycles`."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

#: The largest magnitude accepted anywhere: beyond it float64 no longer counts single units.
LARGEST = 1e18

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_PREFIXES = {**_DECIMAL, **_BINARY}

#: unit of a parameter -> (the symbol users append, the prefixes it takes, an example)
_SYMBOLS = {
    "bytes": ("B", _PREFIXES, "48KiB"),
    "bytes_per_s": ("B/s", _PREFIXES, "480GB/s"),
    "hz": ("Hz", _DECIMAL, "1.4GHz"),
    "cycles": ("cycles", {"": 1.0}, "300"),
    "s": ("s", {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}, "12us"),
}
_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*$")


def parse_number(text: str, unit: str | None) -> float:
    """The value of `text` in the base of `unit` (bytes, bytes_per_s, hz, cycles, s or None for a count).

    Raises ValueError with a message that says what was expected.
    """
    match = _NUMBER.match(text)
    expected = f"a number such as {_SYMBOLS[unit][2]}" if unit else "a plain number"
    if not match:
        raise ValueError(f"{text!r} is not {expected}")
    value, suffix = float(match[1].replace("_", "")), match[2]
    if suffix:
        value *= _scale(text, suffix, unit, expected)
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise ValueError(f"{text!r} is too large (at most {LARGEST:g})")
    return value


def _scale(text: str, suffix: str, unit: str | None, expected: str) -> float:
    if unit is not None:
        symbol, prefixes, _ = _SYMBOLS[unit]
        if suffix.endswith(symbol) and suffix[: -len(symbol)] in prefixes:
            return prefixes[suffix[: -len(symbol)]]
    raise ValueError(f"{text!r} has the unit {suffix!r}; expected {expected}")


def format_number(value: Any, unit: str | None) -> str:
    """A short human rendering of `value`, with its unit."""
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else value
    if isinstance(value, np.ndarray):
        return f"{format_number(value.min(), unit)} … {format_number(value.max(), unit)} ({value.size} values)"
    if unit is None or unit == "cycles":
        return f"{value:,.6g}".replace(",", " ") + (" cycles" if unit else "")
    if unit == "bytes":
        for prefix in ("Gi", "Mi", "Ki"):
            if value >= _BINARY[prefix] and value % (_BINARY[prefix] / 4) == 0:
                return f"{value / _BINARY[prefix]:g} {prefix}B"
        return f"{value:g} B"
    symbol = _SYMBOLS[unit][0]
    if unit == "s" and 0 < value < 1:
        prefix, scale = next((each for each in (("m", 1e3), ("µ", 1e6)) if value * each[1] >= 1), ("n", 1e9))
        return f"{value * scale:g} {prefix}s"
    for prefix in ("T", "G", "M", "k"):
        if value >= _DECIMAL[prefix]:
            return f"{value / _DECIMAL[prefix]:g} {prefix}{symbol}"
    return f"{value:g} {symbol}"
