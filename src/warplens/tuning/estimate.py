"""Estimates times of configurations from those predicted so far, to choose what to predict or to measure next.

A quadratic in the parameters plus a Gaussian process for what it leaves. This
decides only the order of work: every time that is shown is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .space import Configuration, TuningSpace

#: Most predicted configurations that the process remembers: solving for them takes the cube of their number.
MOST_POINTS = 1500
#: Distances (in the unit cube of parameters) over which times are alike, to choose from.
LENGTHS = (0.3, 0.6, 1.2, 2.4)
#: Part of the variance that no distance explains, and how strongly the quadratic is kept small.
NOISE, RIDGE = 0.02, 1e-3


def features_of(space: TuningSpace, indices: Sequence[int]) -> NDArray[np.float64]:
    """Configurations as points: their parameters and the shape of their blocks, each from 0 to 1."""
    chosen = [space.configurations[index] for index in indices]
    columns: list[list[float]] = []
    for name, values in space.parameters.items():
        if name not in space.used or len(values) < 2:
            continue
        if all(isinstance(each, int | float) for each in values):
            columns.append([_scaled(each[name], values) for each in chosen])
        else:
            columns += [[float(each[name] == value) for each in chosen] for value in values[1:]]
    shapes = np.array([_shape(space, each) for each in chosen])
    found = np.hstack([np.array(columns, dtype=np.float64).reshape(len(columns), len(chosen)).T, shapes])
    low, high = found.min(axis=0), found.max(axis=0)
    varied: NDArray[np.float64] = (found[:, high > low] - low[high > low]) / (high - low)[high > low]
    return varied


def _scaled(value: Any, values: Sequence[Any]) -> float:
    """On a logarithmic scale where all values are positive: block sizes double."""
    return math.log2(value) if min(values) > 0 else float(value)


def _shape(space: TuningSpace, configuration: Configuration) -> list[float]:
    """Of a block: threads, how full its last warp is, and its width beside a warp and the banks."""
    try:
        block = space.extents("block", configuration)
    except Exception:
        return [0.0, 0.0, 0.0, 0.0]
    threads, width = max(math.prod(block), 1), max(block[0], 1)
    full = threads / (32 * -(-threads // 32))
    return [math.log2(threads), full, math.log2(min(width, 32)), math.log2(math.gcd(width, 32))]


class Estimate:
    """Log times of all points, with standard deviations, from those of some."""

    def __init__(self, points: NDArray[np.float64], known: Sequence[int], times: NDArray[np.float64]) -> None:
        chosen = np.asarray(known)[-MOST_POINTS:]
        logs = np.log(times)[-MOST_POINTS:]
        basis = _quadratic(points)
        own = basis[chosen]
        normal = own.T @ own + RIDGE * len(chosen) * np.eye(own.shape[1])
        weights = np.linalg.solve(normal, own.T @ logs)
        trend = basis @ weights
        rest = logs - trend[chosen]
        scale = max(float(np.std(rest)), 1e-6)
        distance = np.sqrt(np.maximum(_squares(points, points[chosen]), 0.0))
        best: tuple[float, Any, float] | None = None
        for length in LENGTHS:
            covariance = _kernel(distance[chosen], length) + NOISE * np.eye(len(chosen))
            factor = np.linalg.cholesky(covariance)
            half = np.linalg.solve(factor, rest / scale)
            likelihood = -0.5 * float(half @ half) - float(np.log(np.diag(factor)).sum())
            if best is None or likelihood > best[0]:
                best = likelihood, factor, length
        assert best is not None
        _, factor, length = best
        across = np.linalg.solve(factor, _kernel(distance, length).T)
        self.log_seconds: NDArray[np.float64] = trend + scale * across.T @ np.linalg.solve(factor, rest / scale)
        self.deviation = scale * np.sqrt(np.maximum(1.0 + NOISE - (across**2).sum(axis=0), NOISE))


def _quadratic(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """1, every coordinate, and every product of two."""
    first, second = np.triu_indices(points.shape[1])
    return np.hstack([np.ones((len(points), 1)), points, points[:, first] * points[:, second]])


def _squares(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2.0 * a @ b.T
    return found


def _kernel(distance: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Matérn 3/2: times are continuous in the parameters, but not smooth."""
    scaled = math.sqrt(3.0) * distance / length
    found: NDArray[np.float64] = (1.0 + scaled) * np.exp(-scaled)
    return found
