"""How well predicted times agree with measured ones: errors, order, and what following the prediction costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..formatting import show_share
from ..sweeps.questions import kendall_tau, spearman_rho

#: Pairs of configurations whose measured times differ by less are not worth ordering.
WORTH_ORDERING = 0.1
#: How many of the predicted best a tuner measures.
TRIALS = (1, 10, 50)


@dataclass(frozen=True)
class Agreement:
    """Predicted against measured times of the same configurations; without two of them, numbers are None."""

    configurations: int
    median_error: float | None = None
    mean_error: float | None = None
    #: Median of predicted over measured, and the median error once all predictions are divided by it.
    factor: float | None = None
    median_error_after_factor: float | None = None
    spearman: float | None = None
    kendall: float | None = None
    #: Part of the pairs at least 10 % apart that the prediction orders rightly.
    pairs_in_order: float | None = None
    #: Speed of the fastest among the predicted best 1, 10 and 50, over the speed of the fastest of all.
    best_of: Mapping[int, float] | None = None

    @classmethod
    def of(cls, predicted: Sequence[float], measured: Sequence[float], fastest: float | None = None) -> Agreement:
        """`fastest` is the least measured time where that is not among these."""
        p, m = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
        if len(p) < 2:
            return cls(len(p))
        ratio = p / m
        factor = float(np.median(ratio))
        order = np.argsort(p, kind="stable")
        least = float(m.min()) if fastest is None else fastest
        one, other = np.triu_indices(len(p), 1)
        alike = np.sign(p[one] - p[other]) == np.sign(m[one] - m[other])
        apart = np.abs(np.log(m[one] / m[other])) >= np.log1p(WORTH_ORDERING)
        return cls(
            configurations=len(p),
            median_error=float(np.median(np.abs(ratio - 1.0))),
            mean_error=float(np.mean(np.abs(ratio - 1.0))),
            factor=factor,
            median_error_after_factor=float(np.median(np.abs(ratio / factor - 1.0))),
            spearman=spearman_rho(p, m),
            kendall=kendall_tau(p, m),
            pairs_in_order=float(np.mean(alike[apart])) if apart.any() else None,
            best_of={count: least / float(m[order[:count]].min()) for count in TRIALS},
        )

    def to_dict(self) -> dict[str, Any]:
        plain = {key: None if value is not None and value != value else value for key, value in vars(self).items()}
        return {**plain, "best_of": None if self.best_of is None else dict(self.best_of)}

    def __str__(self) -> str:
        if self.spearman is None or self.median_error is None or self.best_of is None:
            return f"{self.configurations} of the predicted configurations were measured: too few to compare."
        off, ten = show_share(self.median_error), show_share(self.best_of[10])
        return (
            f"Of {self.configurations} that were measured, predictions are {off} off in the median, Spearman "
            f"{self.spearman:.2f}; measuring the predicted best ten reaches {ten} of the best measured speed."
        )
