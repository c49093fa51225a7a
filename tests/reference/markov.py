"""Chen & Aamodt's Markov chain as GPUMech (§VIII) describes it: the explicit transition matrix, solved."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np


def transition_matrix(threads: int, p: Any, q: Any) -> list[list[Any]]:
    """State k = suspended threads. One active thread issues and is suspended with p; each suspended one wakes with q.

    `p` and `q` may be fractions: the matrix is then exact.
    """
    matrix = [[0 * p for _ in range(threads + 1)] for _ in range(threads + 1)]
    for k in range(threads + 1):
        for woken in range(k + 1):
            chance = comb(k, woken) * q**woken * (1 - q) ** (k - woken)
            if k == threads:  # none can issue
                matrix[k][k - woken] += chance
            else:
                matrix[k][k - woken + 1] += chance * p
                matrix[k][k - woken] += chance * (1 - p)
    return matrix


def all_suspended_exact(threads: int, p: Fraction, q: Fraction) -> Fraction:
    """P(all suspended) by elimination on π·P = π, Σπ = 1 in rational numbers."""
    matrix = transition_matrix(threads, p, q)
    n = threads + 1
    rows = [[matrix[j][i] - (1 if i == j else 0) for j in range(n)] + [Fraction(0)] for i in range(n)]
    rows[-1] = [Fraction(1)] * n + [Fraction(1)]
    for column in range(n):
        pivot = next(row for row in range(column, n) if rows[row][column] != 0)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        lead = rows[column][column]
        rows[column] = [value / lead for value in rows[column]]
        for row in range(n):
            if row != column and rows[row][column] != 0:
                factor = rows[row][column]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
    return rows[threads][n]


def all_suspended_by_iteration(threads: int, p: float, q: float) -> float:
    """P(all suspended) by squaring the matrix until its rows agree."""
    matrix = np.array(transition_matrix(threads, p, q), dtype=np.float64)
    for _ in range(60):
        matrix = matrix @ matrix
        matrix /= matrix.sum(axis=1, keepdims=True)
    return float(matrix[0, threads])
