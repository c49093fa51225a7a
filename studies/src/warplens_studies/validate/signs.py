"""Which of two measured configurations is faster: how often predictions say so, by how far they are apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from warplens.explanation.paired import Timing, paired_change, told_apart

#: Names of classes of pairs, and the measured ratios of slower to faster that they span.
CLASSES = {"below 2 %": (1.0, 1.02), "10 to 30 %": (1.1, 1.3), "30 % and more": (1.3, math.inf)}


@dataclass
class Signs:
    """Pairs of one class: how many there are, have the right sign, and a gate calls the same, or the wrong way."""

    pairs: int = 0
    right: int = 0
    same: int = 0
    wrong: int = 0

    def share(self, count: int) -> float | None:
        return count / self.pairs if self.pairs else None


def signs(measured: Sequence[float], predicted: Sequence[Timing], launches: Sequence[str]) -> dict[str, Signs]:
    """All pairs of configurations of one kernel on one GPU, by class; each as a gate compares two versions."""
    found = {name: Signs() for name in CLASSES}
    configurations = zip(measured, predicted, launches, strict=True)
    for (real, ours, launch), (other_real, other, other_launch) in itertools.combinations(configurations, 2):
        ratio = max(real, other_real) / min(real, other_real)
        name = next((each for each, (low, high) in CLASSES.items() if low <= ratio < high), None)
        if name is None:
            continue
        change = paired_change(ours, other, same_launch=launch == other_launch)
        right = change[0] * (other_real - real) > 0.0
        told = told_apart(*change)
        mine = found[name]
        mine.pairs += 1
        mine.right += right
        mine.same += not told
        mine.wrong += told and not right
    return found
