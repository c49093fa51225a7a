"""Rules of a single cache line that every simulator shares: its sectors, its place, and what of it is missing."""

from __future__ import annotations

import numpy as np

from ..jit import helper, kernel
from ._cache_records import ALL_GRANULES, ATOMIC, GRANULES, STORE


@helper
def sectors_of(words, sectors):
    """Which of a line's sectors some granules lie in, as bits."""
    if sectors == 1:
        return 1 if words else 0
    per = GRANULES // sectors
    group = (1 << per) - 1
    touched = 0
    sector = 1
    while words:  # not a loop over sectors: copies of that, unrolled, take a second to compile
        if words & group:
            touched |= sector
        words >>= per
        sector <<= 1
    return touched


@helper
def granules_of(touched, sectors):
    """The granules of some sectors, both as bits."""
    if sectors == 1:
        return ALL_GRANULES if touched else 0
    per = GRANULES // sectors
    group = (1 << per) - 1
    words = 0
    while touched:
        if touched & 1:
            words |= group
        touched >>= 1
        group <<= per
    return words


@helper
def lacking(what, asked, words, fetched, written, sectors):
    """Those of the asked sectors that a line does not have, as bits.

    A store needs a sector that was fetched, or written in part; a load one that
    was fetched, or written as a whole; an atomic one that was fetched, or all of
    its own granules (`words`) written.
    """
    missing = asked & ~fetched
    if missing == 0:
        return missing
    if what == STORE:
        return missing & ~sectors_of(written, sectors)
    needed = words if what == ATOMIC else ALL_GRANULES
    return missing & sectors_of(needed & ~written, sectors)


@kernel
def divide(number, divisor, inverse):
    """(quotient, remainder), by multiplication where that is exact after one correction: divisions are slow."""
    if number < 0 or number >= 1 << 52:
        return number // divisor, number % divisor
    quotient = np.int64(number * inverse)
    remainder = number - quotient * divisor
    if remainder < 0:
        return quotient - 1, remainder + divisor
    if remainder >= divisor:
        return quotient + 1, remainder - divisor
    return quotient, remainder


@kernel
def digit_weight(sets, hashed):
    """What a digit of a line's number, to the base of the sets, counts in its L1 set over the one before; 0: nothing.

    It is their number less the largest prime below it, so that the set hangs on the
    number modulo that prime: few strides have a factor in common with it.
    """
    if not hashed or sets < 2:
        return 0
    prime = sets - 1
    divisor = 2
    while divisor * divisor <= prime:
        if prime % divisor == 0:
            prime -= 1
            divisor = 2
        else:
            divisor += 1
    return sets - prime


@helper
def l1_set(line, sets, weight):
    """The L1 set of a line: the last digit of its number to the base of the sets, or the weighted sum of all digits.

    The sum gives consecutive lines to consecutive sets, and spreads lines that lie any power of two apart.
    """
    rest, found = divide(line, sets, 1.0 / sets)
    if weight > 0:
        counts = weight
        while rest > 0:
            rest, digit = divide(rest, sets, 1.0 / sets)
            found += digit * counts
            counts = counts * weight % sets
        found %= sets
    return found


@helper
def llc_row(line, banks, sets, ways):
    """First slot of a line's LLC set, or of what would be its only one: line i lies in bank i mod banks."""
    sets = max(sets, 1)
    return (line % banks * sets + line // banks % sets) * ways
