"""How well a model tells two versions of a kernel apart.

Both predictions come from one model of one machine, so their errors are much alike. The time of a version is the sum
of its parts by stall category, and the error of a part is a property of the category: where the model takes DRAM's
latency for a tenth too short, it does so in both versions. With parts t and t', their differences d = t' - t and
relative errors e,

    T' - T = Σ d (1 + e),

so time that both versions have cancels, and only what changed can err. Errors of different categories are
independent, and each is as large as the model's own range says. A change of one category alone therefore keeps its
sign; a change that trades one category for another may lose it.

That holds where as many blocks run, with as many others on an SM. With another launch, instructions that both
versions have meet others, and a category consists of other waits. The part of the time that is spent otherwise then
consists of many small parts that err on their own, in either version: their variances add up. So it is where hits of
the L1 hang on how many warps are under way: what a version does between its accesses decides that.

When warps meet elsewhere, a time moves by a percent or two for no reason. A time is therefore the mean over machines
nearly alike, and how much the ratio of both versions differs from one of them to the other adds to its error.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

#: Changes below this part of the time are none: repeated measurements of one kernel differ by as much.
RESOLUTION = 0.02
#: The range of a model that gives none, as parts of the time below and above.
_UNKNOWN = (0.3, 0.3)
#: A version takes at least this part of its predicted time, also where the range begins at nothing.
_LEAST = 1e-6


@dataclass(frozen=True)
class Timing:
    """A predicted time: its range, and its parts by stall category."""

    seconds: float
    seconds_low: float | None
    seconds_high: float | None
    causes: Mapping[str, float]
    #: Times over this one on machines nearly alike, in one order; none where nobody asked.
    nearby: tuple[float, ...] = ()
    #: The time over this one if all warps were under way at once; 1 unless hits of the L1 hang on that.
    crowded: float = 1.0

    @property
    def errors(self) -> tuple[float, float]:
        """How far below and above the prediction the time may be, as parts of it."""
        if self.seconds_low is None or self.seconds_high is None:
            return _UNKNOWN
        return 1.0 - self.seconds_low / self.seconds, self.seconds_high / self.seconds - 1.0


def paired_change(before: Timing, after: Timing, *, same_launch: bool = True) -> tuple[float, float, float]:
    """(Change, low, high) of the time as a part of the time before: 0.14 where it is 14 % longer."""
    below, above = (max(pair) for pair in zip(before.errors, after.errors, strict=True))
    names = {*before.causes, *after.causes}
    differences = [after.causes.get(name, 0.0) - before.causes.get(name, 0.0) for name in names]
    up = math.hypot(*(each * (above if each > 0.0 else below) for each in differences)) / before.seconds
    down = math.hypot(*(each * (below if each > 0.0 else above) for each in differences)) / before.seconds
    ratio = after.seconds / before.seconds
    scatter = ratio * _scatter(before, after)
    up, down = math.hypot(up, scatter), math.hypot(down, scatter)
    # What errs in either version on its own moves the logarithm of the ratio. Crowded warps make a version slower.
    ends = () if same_launch else (math.log(max(1.0 - below, _LEAST)), math.log1p(above))
    part = math.sqrt(spent_otherwise(before, after))
    shorter, longer = (part * math.hypot(math.log(each.crowded), *ends) for each in (before, after))
    least, most = ratio * math.exp(-max(down / ratio, shorter)), ratio + max(up, ratio * math.expm1(longer))
    return ratio - 1.0, least - 1.0, most - 1.0


def _scatter(before: Timing, after: Timing) -> float:
    """How much the ratio of both differs between machines nearly alike, as a part of it."""
    if not before.nearby or len(before.nearby) != len(after.nearby):
        return 0.0
    return statistics.pstdev(new / old for old, new in zip(before.nearby, after.nearby, strict=True))


def spent_otherwise(before: Timing, after: Timing) -> float:
    """The part of the time that goes to other categories than in the other version: 0 where shares are equal."""
    names = {*before.causes, *after.causes}
    shares = ([each.causes.get(name, 0.0) / each.seconds for name in names] for each in (before, after))
    return 0.5 * sum(abs(ours - theirs) for ours, theirs in zip(*shares, strict=True))


def told_apart(change: float, low: float, high: float) -> bool:
    """Whether a model can tell a change from none."""
    return (low > 0.0 or high < 0.0) and abs(change) >= RESOLUTION
