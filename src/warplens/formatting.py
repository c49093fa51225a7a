"""Numbers and names as people read them, in tables of commands and of pages."""

from __future__ import annotations

import math


def show_number(value: float) -> str:
    """Four significant digits, thousands apart."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4g}"
    if 1e4 <= abs(value) < 1e12:
        return f"{value:,.0f}".replace(",", "\N{THIN SPACE}")
    return f"{value:.3e}"


#: Templates have names of thousands of characters.
MOST_NAME = 96


def show_name(kernel: str) -> str:
    """The name of a kernel; of a very long one, how it begins and ends."""
    return kernel if len(kernel) <= MOST_NAME else f"{kernel[: MOST_NAME - 17]}…{kernel[-16:]}"


def show_seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value / 1e-9:.4g} ns"
