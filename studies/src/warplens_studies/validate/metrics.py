"""How far a prediction is from a reference: the papers' metrics (docs/conventions.md §0, Lemeire §6.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def ipc_error(predicted_cycles: float, reference_cycles: float) -> float:
    """Signed error of IPC: positive where the model is too fast. Its magnitude is Eq. (M-11)."""
    return reference_cycles / predicted_cycles - 1.0


def cycle_error(predicted_cycles: float, reference_cycles: float) -> float:
    """Signed error of cycles: positive where the model is too slow."""
    return predicted_cycles / reference_cycles - 1.0


def log_error(predicted_cycles: float, reference_cycles: float) -> float:
    """|ln(T_model / T_ref)|: 2× too slow counts as much as 2× too fast."""
    return abs(math.log(predicted_cycles / reference_cycles))


def geometric_mean(errors: Sequence[float]) -> float:
    """Geometric mean of absolute errors, which Hong & Kim report; an error of 0 counts as one in a million."""
    return math.exp(sum(math.log(max(abs(error), 1e-6)) for error in errors) / len(errors))


def mape(predicted: Sequence[float], real: Sequence[float]) -> float:
    """Mean absolute percentage error of performance over an occupancy sweep (Lemeire §6.3), as a fraction."""
    p, r = np.asarray(predicted, dtype=np.float64), np.asarray(real, dtype=np.float64)
    return float(np.mean(np.abs(p - r) / r))


def mape_shape(occupancy: Sequence[float], predicted: Sequence[float], real: Sequence[float]) -> float:
    """MAPE after subtracting the best linear fit of the differences: the error of the curve's shape."""
    p, r = np.asarray(predicted, dtype=np.float64), np.asarray(real, dtype=np.float64)
    difference = p - r
    x = np.asarray(occupancy, dtype=np.float64)
    fit = (
        np.polyval(np.polyfit(x, difference, 1), x)
        if len(set(x.tolist())) > 1
        else np.full_like(x, difference.mean())
    )
    return float(np.mean(np.abs(difference - fit) / r))


def to_be_ranked(values: Sequence[float]) -> list[float]:
    """Values rounded to six digits, so that rounding errors do not decide ranks."""
    return [float(f"{value:.6g}") for value in values]


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's ρ; ties share their mean rank."""
    a, b = _ranks(one), _ranks(other)
    a, b = a - a.mean(), b - b.mean()
    norm = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / norm if norm else 0.0


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2.0)[inverse.ravel()]
