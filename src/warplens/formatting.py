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


def show_name(kernel: str, most: int = MOST_NAME) -> str:
    """The name of a kernel; of a very long one, how it begins and ends."""
    return kernel if len(kernel) <= most else f"{kernel[: most - 17]}…{kernel[-16:]}"


def bare_name(kernel: str) -> str:
    """A kernel's name as the source has it, without its result's type and its parameters."""
    end = len(kernel)
    if kernel.endswith(")"):
        depth = 0
        for end in range(len(kernel) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(kernel[end], 0)
            if depth == 0:
                break
    name, depth = kernel[:end], 0
    for at, letter in enumerate(name):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == " " and depth == 0:
            return name[at + 1 :] or kernel
    return name or kernel


def show_seconds(value: float, digits: int = 4) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if float(f"{value / scale:.{digits}g}") >= 1.0:
            return f"{value / scale:.{digits}g} {unit}"
    return f"{value / 1e-9:.{digits}g} ns"


def show_bytes(value: float) -> str:
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def show_share(value: float) -> str:
    """A part of a whole in whole percent."""
    return "<1 %" if 0.0 < value < 0.005 else f"{100.0 * value:.0f} %"


def show_factor(value: float) -> str:
    """How many times: two digits, and a third where it is close to 1."""
    return f"{value:.{0 if value >= 9.95 else 1 if value >= 1.195 else 2}f}×"
