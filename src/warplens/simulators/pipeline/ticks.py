"""Exact times as whole ticks: λ, Λ and the distance of issues are not rounded where a tick fits them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm

from ...errors import InputError

#: Ticks per cycle at least, so that Table 5's 0.375 and 5.25 are whole.
COARSEST = 8
#: Ticks per cycle where a time is no simple fraction, as averages of a cache simulation are.
FINE = 2**20
#: Denominators up to this are looked for; a common one beyond `FINE · 16` is not used.
_LARGEST_DENOMINATOR = 10_000
_MOST = 16 * FINE
_ROUNDING = 1e-12
_LIMIT = 2**61


@dataclass(frozen=True)
class Ticks:
    """`per_cycle` ticks make a cycle; times that are no multiple of a tick are rounded up."""

    per_cycle: int
    exact: bool

    def of(self, cycles: float) -> int:
        ticks = cycles * self.per_cycle
        nearest = round(ticks)
        return nearest if abs(ticks - nearest) <= _ROUNDING * max(1.0, ticks) else ceil(ticks)

    def cycles(self, ticks: float) -> float:
        return float(ticks) / self.per_cycle


def choose_ticks(times: Iterable[float], longest_cycles: float) -> Ticks:
    """Ticks in which all `times` are whole, if there are; `longest_cycles` bounds the simulated time."""
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
