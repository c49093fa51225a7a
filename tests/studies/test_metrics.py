"""Metrics of validation, against their definitions (docs/conventions.md §0, Lemeire §6.3)."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from warplens_studies.validate import cycle_error, ipc_error, log_error, mape, mape_shape, rank_correlation
from warplens_studies.validate.metrics import to_be_ranked

cycles = st.floats(1, 1e9)
numbers = st.floats(0.1, 1e4)


def test_errors_of_a_prediction_that_is_twice_too_slow_or_too_fast():
    assert (ipc_error(200.0, 100.0), cycle_error(200.0, 100.0)) == (-0.5, 1.0)
    assert (ipc_error(50.0, 100.0), cycle_error(50.0, 100.0)) == (1.0, -0.5)
    assert log_error(200.0, 100.0) == log_error(50.0, 100.0) == math.log(2)


@given(cycles, cycles)
def test_errors_agree_with_each_other(predicted, reference):
    assert (1 + ipc_error(predicted, reference)) * (1 + cycle_error(predicted, reference)) == pytest.approx(1)
    assert math.exp(log_error(predicted, reference)) == pytest.approx(
        max(predicted / reference, reference / predicted)
    )
    assert log_error(predicted, reference) == pytest.approx(log_error(reference, predicted), abs=1e-12)


def test_a_perfect_prediction_has_no_error():
    assert ipc_error(7.0, 7.0) == cycle_error(7.0, 7.0) == log_error(7.0, 7.0) == 0.0


def test_mape_by_hand():
    assert mape([11.0, 18.0], [10.0, 20.0]) == pytest.approx((0.1 + 0.1) / 2)
    assert mape([3.0], [2.0]) == 0.5


def test_mape_of_the_shape_takes_off_the_best_line():
    """A constant or linear difference leaves nothing; a bend leaves its distance from the line."""
    occupancy, real = [1, 2, 3, 4], [10.0, 20.0, 25.0, 27.0]
    assert mape_shape(occupancy, [r + 5 for r in real], real) == pytest.approx(0, abs=1e-12)
    assert mape_shape(occupancy, [r + 2 * o for r, o in zip(real, occupancy, strict=True)], real) == pytest.approx(
        0, abs=1e-12
    )
    # Differences 0, 0, 3 over 1, 2, 3: the line is -0.5, 1, 2.5, and what is left 0.5, -1, 0.5.
    assert mape_shape([1, 2, 3], [10.0, 10.0, 13.0], [10.0, 10.0, 10.0]) == pytest.approx((0.05 + 0.1 + 0.05) / 3)


def test_mape_of_the_shape_at_one_occupancy_takes_off_the_mean():
    assert mape_shape([4], [15.0], [10.0]) == 0.0
    assert mape_shape([4, 4], [12.0, 10.0], [10.0, 10.0]) == pytest.approx(0.1)


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=12))
def test_the_shape_does_not_depend_on_a_constant_offset(points):
    occupancy = list(range(1, len(points) + 1))
    predicted, real = (list(column) for column in zip(*points, strict=True))
    moved = [p + 3.0 for p in predicted]
    assert mape_shape(occupancy, moved, real) == pytest.approx(mape_shape(occupancy, predicted, real), abs=1e-6)


def spearman(one: list[float], other: list[float]) -> float:
    """1 − 6 Σd² / (n (n² − 1)), which holds where no two values are alike."""
    n = len(one)
    ranks = [sorted(values).index(value) for values in (one, other) for value in values]
    squares = sum((a - b) ** 2 for a, b in zip(ranks[:n], ranks[n:], strict=True))
    return 1 - 6 * squares / (n * (n * n - 1))


@given(st.lists(numbers, min_size=2, max_size=9, unique=True), st.randoms(use_true_random=False))
def test_rank_correlation_is_spearmans(values, random):
    other = values[:]
    random.shuffle(other)
    assert rank_correlation(values, other) == pytest.approx(spearman(values, other), abs=1e-12)
    # Ranks alone count.
    assert rank_correlation([v**3 for v in values], other) == pytest.approx(spearman(values, other), abs=1e-12)


def test_rank_correlation_of_all_orders_of_four():
    found = [rank_correlation([1, 2, 3, 4], list(order)) for order in permutations((1, 2, 3, 4))]
    assert max(found) == pytest.approx(1.0)
    assert min(found) == pytest.approx(-1.0)
    assert sum(found) == pytest.approx(0.0)


def test_ties_share_their_mean_rank():
    """Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: Pearson's correlation of the ranks."""
    expected = np.corrcoef([1, 2.5, 2.5, 4], [1, 2, 3, 4])[0, 1]
    assert rank_correlation([10, 20, 20, 30], [1, 2, 3, 4]) == pytest.approx(expected)


@given(st.lists(st.integers(0, 3), min_size=3, max_size=10), st.lists(st.integers(0, 3), min_size=3, max_size=10))
def test_rank_correlation_with_ties_is_symmetric_and_bounded(one, other):
    n = min(len(one), len(other))
    one, other = one[:n], other[:n]
    assume(len(set(one)) > 1 and len(set(other)) > 1)
    found = rank_correlation(one, other)
    assert -1 - 1e-12 <= found <= 1 + 1e-12
    assert rank_correlation(other, one) == pytest.approx(found)
    assert rank_correlation([-value for value in one], other) == pytest.approx(-found)


def test_rank_correlation_without_any_order_is_0():
    assert rank_correlation([5, 5, 5], [1, 2, 3]) == 0.0


def test_values_that_differ_by_rounding_have_no_order():
    limit = 528.0
    noisy = [limit, limit * (1 + 1e-12), limit * (1 - 1e-12)]
    assert rank_correlation(to_be_ranked(noisy), [1, 2, 3]) == 0.0
    assert to_be_ranked([1.0, 1.00001]) == [1.0, 1.00001]
