"""Which of two measured configurations is faster: how often predictions say so, by how far they are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warplens.explanation.paired import RESOLUTION

#: Names of classes of pairs, and the measured ratios of slower to faster that they span.
CLASSES = {"below 2 %": (1.0, 1.02), "10 to 30 %": (1.1, 1.3), "30 % and more": (1.3, np.inf)}


@dataclass(frozen=True)
class Signs:
    """Pairs of one class: how many there are, have the right sign, and are called the same."""

    pairs: int
    right: int
    same: int

    @property
    def right_share(self) -> float | None:
        return self.right / self.pairs if self.pairs else None

    @property
    def same_share(self) -> float | None:
        return self.same / self.pairs if self.pairs else None


def signs(measured: Sequence[float], predicted: Sequence[float]) -> dict[str, Signs]:
    """All pairs of configurations of one kernel on one GPU, by class."""
    first, second = np.triu_indices(len(measured), 1)
    real, ours = (np.log(np.asarray(times, dtype=float)) for times in (measured, predicted))
    apart, told = real[first] - real[second], ours[first] - ours[second]
    right, same = apart * told > 0.0, np.abs(told) < np.log1p(RESOLUTION)
    found = {}
    for name, (low, high) in CLASSES.items():
        chosen = (np.abs(apart) >= np.log(low)) & (np.abs(apart) < np.log(high))
        found[name] = Signs(int(chosen.sum()), int(right[chosen].sum()), int(same[chosen].sum()))
    return found
