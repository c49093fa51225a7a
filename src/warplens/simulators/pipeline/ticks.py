"""Exact times as whole ticks: if one tick divides λ, Λ and the issue interval, nothing is rounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm

from ...errors import InputError

#: Fewest ticks per cycle: Table 5's 0.375 and 5.25 become whole numbers.
COARSEST = 8
#: Ticks per cycle if a time is not a simple fraction, for example an average of a cache simulation.
FINE = 2**20
#: Largest denominator tried for one time; a common denominator above `FINE · 16` is not used.
_LARGEST_DENOMINATOR = 10_000
_MOST = 16 * FINE
_ROUNDING = 1e-12
_LIMIT = 2**61


@dataclass(frozen=True)
class Ticks:
    """`per_cycle` ticks make a cycle; other times are rounded up to whole ticks."""

    per_cycle: int
    exact: bool

    def of(self, cycles: float) -> int:
        ticks = cycles * self.per_cycle
        nearest = round(ticks)
        return nearest if abs(ticks - nearest) <= _ROUNDING * max(1.0, ticks) else ceil(ticks)

    def cycles(self, ticks: float) -> float:
        return float(ticks) / self.per_cycle


def choose_ticks(times: Iterable[float], longest_cycles: float) -> Ticks:
    """Ticks in which all `times` are whole, if possible; `longest_cycles` bounds the simulated time."""
    common, exact = COARSEST, True
    for time in times:
        near = Fraction(time).limit_denominator(_LARGEST_DENOMINATOR)
        found = lcm(common, near.denominator)
        if abs(float(near) - time) > _ROUNDING * max(1.0, abs(time)) or found > _MOST:
            exact = False
        else:
            common = found
    while not exact and common < FINE:
        common *= 2
    if longest_cycles * common > _LIMIT:
        common, exact = int(_LIMIT / longest_cycles), False
        if common < 1:
            raise InputError(f"times of up to {longest_cycles:.3g} cycles are too long to simulate")
    return Ticks(common, exact)
