"""The check of an execution finds what is wrong, where, and by how much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from warplens.suite.catalog import SUITE, Tolerance, check, compare, get_kernel


def executed(kernel):
    """A launch, and its arguments as a perfect execution leaves them."""
    launch = kernel.prepare("small")
    after = list(launch.copied_arguments())
    for index, array in kernel.reference(launch).items():
        after[index] = array.copy()
    return launch, after


@pytest.mark.parametrize("kernel", SUITE.values(), ids=list(SUITE))
def test_a_perfect_execution_passes_and_none_at_all_fails(kernel):
    launch, after = executed(kernel)
    assert check(kernel, launch, after) == []
    assert check(kernel, launch, launch.copied_arguments())


def test_one_wrong_integer_is_found():
    kernel = get_kernel("sepia")
    launch, after = executed(kernel)
    after[1][3, 5, 2] += 1
    (bad,) = check(kernel, launch, after)
    assert (bad.argument, bad.mismatches, bad.first_bad_index) == (1, 1, (3, 5, 2))
    assert bad.max_absolute_error == bad.max_ulps == 1
    assert "argument 1: 1 of" in str(bad)


def test_errors_of_floats_are_measured():
    kernel = replace(get_kernel("vector_add"), tolerance=Tolerance(relative=1e-6))
    launch, after = executed(kernel)
    after[2][7] = np.nextafter(after[2][7], np.float32(9))
    good = compare(kernel, launch, after)[2]
    assert good.ok
    assert 0 < good.max_ulps <= 1
    assert 0 < good.max_relative_error < 1e-6
    assert "agrees" in str(good)
    after[2][9] *= np.float32(1.001)
    (bad,) = check(kernel, launch, after)
    assert (bad.mismatches, bad.first_bad_index) == (1, (9,))
    assert bad.max_relative_error == pytest.approx(0.001, rel=1e-3)


def test_results_near_zero_count_by_the_size_of_the_others():
    kernel = get_kernel("matmul_naive")
    launch, after = executed(kernel)
    expected = after[2].copy()
    smallest = np.unravel_index(np.abs(expected).argmin(), expected.shape)
    after[2][smallest] += np.float32(1e-7)
    assert compare(kernel, launch, after)[2].max_ulps < 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_a_number_never_passes(value):
    kernel = get_kernel("ray_tracing")
    kernel = replace(kernel, tolerance=replace(kernel.tolerance, outlier_share=0.5))
    launch, after = executed(kernel)
    after[2][0, 0] = value
    assert check(kernel, launch, after)[0].first_bad_index == (0, 0)


def test_only_the_stated_share_may_be_far_off():
    kernel = get_kernel("ray_tracing")
    kernel = replace(kernel, tolerance=replace(kernel.tolerance, outlier_share=0.01))
    launch, after = executed(kernel)
    allowed = after[2].size // 100
    after[2].flat[:allowed] += 1
    assert check(kernel, launch, after) == []
    after[2].flat[allowed] += 1
    assert check(kernel, launch, after)[0].mismatches == allowed + 1


def test_inputs_must_not_change():
    kernel = get_kernel("vector_add")
    launch, after = executed(kernel)
    after[0][5] = 0
    assert [bad.argument for bad in check(kernel, launch, after)] == [0]


def test_other_shapes_and_types_are_refused():
    kernel = get_kernel("vector_add")
    launch, after = executed(kernel)
    with pytest.raises(ValueError, match="argument 2 is float64"):
        check(kernel, launch, [*after[:2], after[2].astype(np.float64), after[3]])
