"""Estimates times of configurations from those predicted so far, to choose what to predict or to measure next.

A Gaussian process that learns how steep times are, and over which distance
they are alike in each parameter. This decides only the order of work: every time that is shown is
predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .space import Configuration, TuningSpace

#: Most predicted configurations that the process remembers, and that it learns its lengths from: solving takes the
#: cube of their number.
MOST_POINTS, MOST_LEARNED_FROM = 1500, 300
#: Steps of the logarithm of a length, and the furthest that it goes from a parameter's whole range.
STEPS, FURTHEST = (0.8, 0.8, 0.4, 0.4), 3.0
#: Part of the variance that no distance explains, and that of slopes, before they are learned, and the least.
NOISE, SLOPE, LEAST_NOISE, LEAST_SLOPE = 0.02, 0.1, 1e-4, 1e-2

#: Configurations predicted before the first estimate, at least, and for each dimension of the space.
LEAST_SAMPLE, SAMPLE_PER_DIMENSION = 16, 3
#: Part of the others that comes in the order of the sample: estimates that see only fast configurations misjudge
#: the rest.
FAIR_SHARE = 0.375

Points = NDArray[np.float64]


def features_of(space: TuningSpace, indices: Sequence[int]) -> Points:
    """Configurations as points: their parameters and the shape of their launch, each from 0 to 1."""
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
    varied: Points = (found[:, high > low] - low[high > low]) / (high - low)[high > low]
    return varied


def _scaled(value: Any, values: Sequence[Any]) -> float:
    """On a logarithmic scale where all values are positive: block sizes double."""
    return math.log2(value) if min(values) > 0 else float(value)


def _shape(space: TuningSpace, configuration: Configuration) -> list[float]:
    """Threads of a block, how full its last warp is, its width beside a warp and the banks; extents of the grid."""
    try:
        block, grid = (space.extents(key, configuration) for key in ("block", "grid"))
    except Exception:
        return [0.0] * 7
    threads, width = max(math.prod(block), 1), max(block[0], 1)
    full = threads / (32 * -(-threads // 32))
    return [
        *(math.log2(threads), full, math.log2(min(width, 32)), math.log2(math.gcd(width, 32))),
        *(math.log2(max(each, 1)) for each in (*grid, 1, 1)[:3]),
    ]


def promising(points: Points, seconds: Mapping[int, float], width: int) -> list[int]:
    """Which points to predict next, if the order of points is that of a fair sample.

    `seconds` are those of the points that are known, infinite where a configuration cannot run. The sample comes
    first, then some more of it and those with the lowest time that is likely.
    """
    unknown = [place for place in range(len(points)) if place not in seconds]
    usable = [each for each in seconds.values() if math.isfinite(each)]
    if len(usable) < max(LEAST_SAMPLE, SAMPLE_PER_DIMENSION * points.shape[1]):
        return unknown[:width]
    known, worst = sorted(seconds), max(usable)
    estimate = Estimate(points, known, np.array([min(seconds[place], worst) for place in known]))
    likely = estimate.log_seconds - estimate.deviation
    fair = round(FAIR_SHARE * width)
    others = sorted(unknown[fair:], key=lambda place: likely[place])
    return unknown[:fair] + others[: width - fair]


class Estimate:
    """Log times of all points, with standard deviations, from those of some."""

    def __init__(self, points: Points, known: Sequence[int], times: Points) -> None:
        chosen, logs = np.asarray(known)[-MOST_POINTS:], np.log(times)[-MOST_POINTS:]
        mean, scale = float(logs.mean()), max(float(logs.std()), 1e-6)
        rest = (logs - mean) / scale
        learned = _learned(points[chosen[:MOST_LEARNED_FROM]], rest[:MOST_LEARNED_FROM])
        factor = learned.factor(points[chosen])
        across = np.linalg.solve(factor, learned.alike(points[chosen], points))
        prior = 1.0 + learned.noise + learned.slope * ((points - 0.5) ** 2).sum(axis=1)
        self.log_seconds: Points = mean + scale * (across.T @ np.linalg.solve(factor, rest))
        self.deviation: Points = scale * np.sqrt(np.maximum(prior - (across**2).sum(axis=0), learned.noise))


@dataclass(frozen=True)
class _Covariance:
    """How alike times are: a slope in each coordinate, and what changes over its length."""

    lengths: Points
    noise: float
    slope: float

    @classmethod
    def of(cls, logs: Points) -> _Covariance:
        return cls(np.exp(logs[:-2]), math.exp(logs[-2]), math.exp(logs[-1]))

    def alike(self, a: Points, b: Points) -> Points:
        one, other = a / self.lengths, b / self.lengths
        squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
        return _matern(np.sqrt(np.maximum(squares, 0.0))) + self.slope * (a - 0.5) @ (b - 0.5).T

    def factor(self, points: Points) -> Points:
        alike = self.alike(points, points) + self.noise * np.eye(len(points))
        return np.asarray(np.linalg.cholesky(alike), dtype=np.float64)


def _learned(points: Points, values: Points) -> _Covariance:
    """Under which the values are likeliest; lengths, noise and slope take turns."""
    dimensions = points.shape[1]
    logs = np.array([*[0.0] * dimensions, *np.log((NOISE, SLOPE))])
    lowest = np.array([*[-FURTHEST] * dimensions, *np.log((LEAST_NOISE, LEAST_SLOPE))])
    highest = np.array([*[FURTHEST] * dimensions, 0.0, 0.0])

    def likelihood(at: Points) -> float:
        factor = _Covariance.of(at).factor(points)
        half = np.linalg.solve(factor, values)
        return -0.5 * len(values) * math.log(float(half @ half)) - float(np.log(np.diag(factor)).sum())

    best = likelihood(logs)
    for step in STEPS:
        for turn, away in ((turn, away) for turn in range(len(logs)) for away in (step, -step)):
            tried = logs.copy()
            tried[turn] = np.clip(tried[turn] + away, lowest[turn], highest[turn])
            if (found := likelihood(tried)) > best:
                best, logs = found, tried
    return _Covariance.of(logs)


def _matern(distance: Points) -> Points:
    """Matérn 3/2: times are continuous in the parameters, but not smooth."""
    scaled = math.sqrt(3.0) * distance
    found: Points = (1.0 + scaled) * np.exp(-scaled)
    return found
