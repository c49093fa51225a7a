"""Compiled scanning of words and numbers in lines of text.

Every function may assume that a line feed follows somewhere at or after the
position it is given, and stops there at the latest.
"""

from __future__ import annotations

import numpy as np

from ...jit import helper, inlined

# Value of each byte as a hexadecimal digit; 16 where it is none.
_DIGITS = np.full(256, 16, dtype=np.int64)
_DIGITS[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)
_DIGITS[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16)
_SIGN = np.int64(np.iinfo(np.int64).min)


@inlined
def skip(text, at):
    """Past blanks; a line feed always stops it."""
    while text[at] == 32 or text[at] == 9 or text[at] == 13:
        at += 1
    return at


@inlined
def token_end(text, at):
    while text[at] > 32:
        at += 1
    return at


@helper
def letters_end(text, at):
    """Where the lower-case letters end: of `warp=0` as of `warp = 0`."""
    while 97 <= text[at] <= 122:
        at += 1
    return at


@helper
def is_word(text, at, end, word):
    if end - at != len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110 (Numba compiles no generators inside all())
        if text[at + i] != word[i]:
            return False
    return True


@helper
def decimal(text, at, end):
    """Value of at most 18 digits with a sign, and whether it is one."""
    negative = False
    if at < end and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    if end <= at or end - at > 18:
        return np.int64(0), False
    value = np.int64(0)
    for i in range(at, end):
        digit = np.int64(text[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(0), False
        value = value * 10 + digit
    return (-value if negative else value), True


@helper
def hexadecimal(text, at):
    """The word from `at` on as a number of at most 16 digits after an optional 0x: value, end, whether it is one."""
    if text[at] == 48 and (text[at + 1] == 120 or text[at + 1] == 88):
        at += 2
    first = at
    value = np.int64(0)
    while True:
        digit = _DIGITS[text[at]]
        if digit > 15:
            break
        value = (value << 4) | digit
        at += 1
    return value, at, 0 < at - first <= 16 and text[at] <= 32


@inlined
def below(left, right):
    """Whether one address is below another, both as signed bits."""
    return (left ^ _SIGN) < (right ^ _SIGN)


@helper
def after_equals(text, at):
    """Position after `=` and blanks, or -1."""
    at = skip(text, at)
    if text[at] != 61:
        return -1
    return skip(text, at + 1)


@helper
def line_end(text, at):
    while text[at] != 10:
        at += 1
    return at


@helper
def only_number(text, at):
    """The number after `=` that ends a line, and whether it is there and not negative."""
    at = after_equals(text, at)
    if at < 0:
        return np.int64(0), False
    end = token_end(text, at)
    value, good = decimal(text, at, end)
    return value, good and value >= 0 and text[skip(text, end)] == 10


@helper
def coordinates(text, at, found):
    """Three numbers apart by commas after `=`."""
    at = after_equals(text, at)
    if at < 0:
        return False
    for i in range(3):
        at = skip(text, at)
        end = at
        while 48 <= text[end] <= 57:
            end += 1
        value, good = decimal(text, at, end)
        if not good:
            return False
        found[i] = value
        at = skip(text, end)
        if i < 2:
            if text[at] != 44:
                return False
            at += 1
    return text[at] == 10
